"""What a plan sets, and what is left out where an operating system takes settings alone."""

from collections.abc import Iterator
from typing import NamedTuple

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import PlanError
from numaforge.planning.plan import NodePlan
from numaforge.roles.hugepages import expected as hugepages
from numaforge.roles.interrupts import expected as interrupts
from numaforge.roles.kernel_values import expected as kernel_values
from numaforge.roles.kubelet.delivery import KubeletPlan


class LeftOut(NamedTuple):
    """A part of a plan that no setting expresses: its key in a profile, why, and what does it instead."""

    key: str
    why: str


class OsSettings(NamedTuple):
    """Files by the end of their names, what they leave out, and what to know before they are applied."""

    files: tuple[tuple[str, str], ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...] = ()


def kubelet_of(plan: NodePlan) -> KubeletPlan:
    """Return the kubelet's part of a plan. Raises PlanError for a plan without a kubelet."""
    if plan.kubelet is None:
        raise PlanError(
            "no kubelet is known, so its settings are not planned",
            where=plan.hostname,
            remedy="give --kubelet-version",
        )
    return plan.kubelet


def sysctls_of(plan: NodePlan) -> dict[str, str]:
    """Return every sysctl of a plan, raised limits included."""
    return dict(sorted({**plan.tuning.sysctls, **plan.tuning.raised_sysctls}.items()))


def sysfs_of(plan: NodePlan) -> dict[str, str]:
    """Return every value below /sys that a plan sets by a fixed path."""
    rows = (*kernel_values.expected(plan), *hugepages.expected(plan), *interrupts.expected(plan))
    fixed = (row for row in rows if row.path.startswith("/sys/") and "*" not in row.path)
    return {path: row.text for row in fixed for path in row.paths()}


def module_options(plan: NodePlan) -> dict[str, list[str]]:
    """Return the modules that a plan loads, then those that only get options, with their options."""
    names = dict.fromkeys((*plan.modules.load, *plan.modules.options))
    return {name: [*plan.modules.options.get(name, ())] for name in names}


def programs_left_out(plan: NodePlan, system: str) -> Iterator[LeftOut]:
    """Yield what needs a program or a file of numaforge on the node, which `system` does not take."""
    interrupts, host, rdma = plan.interrupts, plan.host, plan.rdma
    no_unit = f"numaforge's own unit keeps it, and {system} runs none"
    rows = (
        ("interrupts.devices", interrupts.devices, "interrupt numbers change with each boot"),
        (
            "interrupts.default_affinity",
            interrupts.default_affinity,
            f"write irqaffinity={format_cpulist(interrupts.default_affinity)} in kernel.cmdline",
        ),
        ("interrupts.rps", interrupts.rps, "the queues' files come and go with the NIC's driver"),
        ("interrupts.irqbalance", interrupts.irqbalance, f"{system} has no irqbalance"),
        ("system", plan.system.slices, f"{system} places its own services"),
        ("host.limits", host.limits, "containers get the limits of the container runtime"),
        ("host.hold_packages", host.hold_kinds, f"{system} has no packages: its version is the image's"),
        ("imex", plan.imex.mode, "NVIDIA's DRA driver runs IMEX in the cluster (imex.mode: driver-managed)"),
        (
            "amd_partitions",
            plan.amd_partitions.gpus,
            "AMD's device config manager sets them from the cluster",
        ),
        ("pod_tuning", plan.pod_tuning.annotations, "it is for CRI-O, and the runtime is containerd"),
        ("nic_queues, rdma.host.nics", rdma.host.nics, no_unit),
        ("rdma.host.memlock", rdma.host.memlock_units, "containers get the limits of the container runtime"),
        ("rdma.host.wait_for_virtual_functions", rdma.host.gate, no_unit),
        (
            "rdma.libraries",
            rdma.libraries.nccl_conf or rdma.libraries.env_file,
            "set the variables in the pods: `numaforge rdma env` prints them",
        ),
        ("measure", plan.measure, f"it runs on the node, and {system} has no shell"),
        ("watch", plan.watch, no_unit),
    )
    for key, value, why in rows:
        if value:
            yield LeftOut(key, why)
