"""What a node that plans itself costs its boot: the first one, and each later start of its kubelet.

A sandbox of tests/ssh stands for the node; its files are on a memory disk, and nothing waits for drivers. CPU
time is that of boot.sh and of numaforge, without what systemd runs of the transaction. As in an image,
numaforge is compiled first.

    bench/first_boot.py [--runs N]
"""

from __future__ import annotations

import argparse
import compileall
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.paths import REPOSITORY
from numaforge.image.first_boot.stamp import boot_script
from tests.ssh.images import image_files, prepare
from tests.ssh.sandbox import Sandbox, cannot_run, free_port, running_sandbox


def main() -> None:
    parser = argparse.ArgumentParser(description="measure what a self-planning node costs its boot")
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args()
    if reason := cannot_run():
        sys.exit(f"no measurement: {reason}")
    for folder in ("src/numaforge", "roles"):
        compileall.compile_dir(REPOSITORY / folder, quiet=1)
    first, later = zip(*(costs() for _ in range(chosen.runs)), strict=True)
    for what, measured in (("the first boot", first), ("each later start of the kubelet", later)):
        wall, cpu = (statistics.median(values) for values in zip(*measured, strict=True))
        print(f"{what:32} {wall:6.2f} s, of CPU {cpu:6.3f} s")


def costs() -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the costs of a node's first boot, and of a later start of its kubelet."""
    with (
        tempfile.TemporaryDirectory() as name,
        running_sandbox(Path(name), image_files(free_port())) as node,
    ):
        prepare(node)
        return cost(node), cost(node)


def cost(node: Sandbox) -> tuple[float, float]:
    """Return the wall time and the CPU time of what stands before a start of the kubelet."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = node.run(boot_script())
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
