"""A host that prints without end, or what steers a terminal, fails alone and in one line."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from numaforge.lib import bounded
from tests.ssh.machine import machine
from tests.ssh.peak_memory import MEASURED, PEAK_MIB
from tests.ssh.sandbox import pyinfra
from tests.ssh.standin_systemd import standin_systemd

LIMIT = f"sends more than {bounded.MOST_MIB} MiB"


FLOODS = {
    "one line of 1 GiB": "exec head -c 1073741824 /dev/zero",
    "lines without end": "exec yes",
    "empty lines without end": "exec yes ''",
    "complaints without end": "exec yes >&2",
    "a packed answer of 1 GiB of zeros": (
        "echo numaforge answers; echo numaforge packed; head -c 1073741824 /dev/zero | gzip -1 | base64; exit"
    ),
    "a packed answer of empty lines": (
        "echo numaforge answers; echo numaforge packed; yes '' | head -c 268435456 | gzip -1 | base64; exit"
    ),
}


@pytest.fixture
def node(start_sandbox, port):
    return start_sandbox({**machine(), **standin_systemd(port)})


def measured(
    tmp_path: Path, node, program: str, *arguments: str
) -> tuple[subprocess.CompletedProcess[str], int]:
    """Run a command against the host, and return what it printed and its peak of memory in MiB."""
    data = node.data() | {"numaforge_profile": "training"}
    (tmp_path / "inventory.py").write_text(f"nodes = [('flooding', {data!r})]\n")
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(Path(sys.executable).with_name(program)), *arguments],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done, int(done.stdout.rpartition("peak ")[2])


@pytest.mark.variants(1)
@pytest.mark.parametrize("flood", [pytest.param(shell, id=rule) for rule, shell in FLOODS.items()])
def test_endless_output_of_a_host_is_cut_at_the_limit_with_one_message(tmp_path, node, flood):
    node.log_in_with(flood)
    inventory = str(tmp_path / "inventory.py")
    done, peak = measured(tmp_path, node, "pyinfra", "--dry", inventory, "deploys/site.py")
    assert done.returncode == 1
    assert done.stdout.count(LIMIT) == 1
    assert f"flooding: {LIMIT}" in done.stdout.replace("\n  ", ": ")
    assert "Traceback" not in done.stdout
    assert peak < PEAK_MIB


def test_suite_limits_the_output_of_a_host(tmp_path, node):
    node.log_in_with("exec yes")
    inventory = str(tmp_path / "inventory.py")
    done, peak = measured(tmp_path, node, "numaforge", "verify", inventory)
    assert done.returncode == 1
    assert LIMIT in done.stdout
    assert peak < PEAK_MIB


HOSTILE = r"\033]0;owned\007\033[2J\033[8mhidden\r\233"


def controls(text: str) -> set[str]:
    """Return the control characters of a text but those of lines and of colours as pyinfra has them."""
    without_colours = re.sub(r"\x1b\[(0|1|3\d|9\d)m", "", text)
    return {each for each in without_colours if not each.isprintable() and each not in "\n\t"}


@pytest.mark.variants(3)
@pytest.mark.parametrize("stream", ["1", "2"], ids=["output", "complaint"])
@pytest.mark.parametrize("options", [(), ("-v",), ("-vvv",)], ids=["plain", "-v", "-vvv"])
def test_control_sequences_do_not_reach_the_terminal(tmp_path, node, stream, options):
    node.log_in_with(f"printf '{HOSTILE}\\n' >&{stream}; case $2 in *steer*) exit 3 ;; esac")
    deploy = tmp_path / "deploy.py"
    deploy.write_text("from pyinfra.operations import server\nserver.shell(commands=['echo steer'])\n")
    run = pyinfra(tmp_path, {"hostile": node.data()}, "-y", *options, str(deploy))
    assert "hidden" in run.stdout
    assert controls(run.stdout) == set()


def test_host_output_in_errors_has_no_control_characters(tmp_path, node):
    node.log_in_with(f"printf '{HOSTILE}\\n' >&2; exit 1")
    run = pyinfra(tmp_path, {"hostile": node.data()}, "--dry", "deploys/site.py")
    assert run.returncode == 1
    assert controls(run.stdout) == set()
