"""Measure what the controller computes for a fleet: the plan and its files, of 300 DGX H100 and of 512 CPUs.

CPU time of one core. The hosts differ in their names and in the GPUs' UUIDs, as machines of one kind do.
One of 512 CPUs and 34 NUMA nodes is laid out as files and read.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.planning.render import render_plan
from tests.fixtures.machines import big_512, dgx_h100, many_numa_nodes

HOSTS = 300
LIMIT_MILLISECONDS = 8.0  # for each host after the first
MANY_NUMA_NODES_LIMIT_MILLISECONDS = 50.0
ROUNDS = 9
PROFILES = ("training", "best-effort-mixed")


def named(machine: NodeTopology, number: int) -> NodeTopology:
    gpus = (replace(gpu, uuid=f"GPU-{number}-{gpu.pci_address}") for gpu in machine.gpus)
    return replace(machine, hostname=f"gpu-{number}", gpus=tuple(gpus))


def cpu_milliseconds(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return (time.process_time() - started) * 1000


def measure(name: str) -> float:
    """Print what one profile takes; return the milliseconds of a further host."""
    profile = load_profile(name)
    hosts = [named(dgx_h100(), number) for number in range(HOSTS)]
    plans = []
    first = cpu_milliseconds(lambda: render_plan(plan_node(hosts[0], profile)))
    decide = cpu_milliseconds(lambda: plans.extend(plan_node(host, profile) for host in hosts[1:]))
    write = cpu_milliseconds(lambda: [render_plan(plan) for plan in plans])
    large = cpu_milliseconds(lambda: render_plan(plan_node(big_512(), profile)))
    print(
        f"{name}: the first DGX H100 {first:.0f} ms, each of the other {HOSTS - 1} "
        f"{decide / len(plans):.2f} ms and {write / len(plans):.2f} ms for its files; 512 CPUs {large:.0f} ms"
    )
    return (decide + write) / len(plans)


def many_nodes() -> float:
    """Print what the plan of 512 CPUs and 34 NUMA nodes takes; return the median in milliseconds."""
    machine = many_numa_nodes(2)
    profile = load_profile("training")
    others = [replace(machine, memory_bytes=(machine.memory_bytes or 0) - 4096 * n) for n in range(ROUNDS)]

    def planned(one: NodeTopology) -> float:
        return cpu_milliseconds(lambda: plan_node(one, profile))

    took = sorted(map(planned, others))
    print(
        f"training: {len(machine.online)} CPUs on {len(machine.numa_nodes)} NUMA nodes "
        f"{took[ROUNDS // 2]:.0f} ms, at most {took[-1]:.0f} ms"
    )
    return took[ROUNDS // 2]


def main() -> None:
    if max(map(measure, PROFILES)) > LIMIT_MILLISECONDS:
        sys.exit(f"a host takes more than {LIMIT_MILLISECONDS} ms")
    if many_nodes() > MANY_NUMA_NODES_LIMIT_MILLISECONDS:
        sys.exit(f"512 CPUs on 34 NUMA nodes take more than {MANY_NUMA_NODES_LIMIT_MILLISECONDS} ms")


if __name__ == "__main__":
    main()
