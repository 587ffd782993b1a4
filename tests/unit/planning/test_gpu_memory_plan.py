"""Who manages the memory of GPUs: what a plan makes of the machine, and what it refuses."""

from dataclasses import replace
from typing import Any

import pytest

from numaforge.commands.machine import machine_of
from numaforge.machine.topology.memory_mode import memory_of_gpus
from numaforge.machine.topology.model import GpuProcess, NodeTopology, NvidiaInstall
from numaforge.planning.as_planned import machine_as_planned
from numaforge.planning.plan import NodePlan
from numaforge.roles.kubelet.effect import effect
from numaforge.roles.modules.gpu_memory import in_mode
from tests.fixtures.machines import dgx_h100
from tests.fixtures.plans import after, notices, planned, refusal

GIB = 2**30
OPTION = "NVreg_CoherentGPUMemoryMode"


def plan_in(machine: NodeTopology, mode: str | None = None, reboot: str = "allowed", **more: Any) -> NodePlan:
    return planned(machine, **wished(mode, reboot, **more))


def wished(mode: str | None = None, reboot: str = "allowed", **more: Any) -> dict[str, Any]:
    memory = {"system_reserved": "1Gi"}
    return {"gpu_memory": mode, "maintenance": {"reboot": reboot}, "memory": memory, **more}


def driven(machine: NodeTopology, mode: str | None, driver: str = "580.95.05") -> NodeTopology:
    install = replace(machine.nvidia_install or NvidiaInstall(), loaded=driver, gpu_memory_mode=mode)
    return replace(machine, nvidia_install=install)


def said(plan: NodePlan) -> list[str]:
    return [name for name in notices(plan) if name.startswith("gpu-memory")]


def called(name: str) -> NodeTopology:
    return machine_of(name, None)


@pytest.mark.parametrize(
    ("mode", "daemons", "told"),
    [
        pytest.param("numa", (), ["gpu-memory-offline"], id="nothing-brings-the-memory-online"),
        pytest.param("numa", (GpuProcess("nvidia-persiste"),), [], id="nvidia-persistenced-does"),
        pytest.param("numa", None, [], id="the-processes-were-not-captured"),
        pytest.param("driver", (), ["gpu-memory-moves"], id="the-driver-keeps-it"),
    ],
)
def test_gpu_numa_memory_needs_the_onlining_daemon(mode, daemons, told):
    machine = driven(called("gb200"), "numa")
    machine = replace(machine, nvidia_install=replace(machine.nvidia_install, daemons=daemons))
    assert said(plan_in(machine, mode)) == told


