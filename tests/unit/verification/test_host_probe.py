"""What the verification asks of the userland, and when a limit is judged."""

import os
import re
import resource
import subprocess
from pathlib import Path

import pytest

from numaforge.lib import shell
from numaforge.verification.live import Live
from numaforge.verification.table import all_promises
from tests.fixtures.tables import cases

UNITS = ("numaforge-check.timer", "containerd.service")


def told(function: str, *arguments: str, path: str) -> dict[str, str]:
    script = (
        shell.library("lib/kernel_files", "lib/units", "verification/probe", "roles/host/probe")
        + f"tell_units MainPID {' '.join(UNITS)} > /dev/null\n"
        + shell.call(function, arguments)
    )
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
    """Give a folder with a timedatectl and with a systemctl that names this process as containerd's.

    It knows no unit "strange.service": it prints no word for it, and says so on stderr.
    """
    systemctl = f"""#!/bin/sh
echo "$*" >> {tmp_path}/asked
case $1 in
show)
    for unit; do
        case $unit in
        containerd.service) printf 'MainPID={os.getpid()}\\nActiveState=active\\n\\n' ;;
        *.service) printf 'MainPID=0\\nActiveState=inactive\\n\\n' ;;
        *.timer) printf 'ActiveState=failed\\n\\n' ;;
        esac
    done
    ;;
is-enabled)
    shift
    for unit; do
        case $unit in
        strange.service) echo "Failed to get unit file state for $unit" >&2; exit 1 ;;
        *.timer) echo static ;;
        *) echo enabled ;;
        esac
    done
    ;;
esac
"""
    for name, text in (("systemctl", systemctl), ("timedatectl", "#!/bin/sh\necho yes\n")):
        program = tmp_path / name
        program.write_text(text)
        program.chmod(0o755)
    return str(tmp_path)


def units(path, *names):
    said = told("tell_units", "MainPID", *names, path=path)
    return [(said[f"active {name}"], said[f"enabled {name}"]) for name in names]


def test_all_units_take_two_systemd_queries(path):
    told(":", path=path)
    units = " ".join(UNITS)
    asked = [f"show -p ActiveState,MainPID {units}", f"is-enabled {units}"]
    assert Path(path, "asked").read_text().splitlines() == asked


@pytest.mark.parametrize("role", [*dict.fromkeys(role for role, _ in all_promises())], ids=lambda r: r.folder)
def test_role_declares_every_unit_property_its_shell_reads(role):
    asked = {each for owner, promise in all_promises() if owner is role for each in promise.properties}
    probe = f"roles/{role.folder}/probe"
    read = re.findall(r"unit_says \S+ (\w+)", shell.library(probe) if shell.exists(probe) else "")
    assert {*read} <= {"ActiveState", *asked}


@cases(
    "names, states",
    {
        "each has its own answer": (UNITS, [("failed", "static"), ("active", "enabled")]),
        "one that systemd does not know keeps nothing from the others": (
            ("strange.service", "containerd.service"),
            [("inactive", ""), ("active", "enabled")],
        ),
        "or is the only one": (("strange.service",), [("inactive", "")]),
    },
)
def test_each_unit_has_its_own_systemd_state(path, names, states):
    assert units(path, *names) == states


def test_limits_are_read_from_the_unit_process(path):
    said = told("tell_limits", "containerd.service", path=path)
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert said["LimitNOFILE containerd.service"] == str(soft)
    assert {"LimitSTACK containerd.service", "LimitCORE containerd.service"} <= {*said}
    assert int(said["since containerd.service"]) > 0


def test_clock_sync_is_read_from_systemd(path):
    assert told("tell_clock", path=path) == {"clock": "yes"}


DROP_IN = "/etc/systemd/system/containerd.service.d/90-numaforge-limits.conf"
SINCE = {"since containerd.service": "20"}


@cases(
    "changed, said, started",
    {
        "after it": ({DROP_IN: 10}, SINCE, True),
        "before it": ({DROP_IN: 30}, SINCE, False),
        "the unit does not run": ({DROP_IN: 10}, {}, False),
        "the file is gone": ({}, SINCE, False),
    },
)
def test_limit_counts_only_after_the_unit_restarts(changed, said, started):
    live = Live(
        {}, said={"changed": [(path, str(time)) for path, time in changed.items()], "host": [*said.items()]}
    )
    assert live.started_with("containerd.service", DROP_IN) is started
