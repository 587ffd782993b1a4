"""What the verification asks of the userland, and when a limit is judged."""

from __future__ import annotations

import os
import resource
import subprocess

import pytest

from numaforge import shell
from numaforge.verification.live import Live


def told(function: str, *arguments: str, path: str) -> dict[str, str]:
    script = shell.library("verification/probe", "roles/host/probe") + shell.call(function, arguments)
    done = subprocess.run(
        ["dash", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": f"{path}:{os.environ['PATH']}"},
    )
    lines = (line.removeprefix("host ").split("\t", 1) for line in done.stdout.splitlines())
    return {line[0]: line[1] for line in lines}


@pytest.fixture
def path(tmp_path):
    """Give a folder with a systemctl that names this process as the unit's, and a timedatectl."""
    for name, says in (("systemctl", str(os.getpid())), ("timedatectl", "yes")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho {says}\n")
        program.chmod(0o755)
    return str(tmp_path)


def test_limits_are_those_of_the_units_process(path):
    said = told("tell_limits", "containerd.service", path=path)
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert said["LimitNOFILE containerd.service"] == str(soft)
    assert {"LimitSTACK containerd.service", "LimitCORE containerd.service"} <= {*said}
    assert int(said["since containerd.service"]) > 0


def test_the_clock_is_asked_of_systemd(path):
    assert told("tell_clock", path=path) == {"clock": "yes"}


DROP_IN = "/etc/systemd/system/containerd.service.d/90-numaforge-limits.conf"
SINCE = {"since containerd.service": "20"}


@pytest.mark.parametrize(
    ("changed", "said", "started"),
    [
        pytest.param({DROP_IN: 10}, SINCE, True, id="after it"),
        pytest.param({DROP_IN: 30}, SINCE, False, id="before it"),
        pytest.param({DROP_IN: 10}, {}, False, id="the unit does not run"),
        pytest.param({}, SINCE, False, id="the file is gone"),
    ],
)
def test_a_limit_counts_once_the_unit_has_started_with_it(changed, said, started):
    live = Live(
        {}, said={"changed": [(path, str(time)) for path, time in changed.items()], "host": [*said.items()]}
    )
    assert live.started_with("containerd.service", DROP_IN) is started