@pytest.mark.parametrize(
    ("name", "nodes", "gibibytes"),
    [
        pytest.param("gb200", (2, 10, 18, 26), 744, id="gb200"),
        pytest.param("gb300", (2, 10, 18, 26), 1106, id="gb300"),
        pytest.param("quad-gh200", (4, 12, 20, 28), 384, id="quad-gh200"),
    ],
)
def test_memory_managed_by_the_driver_leaves_the_plan(name, nodes, gibibytes):
    machine = called(name)
    before, after = plan_in(machine, "numa"), plan_in(machine, "driver")
    taken = sum(memory_of_gpus(machine).values())
    assert (tuple(memory_of_gpus(machine)), taken // GIB) == (nodes, gibibytes)
    assert before.memory.capacity_bytes - after.memory.capacity_bytes == taken
    assert before.allocatable.memory_bytes - after.allocatable.memory_bytes >= taken - GIB
    assert (before.allocatable.gpu_memory_bytes, after.allocatable.gpu_memory_bytes) == (taken, 0)
    assert {node.id for node in after.memory.numa_nodes} == {node.id for node in machine.numa_nodes}
    assert all(node.memory_bytes == 0 for node in after.memory.numa_nodes if node.id in nodes)
    assert after.modules.options == {"nvidia": (f"{OPTION}=driver",)}
    assert (said(before), said(after)) == ([], ["gpu-memory-moves"])


def test_machine_already_in_the_wanted_mode_is_planned_unchanged():
    machine = called("gb200-cdmm")
    plan = plan_in(machine, "driver")
    assert (plan.memory.capacity_bytes, said(plan)) == (machine.memory_bytes, [])


def test_mode_change_waits_when_reboot_is_not_allowed():
    machine = called("gb200")
    plan = plan_in(machine, "driver", reboot="never")
    assert plan.memory.capacity_bytes == machine.memory_bytes
    assert (plan.gpu_memory.waits, said(plan)) == (True, ["gpu-memory-waits"])


def test_module_option_equals_the_profile_mode():
    machine = called("gb200")
    plan = plan_in(machine, modules={"options": {"nvidia": [f"{OPTION}=driver"]}})
    assert plan.gpu_memory == plan_in(machine, "driver").gpu_memory
    unset = plan_in(machine)
    assert (unset.gpu_memory.mode, unset.modules.options) == (None, {})


def test_mig_with_driver_managed_memory_is_noticed():
    machine = called("gb200")
    cut = replace(machine, gpus=tuple(replace(gpu, mig_mode="enabled") for gpu in machine.gpus))
    assert "gpu-memory-mig" in said(plan_in(cut, "driver"))
    assert "gpu-memory-mig" not in said(plan_in(cut, "numa"))


@pytest.mark.parametrize(("name", "noticed"), [("gb200-cdmm", True), ("gb200", False), ("dgx-h100", False)])
def test_mig_wanted_where_the_driver_manages_the_memory_is_noticed(name, noticed):
    plan = plan_in(called(name), mig={"gpus": [{"devices": {"1g": "all"}}]})
    assert ("gpu-memory-mig" in said(plan)) is noticed


def test_gpu_memory_of_unknown_size_needs_two_plans():
    first = plan_in(called("gb200-cdmm"), "numa")
    assert (first.allocatable, said(first)) == (None, ["gpu-memory-grows"])
    booted = after(driven(called("gb200"), "numa"), first)
    second = plan_in(booted, "numa")
    assert second.allocatable.gpu_memory_bytes == sum(memory_of_gpus(booted).values())
    assert said(second) == []


def booted_into(machine: NodeTopology, plan: NodePlan) -> NodeTopology:
    """Return a machine after the boot of its plan."""
    return after(in_mode(machine, plan.gpu_memory), plan)


def test_second_plan_after_the_reboot_is_the_same():
    machine = driven(called("gb200"), "")
    plan = plan_in(machine, "driver")
    again = plan_in(booted_into(machine, plan), "driver")
    assert (again.gpu_memory, again.allocatable) == (plan.gpu_memory, plan.allocatable)
    assert (again.memory.numa_nodes, said(again)) == (plan.memory.numa_nodes, [])


@pytest.mark.parametrize(
    "wish", [pytest.param("numa", id="asked-for"), pytest.param(None, id="no-longer-pinned, of branch 580")]
)
def test_memory_returned_by_the_driver_has_its_full_size(wish):
    machine = driven(called("gb200"), "")
    back = plan_in(booted_into(machine, plan_in(machine, "driver")), wish)
    assert (back.gpu_memory.mode, said(back)) == ("numa", ["gpu-memory-moves"])
    assert back.memory.capacity_bytes == machine.memory_bytes
    assert back.allocatable == plan_in(machine, "numa").allocatable


REFUSALS = {
    "cards": (dgx_h100(), {"mode": "driver"}, "this machine has no such GPU"),
    "gb10, one memory for both": (called("dgx-spark"), {"mode": "numa"}, "no such GPU"),
    "570": (driven(called("gb200"), None, "570.133.20"), {"mode": "driver"}, "driver 570 cannot"),
    "two-modes": (
        called("gb200"),
        {"mode": "numa", "modules": {"options": {"nvidia": [f"{OPTION}=driver"]}}},
        f"has {OPTION}=driver, and gpu_memory numa is {OPTION}=numa",
    ),
    "pages of what is gone": (
        called("gb200"),
        {"mode": "driver", "hugepages": [{"size": "512Mi", "count": 4, "numa_nodes": [2]}]},
        "NUMA node 2 has 0 of memory",
    ),
}


@pytest.mark.parametrize(("machine", "wish", "message"), REFUSALS.values(), ids=REFUSALS)
def test_impossible_gpu_memory_mode_is_refused(machine, wish, message):
    assert message in refusal(machine, **wished(**wish))


STATIC = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
memoryManagerPolicy: Static
"""


@pytest.mark.parametrize(
    ("machine", "mode", "goes"),
    [
        pytest.param("gb200", "driver", True, id="memory goes"),
        pytest.param("gb200-cdmm", "numa", True, id="memory comes, of a size nobody knows"),
        pytest.param("gb200", "numa", False, id="memory stays"),
    ],
)
def test_memory_manager_state_is_dropped_when_memory_changes(machine, mode, goes):
    there = called(machine)
    plan = plan_in(there, mode, kubelet={"version": "1.36.3"})
    found = effect(plan, there, machine_as_planned(there, plan), [], STATIC, {}, {})
    assert found.before is not None
    assert (f"{plan.kubelet.root_dir}/memory_manager_state" in found.invalid) is goes
