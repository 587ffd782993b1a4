"""Measure a run of a node's own watch on a machine of 384 CPUs: CPU time, and how many processes it takes.

Files in memory stand in for the kernel's.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from numaforge.machine.topology.saved import ready_machine
from tests.fixtures.watched_folder import WatchedFolder

MACHINE = "epyc-nps4"
PROFILE: dict[str, Any] = {
    "extends": "training",
    "name": "watched",
    "tuning": {"governor": "performance"},
    "hugepages": [{"size": "1Gi", "count_per_numa_node": 8}],
    "system": {"daemons": "reserved"},
    "watch": {"enabled": True},
}


def main() -> None:
    parser = argparse.ArgumentParser(description="measure a run of a node's own watch")
    parser.add_argument("--runs", type=int, default=20)
    chosen = parser.parse_args()
    machine = ready_machine(MACHINE)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        node = WatchedFolder(Path(name))
        node.install(machine, PROFILE)
        node.script()
        command = [*node.shell, str(node.folder / "watch.sh"), "watch", str(node.configuration)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # the first one tells its verdict
        cpu = min(cpu_seconds(command) for _ in range(chosen.runs))
        files = sum(1 for file in node.folder.rglob("*") if file.is_file())
        print(f"{MACHINE}: {len(machine.online)} CPUs, {len(machine.numa_nodes)} NUMA nodes, {files} files")
        print(f"CPU time of the best of {chosen.runs} runs: {cpu * 1000:.0f} ms")
        print(f"processes: {processes(command)}")


def cpu_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def processes(command: list[str]) -> str:
    """Return how many there were, by the next number of a namespace that has no others."""
    if os.geteuid():
        return "root alone can count them"
    counts = "subprocess.run(sys.argv[1:], check=True); print(os.fork() or os._exit(0))"
    last = f"import os, subprocess, sys; {counts}"
    alone = ["unshare", "--pid", "--fork", sys.executable, "-c", last, *command]
    done = subprocess.run(alone, check=True, capture_output=True, text=True)
    return str(int(done.stdout.split()[-1]) - 2)  # Python is the first, and its child the last


if __name__ == "__main__":
    main()
