"""Code that reads state where a shape is given: mypy, which `make lint` runs, has to refuse each such line.

mypy refuses a `type: ignore` that ignores nothing, too, so a field of the state that moves to a shape fails.
"""

from __future__ import annotations

from numaforge.roles.kubelet.plan import decide as decide_kubelet
from numaforge.roles.node import Decisions, NodeProfile
from numaforge.topology.model import (
    ComputeInstanceShape,
    GpuInstanceShape,
    GpuShape,
    HugepagePoolShape,
    KubeletInstallShape,
    MachineShape,
    NodeTopology,
)
from numaforge.topology.shape import shape_of


def state_of_a_machine(machine: MachineShape) -> list[object]:
    return [
        machine.hostname,  # type: ignore[attr-defined]
        machine.kernel_cmdline,  # type: ignore[attr-defined]
        machine.userland,  # type: ignore[attr-defined]
        machine.previous_plan,  # type: ignore[attr-defined]
        machine.sysctls["vm.swappiness"],  # type: ignore[index]
        machine.kernel_values.get("/sys/kernel/mm/ksm/run"),  # type: ignore[attr-defined]
    ]


def state_of_its_devices(
    gpu: GpuShape, instance: GpuInstanceShape, one: ComputeInstanceShape
) -> list[object]:
    return [
        gpu.uuid,  # type: ignore[attr-defined]
        gpu.link,  # type: ignore[attr-defined]
        [each.pids for each in gpu.gpu_instances or ()],  # type: ignore[attr-defined]
        instance.pids,  # type: ignore[attr-defined]
        one.uuid,  # type: ignore[attr-defined]
    ]


def state_of_what_it_has(
    machine: MachineShape, pool: HugepagePoolShape, kubelet: KubeletInstallShape
) -> list[object]:
    return [
        pool.free,  # type: ignore[attr-defined]
        machine.numa_nodes[0].hugepages["2Mi"].free,  # type: ignore[attr-defined]
        kubelet.binary,  # type: ignore[attr-defined]
        kubelet.state_files,  # type: ignore[attr-defined]
    ]


def a_shape_is_no_whole_machine(machine: NodeTopology) -> NodeTopology:
    return shape_of(machine)  # type: ignore[return-value]


def a_machine_is_planned_by_its_shape(
    machine: MachineShape, profile: NodeProfile, decided: Decisions
) -> object:
    return decide_kubelet(machine, profile, decided)
