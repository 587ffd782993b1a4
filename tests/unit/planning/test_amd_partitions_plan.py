"""Which modes AMD's GPUs are planned to have, what is refused with its arithmetic, and what pods get."""

from dataclasses import replace
from typing import Any

import pytest

from numaforge.machine.topology.model import GpuPartition, NodeTopology
from numaforge.planning.plan import NodePlan
from numaforge.roles.amd_partitions.config_manager import PROFILE_LABEL, manager_profile
from numaforge.roles.amd_partitions.plan import partitioned
from tests.fixtures.machines import dgx_h100, mi210, mi300x, mi300x_cpx_kfd
from tests.fixtures.plans import decided, notices, planned, refusal

CPX = {"compute": "CPX", "memory": "NPS4"}


def plan(machine: NodeTopology, *gpus: dict[str, Any], **more: Any) -> NodePlan:
    return planned(
        machine, "1.36.0", name="amd", extends="training", amd_partitions={"gpus": list(gpus), **more}
    )


def changed(machine: NodeTopology, indices: range = range(8), **fields: Any) -> NodeTopology:
    """Change fields of some GPUs; `partition` are changes of its own."""
    partition = fields.pop("partition", {})
    gpus = [
        replace(gpu, **fields, partition=gpu.partition and replace(gpu.partition, **partition))
        if number in indices
        else gpu
        for number, gpu in enumerate(machine.gpus)
    ]
    return replace(machine, gpus=tuple(gpus))


def test_named_gpus_change_modes_and_other_gpus_stay():
    gpus = plan(mi300x(), {"indices": [0, 1], "compute": "DPX"}, naming="mixed").amd_partitions.gpus
    assert [(gpu.pci_address, gpu.compute, gpu.memory, gpu.partitions) for gpu in gpus] == [
        ("0000:0b:00.0", "DPX", "NPS1", 2),
        ("0000:23:00.0", "DPX", "NPS1", 2),
    ]


