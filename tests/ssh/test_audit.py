"""An audit of live hosts: one that hangs, one that floods, one that lies cost a line each, and no other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from lab.paths import REPOSITORY
from numaforge import bounded
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.test_output import MEASURED, PEAK_MIB

TROUBLES = {
    "hangs": ("exec sleep 3600", "no answer within 45 s"),
    "floods": ("exec head -c 1073741824 /dev/zero", f"sends more than {bounded.MOST_MIB} MiB"),
    "lies": ("echo numaforge answers; exit", "the host's answer is cut off"),
}


def test_hosts_in_trouble_cost_a_line_each_and_neither_memory_nor_the_others(
    start_sandbox: StartSandbox, tmp_path: Path
) -> None:
    nodes = {"good": start_sandbox(machine()).data()}
    for name, (shell, _) in TROUBLES.items():
        sandbox = start_sandbox(machine())
        sandbox.log_in_with(shell)
        nodes[name] = sandbox.data()
    inventory, answer = tmp_path / "inventory.py", tmp_path / "audit.json"
    inventory.write_text(f"nodes = {list(nodes.items())!r}\n")
    command = [str(Path(sys.executable).with_name("numaforge")), "audit", str(inventory)]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *command, "--within", "45", "--to", str(answer)],
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
