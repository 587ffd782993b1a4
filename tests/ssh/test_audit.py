"""An audit of live hosts: trouble costs a line each, and ten faults in 300 are found and no more."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from numaforge.lib import bounded
from tests.ssh.machine import machine
from tests.ssh.peak_memory import MEASURED, PEAK_MIB

TROUBLES = {
    "hangs": ("exec sleep 3600", "no answer within 45 s"),
    "floods": ("exec head -c 1073741824 /dev/zero", f"sends more than {bounded.MOST_MIB} MiB"),
    "lies": ("echo numaforge answers; exit", "the connection was cut"),
}


@pytest.mark.long
def test_troubled_hosts_cost_one_line_each_bounded_memory_and_no_other_host(start_sandbox, tmp_path):
    nodes = {"good": start_sandbox(machine()).data()}
    for name, (shell, _) in TROUBLES.items():
        sandbox = start_sandbox(machine())
        sandbox.log_in_with(shell)
        nodes[name] = sandbox.data()
    inventory, answer = tmp_path / "inventory.py", tmp_path / "audit.json"
    inventory.write_text(f"nodes = {list(nodes.items())!r}\n")
    command = [str(Path(sys.executable).with_name("numaforge")), "audit", str(inventory)]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *command, "--timeout", "45", "--to", str(answer)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr
    machines = {each["name"]: each["findings"] for each in json.loads(answer.read_text())["machines"]}
    assert machines.pop("good") == []
    said = {name: [finding["evidence"] for finding in findings] for name, findings in machines.items()}
    assert said.keys() == TROUBLES.keys()
    for name, (_, why) in TROUBLES.items():
        assert len(said[name]) == 1
        assert why in said[name][0]
    assert int(done.stdout.rpartition("peak ")[2]) < PEAK_MIB