@pytest.mark.parametrize("machine", [mi300x(), mi300x_cpx_kfd()], ids=["before", "after"])
def test_plan_is_unchanged_after_partitioning(machine):
    planned = plan(machine, CPX, naming="mixed")
    assert [gpu.modes for gpu in planned.amd_partitions.gpus] == ["CPX NPS4"] * 8
    value, reason = decided(planned, "amd_partitions.gpu[0-7]")
    assert (value, reason.partition("; ")[2]) == (
        "CPX NPS4",
        "CPX makes 8 of its 8 XCDs, 1 each; NPS4 makes 4 of its 8 HBM stacks, 48 GiB each",
    )
    assert planned.allocatable.quantities["amd.com/cpx_nps4"] == "64"
    assert "amd-memory-mode" in notices(planned)
    after = partitioned(machine, planned.amd_partitions)
    assert {(gpu.partition.count, gpu.partition.memory_bytes) for gpu in after.gpus if gpu.partition} == {
        (8, (machine.gpus[0].memory_bytes or 0) // 8)
    }


SPX_NPS4 = {"compute": "SPX", "memory": "NPS4"}
NOT_CONFIRMED = {"device": "75a3"}


REFUSALS = {
    "fewer-partitions-than-parts-of-memory": (
        mi300x(),
        SPX_NPS4,
        (
            "GPU 0-7: SPX makes 1 of its 8 XCDs, 8 each; NPS4 makes 4 of its 8 HBM stacks, 48 GiB each; "
            "Linux allows NPS1 with SPX, and not NPS4; NPS4 goes with QPX and CPX"
        ),
    ),
    "its-own-driver-says-no": (
        changed(mi300x(), partition={"memory_of": {"DPX": ("NPS1",)}, "available_memory": ("NPS1", "NPS2")}),
        {"compute": "DPX", "memory": "NPS2"},
        "its driver allows NPS1 with DPX, and not NPS2",
    ),
    "a-memory-mode-that-the-driver-does-not-offer": (
        mi300x(),
        {"compute": "DPX", "memory": "NPS2"},
        "MI300X cannot be asked for NPS2: its driver offers NPS1, NPS4",
    ),
    "a-driver-too-old-to-change-it": (
        changed(mi300x(), partition={"available_memory": ()}),
        CPX,
        "MI300X cannot be asked for NPS4: its driver does not report which memory modes it supports",
    ),
    "three-partitions-of-eight-dies": (
        mi300x(),
        {"compute": "TPX"},
        "MI300X cannot be asked for TPX: its driver offers SPX, DPX, QPX, CPX",
    ),
    "three-partitions-with-another-memory-mode": (
        mi300x(),
        {"compute": "TPX", "memory": "NPS4"},
        "MI300X has 8 XCDs and no TPX: its modes are SPX, DPX, QPX, CPX",
    ),
    "a-model-without-a-table-by-its-counts": (
        changed(mi300x(), **NOT_CONFIRMED),
        SPX_NPS4,
        "no more parts of memory than of compute go together",
    ),
    "half-of-a-hive": (
        changed(mi300x(), driver="amdgpu"),
        {"indices": [0], "compute": "CPX", "memory": "NPS4"},
        "NPS4 for GPU 0, NPS1 for GPU 1-7: XGMI joins these GPUs in one hive",
    ),
    "no-driver": (mi210(), CPX, "GPU 0-7: 1002:740f: amdgpu is not its driver, so its modes are unknown"),
    "cannot-be-partitioned": (changed(mi210(), driver="amdgpu"), CPX, "its driver offers no partitions"),
    "a-virtual-function": (
        changed(mi300x(), device="74b5"),
        CPX,
        "a virtual function: its modes are set on its host",
    ),
    "a-GPU-that-tells-nothing": (
        changed(mi300x(), partition={"compute": None, "memory": None}),
        {"compute": "CPX"},
        "its driver does not report its modes",
    ),
    "several-modes-with-the-strategy-single": (
        mi300x(),
        {"indices": [0], "compute": "CPX"},
        "cpx_nps1 and spx_nps1 on one node end AMD's device plugin",
    ),
    "no-such-GPU": (mi300x(), {"indices": [9], "compute": "CPX"}, "there is no AMD GPU 9"),
    "no-such-model": (mi300x(), {"model": "mi355x", "compute": "CPX"}, "no GPU is a mi355x"),
    "not-a-model": (mi300x(), {"model": "h100", "compute": "CPX"}, "'h100' is not an AMD model"),
}


@pytest.mark.parametrize(("machine", "wish", "why"), REFUSALS.values(), ids=REFUSALS)
def test_refused(machine, wish, why):
    message = refusal(machine, extends="training", amd_partitions={"gpus": [wish]})
    assert why in message
    assert "amd_partitions" in message.partition(why)[0]


TWICE = [{"compute": "CPX"}, {"indices": [1], "compute": "DPX"}]
SECTIONS = {
    "no-mode": ({"gpus": [{"indices": [0]}]}, "set compute, memory or both"),
    "both": ({"gpus": [{"compute": "SPX", "model": "mi300x", "indices": [0]}]}, "mutually exclusive"),
    "no-such-mode": ({"gpus": [{"compute": "CPY"}]}, "compute"),
    "no-release": ({"plugin": "latest"}, "is not a release"),
    "a-GPU-twice": ({"gpus": TWICE}, "GPU 1 is named by amd_partitions.gpus[0] already"),
}


@pytest.mark.parametrize(("section", "why"), SECTIONS.values(), ids=SECTIONS)
def test_empty_or_contradictory_section_is_refused(section, why):
    assert why in refusal(mi300x(), amd_partitions=section)


OTHER_NAMES = changed(mi300x(), partition={"named": "amdgpu_xcp."})
MI300A = {"available_compute": ("SPX", "TPX", "CPX"), "available_memory": ("NPS1",)}
NOTICES = {
    "amd-modes-not-confirmed": changed(mi300x(), **NOT_CONFIRMED),
    "amd-partitions-not-listed": OTHER_NAMES,
    "amd-partitions-without-node": changed(mi300x(), numa_node=None),
    "amd-unified-memory": changed(mi300x(), device="74a0", partition=MI300A),
    "no-amd-gpu": dgx_h100(),
}


@pytest.mark.parametrize(("notice", "machine"), NOTICES.items(), ids=NOTICES)
def test_partition_plan_gives_its_notice(notice, machine):
    planned = plan(machine, {"compute": "CPX"})
    assert notice in notices(planned)
    assert "amd-memory-mode" not in notices(planned)
    assert bool(planned.amd_partitions.gpus) is (notice != "no-amd-gpu")


def test_partitions_with_unlisted_names_are_not_counted():
    assert plan(OTHER_NAMES, {"compute": "CPX"}).allocatable.quantities["amd.com/gpu"] == "8"


# ---- AMD's device config manager ----


def test_manager_gets_the_modes_by_label_and_the_node_writes_nothing():
    planned = plan(mi300x(), CPX, managed_by="device-config-manager")
    assert planned.labels[PROFILE_LABEL].startswith("amd-")
    assert not [file for file in planned.files if "amd_partitions" in file.path]
    assert manager_profile(planned.amd_partitions) == {
        "skippedGPUs": {"ids": []},
        "profiles": [{"computePartition": "CPX", "memoryPartition": "NPS4", "numGPUsAssigned": 8}],
    }


def test_without_the_manager_a_unit_is_written_and_no_label():
    planned = plan(mi300x(), CPX)
    assert PROFILE_LABEL not in planned.labels
    assert [file.path for file in planned.files if "amd" in file.path] == [
        "/var/lib/numaforge/lib/amd_partitions.py",
        "/etc/systemd/system/numaforge-amd-partitions.service",
    ]


MANAGER_REFUSALS = {
    "stricter-than-the-driver": (
        [{"compute": "QPX", "memory": "NPS4"}],
        "it takes NPS4 with CPX alone, and not with QPX",
    ),
    "several-modes": (
        [{"indices": [0], "compute": "CPX"}, {"indices": [1], "compute": "DPX"}],
        "numbers of GPUs for each mode, and not which ones",
    ),
    "some-left-out": ([{"indices": [0], "compute": "SPX"}], "7 of 8 GPUs are left out"),
}


@pytest.mark.parametrize(("gpus", "why"), MANAGER_REFUSALS.values(), ids=MANAGER_REFUSALS)
def test_modes_the_manager_cannot_apply_are_refused(gpus, why):
    section = {"gpus": gpus, "managed_by": "device-config-manager", "naming": "mixed"}
    assert why in refusal(mi300x(), amd_partitions=section)


def test_single_memory_mode_machine_plans_no_memory_mode():
    machine = changed(mi300x(), partition={"memory": None, "available_memory": ()})
    assert [gpu.modes for gpu in plan(machine, {"compute": "CPX"}).amd_partitions.gpus] == ["CPX"] * 8
    assert GpuPartition("CPX", None)  # as the driver of such a GPU tells it
