"""NUMA nodes as sysfs shows them: which of them firmware keeps for devices that are no CPUs."""

import pytest

from numaforge.machine.topology.links import nearest_numa_node
from numaforge.machine.topology.model import Gpu
from numaforge.machine.topology.numa import read_numa_nodes
from tests.fixtures import machines
from tests.fixtures.tables import cases

NODE = "/sys/devices/system/node"


@cases(
    "listed, told",
    {
        "a list of CPUs' syntax": ("1-2\n", [False, True, True]),
        "one": ("2\n", [False, False, True]),
        "none on this machine": ("\n", [False, False, False]),
        "a kernel before 5.10 does not tell": (None, [None, None, None]),
    },
)
def test_generic_initiators_come_from_the_kernel(listed, told):
    files = {f"{NODE}/node{number}/cpulist": "0-3\n" if number == 0 else "\n" for number in range(3)}
    if listed is not None:
        files[f"{NODE}/has_generic_initiator"] = listed
    nodes = read_numa_nodes(files, frozenset(range(4)))
    assert [node.generic_initiator for node in nodes] == told


@pytest.mark.parametrize(
    ("memory_node", "nearest"),
    [(2, 0), (10, 0), (18, 1), (26, 1), (33, 1)],
    ids=["GPU0", "GPU1", "GPU2", "GPU3", "one that waits for a MIG instance"],
)
def test_gpu_on_its_own_memory_node_is_near_its_own_grace(memory_node, nearest):
    gpu = Gpu("0008:01:00.0", "10de", "2941", memory_node)
    assert nearest_numa_node(gpu, machines.grace_blackwell_tray()) == nearest
