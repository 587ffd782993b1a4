"""Measure how near 16 GPUs and 16 NICs are to each other: milliseconds for the matrix and for its table."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console

from numaforge.machine.topology.links import link_matrix, nvlink_domains
from numaforge.machine.topology.model import NodeTopology
from numaforge.report.matrix import MatrixTable
from tests.fixtures import machines

ROUNDS = 20


def doubled(topology: NodeTopology) -> NodeTopology:
    """Return the machine with every GPU and NIC a second time, in PCI domain 1."""

    def other(address: str) -> str:
        return address.replace("0000:", "0001:")

    gpus = [replace(gpu, pci_address=other(gpu.pci_address)) for gpu in topology.gpus]
    nics = [
        replace(nic, pci_address=other(nic.pci_address), rdma_device=f"{nic.rdma_device}1")
        for nic in topology.nics
    ]
    paths = {other(end): tuple(other(part) for part in path) for end, path in topology.pci_paths.items()}
    return replace(
        topology,
        gpus=(*topology.gpus, *gpus),
        nics=(*topology.nics, *nics),
        pci_paths={**topology.pci_paths, **paths},
    )


def best_ms(work: Callable[[], object]) -> float:
    """Return the shortest of a few runs, in milliseconds."""
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times) * 1000


def main() -> None:
    """Print what the matrix costs, by the number of devices."""
    print(f"{'GPUs':>4}{'NICs':>6}{'domains ms':>12}{'matrix ms':>11}{'table ms':>10}")
    for topology in (machines.dgx_h100(), doubled(machines.dgx_h100())):
        matrix = link_matrix(topology)
        times = (
            best_ms(lambda topology=topology: nvlink_domains(topology.gpus)),
            best_ms(lambda topology=topology: link_matrix(topology)),
            best_ms(lambda matrix=matrix: Console(file=io.StringIO(), width=200).print(MatrixTable(matrix))),
        )
        shown = "".join(f"{ms:>11.2f}" for ms in times)
        print(f"{len(topology.gpus):>4}{len(topology.nics):>6} {shown}")


if __name__ == "__main__":
    main()
