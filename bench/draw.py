"""Measure drawing and printing: milliseconds per picture and table, from 2 to 512 CPUs."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console

from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.report.plan import plan_in_full
from numaforge.report.svg import draw
from numaforge.report.tables import topology_tables
from tests.fixtures import machines

ROUNDS = 5


def best_ms(work: Callable[[], object]) -> float:
    """Return the shortest of a few runs, in milliseconds."""
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times) * 1000


def printed(renderable: object) -> str:
    out = io.StringIO()
    Console(file=out, width=80).print(renderable)
    return out.getvalue()


def main() -> None:
    small = load_profile({"name": "small", "memory": {"kube_reserved": "256Mi", "system_reserved": "256Mi"}})
    print(f"{'machine':<12}{'CPUs':>6}{'draw ms':>10}{'SVG KiB':>10}{'topology ms':>13}{'plan ms':>10}")
    for name, topology in {
        "laptop": machines.laptop(),
        "lab node": machines.lab_node(),
        "DGX H100": machines.dgx_h100(),
        "512 CPUs": machines.big_512(),
    }.items():
        plan = plan_node(topology, small)
        size = len(draw(topology, plan)) / 1024
        timings = (
            best_ms(lambda topology=topology, plan=plan: draw(topology, plan)),
            best_ms(lambda topology=topology: printed(topology_tables(topology))),
            best_ms(lambda plan=plan: printed(plan_in_full(plan))),
        )
        print(
            f"{name:<12}{len(topology.online):>6}{timings[0]:>10.1f}{size:>10.0f}{timings[1]:>13.1f}{timings[2]:>10.1f}"
        )
    command = [sys.executable, "-m", "numaforge", "--help"]
    help_ms = best_ms(lambda: subprocess.run(command, check=True, capture_output=True))
    print(f"numaforge --help: {help_ms:.0f} ms")


if __name__ == "__main__":
    main()
