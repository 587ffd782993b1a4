"""Measure the capture of 512 CPUs on 16 NUMA nodes, under dash and busybox, and its reading."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from numaforge.machine.snapshot.capture import from_local, from_root, parse_output, script
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.document import to_document
from numaforge.machine.topology.read import read_topology
from tests.fixtures.machines import big_512
from tests.fixtures.trees import write_tree

RUNS = 3
CAPTURE_LIMIT_SECONDS, PARSE_LIMIT_SECONDS = 2.0, 0.5


def best(action):
    """Return the shortest of a few runs in seconds, and what the last one gave."""
    shortest, result = float("inf"), None
    for _ in range(RUNS):
        started = time.perf_counter()
        result = action()
        shortest = min(shortest, time.perf_counter() - started)
    return shortest, result


def shells(folder):
    """Yield a name, a command line and an environment for each shell that is installed."""
    if dash := shutil.which("dash"):
        yield "dash, coreutils", [dash, "-s"], None
    if busybox := shutil.which("busybox"):
        listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout
        for applet in listed.split():
            (folder / applet).symlink_to(busybox)
        yield "busybox alone", [str(folder / "sh"), "-s"], {"PATH": str(folder)}


def main():
    with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as applets:
        machine = big_512()
        write_tree(Path(root), "big-512")
        files = sum(1 for path in Path(root).rglob("*") if path.is_file())
        print(f"machine: {len(machine.online)} CPUs, {len(machine.numa_nodes)} NUMA nodes, {files} files")
        text, over = script(root), []
        for name, command, environment in shells(Path(applets)):

            def capture(command=command, environment=environment):
                return subprocess.run(
                    command, input=text, capture_output=True, text=True, check=True, env=environment
                ).stdout

            seconds, output = best(capture)
            megabytes = len(output) / 1e6
            print(f"capture, {name}: {seconds:.2f} s of {CAPTURE_LIMIT_SECONDS} s, {megabytes:.1f} MB")
            over += [name] if seconds > CAPTURE_LIMIT_SECONDS else []
        seconds, topology = best(lambda: read_topology(parse_output(output)))
        assert topology.numa_nodes == machine.numa_nodes
        assert topology.cores == machine.cores
        print(f"parse: {seconds:.2f} s (limit {PARSE_LIMIT_SECONDS} s)")
        over += ["parse"] if seconds > PARSE_LIMIT_SECONDS else []
        print(f"of it, reading the output: {best(lambda: parse_output(output))[0]:.2f} s")
        print(f"document: {best(lambda: to_document(topology))[0]:.3f} s")
        saved = parse_output(output).to_json()
        seconds, _ = best(lambda: Snapshot.from_json(saved))
        print(f"load a saved snapshot of {len(saved) / 1e6:.1f} MB: {seconds:.2f} s")
        print(f"read the folder without a shell: {best(lambda: from_root(Path(root)))[0]:.2f} s")
    print(f"capture of this machine: {best(from_local)[0]:.2f} s, script {len(script()) / 1e3:.0f} kB")
    return f"over the limit: {', '.join(over)}" if over else 0


if __name__ == "__main__":
    sys.exit(main())
