"""Who manages the memory of GPUs beside Grace: the option says it, else the branch, else NUMA nodes."""

from dataclasses import replace

import pytest

from numaforge.machine.topology.document import to_document
from numaforge.machine.topology.memory_mode import GpuMemoryMode, gpu_memory_mode, memory_of_gpus
from numaforge.machine.topology.model import NodeTopology, NvidiaDriver, NvidiaInstall
from tests.fixtures import machines
from tests.fixtures.tables import cases

GIB = 2**30
SET = "NVreg_CoherentGPUMemoryMode is"
HELD = "NUMA nodes 2,10,18,26 have 744Gi"


def driven(machine: NodeTopology, mode: str | None = None, driver: str | None = None) -> NodeTopology:
    return replace(machine, nvidia_install=NvidiaInstall(loaded=driver, gpu_memory_mode=mode))


TRAY, EMPTY = machines.gb200_nvl72_tray(), machines.gb200_cdmm()
MODES = {
    "the option says numa": (driven(EMPTY, "numa"), GpuMemoryMode("numa", f"{SET} numa")),
    "the option says driver, whatever nodes hold": (
        driven(TRAY, "driver"),
        GpuMemoryMode("driver", f"{SET} driver"),
    ),
    "branch 615 takes driver by default": (
        driven(TRAY, "", "615.10.01"),
        GpuMemoryMode("driver", "the default of driver 615"),
    ),
    "branch 610 does not": (driven(TRAY, "", "610.43.02"), GpuMemoryMode("numa", HELD)),
    "the branch as NVML names it": (
        replace(EMPTY, nvidia_install=None, nvidia=NvidiaDriver("620.1")),
        GpuMemoryMode("driver", "the default of driver 620"),
    ),
    "nothing but the nodes is known": (replace(TRAY, nvidia_install=None), GpuMemoryMode("numa", HELD)),
    "not set, and the nodes are empty": (
        driven(EMPTY, "", "580.95.05"),
        GpuMemoryMode(None, f"{SET} not set"),
    ),
    "not captured, and the nodes are empty": (
        driven(EMPTY, None, "580.95.05"),
        GpuMemoryMode(None, "NVreg_CoherentGPUMemoryMode was not captured"),
    ),
    "cards have none": (driven(machines.dgx_h100(), "", "615.10.01"), None),
    "nor has a GB10, which has no memory of its own": (driven(machines.gb10(), "", "615.10.01"), None),
}


@pytest.mark.parametrize(("machine", "mode"), MODES.values(), ids=MODES.keys())
def test_gpu_memory_mode_is_read_with_its_evidence(machine, mode):
    assert gpu_memory_mode(machine) == mode


@cases(
    "machine, held",
    {
        "a tray": (TRAY, dict.fromkeys((2, 10, 18, 26), 186 * GIB)),
        "CDMM": (EMPTY, {}),
        "one memory for both": (machines.gb10(), {}),
    },
)
def test_gpu_memory_is_listed_by_numa_node(machine, held):
    assert memory_of_gpus(machine) == held


def test_document_contains_the_gpu_memory_mode():
    told = to_document(driven(EMPTY, "driver"))["gpu_memory_mode"]
    assert told == {"mode": "driver", "reason": f"{SET} driver"}
    assert to_document(machines.lab_node())["gpu_memory_mode"] is None
