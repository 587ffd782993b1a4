"""Which GPUs of one NUMA node have the most NVLinks, and which NICs are below their PCIe switch."""

from dataclasses import replace

from numaforge.machine.topology.links import gpu_names
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.near_gpus import most_linked, nics_below_switches
from tests.fixtures.machines import dgx_1v, dgx_h100, gaudi2, nvlink_bridges
from tests.fixtures.tables import cases

LEFT, RIGHT = "0123", "4567"


def sets_of(machine: NodeTopology, size: int) -> tuple[int, list[str], bool] | None:
    names = gpu_names(machine.gpus)
    best = most_linked(machine, size)
    if best is None:
        return None
    sets = ["".join(names[gpu].removeprefix("GPU") for gpu in gpus) for gpus in best.sets]
    return best.nvlinks, sets, best.alike


def cut(machine: NodeTopology, *numbers: int) -> NodeTopology:
    modes = dict.fromkeys(numbers, "enabled")
    gpus = tuple(replace(gpu, mig_mode=modes.get(at)) for at, gpu in enumerate(machine.gpus))
    return replace(machine, gpus=gpus)


@cases(
    "machine, size, best",
    {
        "pairs of a mesh": (dgx_1v(), 2, (2, ["03", "12", "23", "47", "56", "67"], False)),
        "three of a mesh": (dgx_1v(), 3, (5, ["023", "123", "467", "567"], False)),
        "four of the NUMA node that has all its links": (dgx_1v(1), 4, (9, [RIGHT], False)),
        "more GPUs than a NUMA node has": (dgx_1v(), 5, None),
        "not those with MIG": (cut(dgx_1v(), 4), 4, (9, [LEFT], False)),
        "a switch links all alike": (dgx_h100(), 4, (108, [LEFT, RIGHT], True)),
        "bridges between NUMA nodes": (nvlink_bridges(2), 2, None),
        "no GPUs of NVIDIA": (gaudi2(), 2, None),
    },
)
def test_gpu_sets_with_most_nvlinks_on_one_numa_node_are_found(machine, size, best):
    assert sets_of(machine, size) == best


def test_nics_below_the_switch_of_a_gpu_are_found():
    machine = dgx_1v()
    below = nics_below_switches(machine)
    assert [below[gpu.pci_address] for gpu in machine.gpus] == [(f"mlx5_{n // 2}",) for n in range(8)]
    assert nics_below_switches(nvlink_bridges()) == {}, "root ports are no switches"
