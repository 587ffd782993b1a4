"""An audit of live hosts: trouble costs a line each, and ten faults in 300 are found and no more."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.paths import REPOSITORY
from numaforge.cli import run
from numaforge.lib import bounded
from numaforge.lib.errors import ExitCode
from numaforge.machine.snapshot.model import SCHEMA
from tests.fixtures.fleet_snapshots import FAULTS, fleet_of
from tests.ssh.machine import machine
from tests.ssh.many_hosts import address, know, listening
from tests.ssh.peak_memory import MEASURED, PEAK_MIB

COUNTS = {"dgx": 200, "b200": 60, "trays": 40}
TROUBLES = {
    "hangs": ("exec sleep 3600", "no answer within 45 s"),
    "floods": ("exec head -c 1073741824 /dev/zero", f"sends more than {bounded.MOST_MIB} MiB"),
    "lies": ("echo numaforge answers; exit", "the host's answer is cut off"),
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


ANSWER = """#!/bin/sh
# What is asked is read; the host's address says who answers.
cat > /dev/null
set -- $SSH_CONNECTION
exec cat "/srv/answers/$3"
"""


def answer(document: Mapping[str, Any]) -> str:
    """Return what the script of a snapshot prints on a host that is so."""
    texts = {"t": document["files"], "c": {**document["commands"], "nvml": json.dumps(document["nvml"])}}
    blobs = [
        f"{kind} {name}\n {text.encode('utf-8', 'surrogateescape').hex()}"
        for kind, held in texts.items()
        for name, text in held.items()
    ]
    links = [
        f"lrwxrwxrwx 1 root root 0 {path.lstrip('/')} -> {target}"
        for path, target in document["links"].items()
    ]
    begin = ("numaforge answers", "numaforge part right", "root", f"numaforge part snapshot {SCHEMA}")
    return "\n".join([*begin, *blobs, *links, "numaforge ended 0", ""])


@pytest.mark.long
def test_exactly_ten_faults_on_300_hosts_are_found(start_sandbox, tmp_path):
    sandbox = start_sandbox({**machine(), "/usr/local/bin/answer": ANSWER})
    listener = listening(sandbox, sum(COUNTS.values()), "many_config", "ForceCommand /usr/local/bin/answer\n")
    know(sandbox, [listener], sum(COUNTS.values()))
    data = {**sandbox.data(), "ssh_port": listener.port}
    changes, nodes = {fault.host: fault.change for fault in FAULTS}, []
    sandbox.path("/srv/answers").mkdir(parents=True)
    for number, (name, make) in enumerate(fleet_of(**COUNTS, trimmed=True).items(), 1):
        document = make()
        changes.get(name, lambda _: None)(document)
        sandbox.path(f"/srv/answers/{address(number)}").write_text(answer(document))
        nodes.append((name, {**data, "ssh_hostname": address(number)}))
    inventory, found = tmp_path / "inventory.py", tmp_path / "audit.json"
    inventory.write_text(f"nodes = {nodes!r}\n")
    assert run(["audit", str(inventory), "--timeout", "1800", "--to", str(found), "-q"]) == ExitCode.NO
    machines = json.loads(found.read_text())["machines"]
    assert len(machines) == len(nodes)
    told = {each["name"]: frozenset(finding["id"] for finding in each["findings"]) for each in machines}
    usual = {
        kind: Counter(ids for name, ids in told.items() if name.startswith(kind)).most_common(1)[0][0]
        for kind in ("dgx", "b200", "tray")
    }
    unusual = {name: ids - usual[name.partition("-")[0]] for name, ids in told.items()}
    unusual = {name: ids for name, ids in unusual.items() if ids}
    assert unusual.keys() == {fault.host for fault in FAULTS}
    for fault in FAULTS:
        assert fault.rules <= unusual[fault.host]
