"""Measure an audit of saved snapshots, with full pictures and all formats, and the page of many machines.

The fleet is made of the machines in tests/machines: DGX H100, one in five HGX B200, two in 15 GB200 trays.
Time is by the clock and of all processes; memory is of all processes, shared pages counted once.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.fleet import peak_memory
from tests.fixtures.fleet_snapshots import FAULTS, fleet_of, write_fleet

FORMATS = ("audit.html", "audit.json", "audit.sarif", "audit.xml", "audit.prom")


def main() -> None:
    parser = argparse.ArgumentParser(description="measure an audit of saved snapshots")
    parser.add_argument("counts", nargs="*", type=int, default=[300, 1000], metavar="HOSTS")
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores, a load of {os.getloadavg()[0]:.1f} before; the best of {chosen.runs} runs")
    print(f"{'hosts':>5}  {'':24} {'wall s':>7} {'CPU s':>7} {'MiB':>5}")
    for count in chosen.counts:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            b200, trays = count // 5, count * 2 // 15
            fleet = fleet_of(count - b200 - trays, b200, trays)
            faults = {fault.host: fault.change for fault in FAULTS if fault.host in fleet}
            write_fleet(folder / "fleet", fleet, faults)
            for what, files in (("the screen", ()), ("all formats, to files", FORMATS)):
                words = [word for file in files for word in ("--to", str(folder / file))]
                wall, cpu, peak = min(measured(folder / "fleet", words) for _ in range(chosen.runs))
                print(f"{count:5}  {what:24} {wall:7.1f} {cpu:7.1f} {peak:5.0f}", flush=True)
            size = (folder / "audit.html").stat().st_size
            print(f"       the page has {size / 2**20:.1f} MiB")


def measured(fleet: Path, words: list[str]) -> tuple[float, float, float]:
    """Return seconds by the clock, CPU seconds, and MiB."""
    command = [sys.executable, "-m", "numaforge", "audit", str(fleet), "-q", *words]
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    with peak_memory(process.pid) as peak:
        code = process.wait()
    wall, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if code not in (0, 1):
        sys.exit(f"{' '.join(command)} ended with {code}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, peak[0] / 1024


if __name__ == "__main__":
    main()
