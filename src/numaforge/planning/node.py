"""One host's plan: a pure function of what is there, what is wanted, and the kubelet's version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from numaforge.errors import PlanError
from numaforge.findings import judge
from numaforge.gpus.driver import UNANSWERED
from numaforge.kinds import kind_of, once_per_kind
from numaforge.kubelet.admission import inventory_of
from numaforge.kubelet.minors.versions import LATEST_MINOR, KubeletVersion
from numaforge.planning.cpus import plan_cpus
from numaforge.planning.device_plugin.plan import shared_by, with_device_plugin
from numaforge.planning.document import loads
from numaforge.planning.existing import ExistingSettings, read_existing
from numaforge.planning.files import mig_files, plan_files
from numaforge.planning.hugepages import VMEMMAP, PagesBySize, plan_hugepages, pools_after
from numaforge.planning.kernel import plan_kernel
from numaforge.planning.kubelet import NodeDecisions, kubelet_version, plan_kubelet
from numaforge.planning.largest_pods import plan_largest_pods
from numaforge.planning.memory import Reservations, plan_numa_nodes, plan_reservations
from numaforge.planning.mig.plan import as_planned, plan_mig
from numaforge.planning.model import (
    PLAN_PATH,
    CpuPlan,
    KubeletPlan,
    NodePlan,
    Notice,
    PredictedAllocatable,
    Reasoned,
)
from numaforge.planning.tuning import plan_tuning
from numaforge.profile import NodeProfile
from numaforge.quantity import parse_bytes, parse_quantity
from numaforge.topology.model import NodeTopology


def plan_node(topology: NodeTopology, profile: NodeProfile, kubelet_version: str | None = None) -> NodePlan:
    """Decide everything for one host.

    `kubelet_version` plans for another version than the host's. Raises PlanError, with the host's name, for a
    profile that this machine or this kubelet cannot meet.
    """
    hostname = topology.hostname or "localhost"
    try:
        mig = plan_mig(topology, profile)
        machine = as_planned(topology, mig.value)
        plan = _plan(kind_of(machine, _sysctls(profile)), profile, kubelet_version)
    except PlanError as error:
        raise error.at(hostname) from error.__cause__
    binary = topology.kubelet.binary if topology.kubelet else None
    kubelet = plan.kubelet and replace(
        plan.kubelet,
        binary=binary,
        binary_version=topology.kubelet.version if binary and topology.kubelet else None,
    )
    kernel = plan_kernel(topology, profile)
    plan = replace(
        plan,
        hostname=hostname,
        kubelet=kubelet,
        kernel=kernel.value,
        mig=mig.value,
        files=(*plan.files, *mig_files(mig.value)),
        decisions=plan.decisions + mig.decisions + kernel.decisions,
        notices=plan.notices + mig.notices + kernel.notices,
    )
    try:
        return with_device_plugin(plan, topology, profile)
    except PlanError as error:
        raise error.at(hostname) from error


def _sysctls(profile: NodeProfile) -> tuple[str, ...]:
    """Return the sysctls whose values on the host a plan may depend on."""
    return (*profile.tuning.sysctls, VMEMMAP)


@once_per_kind
def _plan(topology: NodeTopology, profile: NodeProfile, asked_version: str | None) -> NodePlan:
    earlier = _earlier_plan(topology)
    previous = earlier.value
    version = kubelet_version(topology, profile, asked_version)
    existing = read_existing(
        topology.kubelet,
        previous.kubelet if previous else None,
        version.value or KubeletVersion(LATEST_MINOR),
    )
    cpus = plan_cpus(topology, profile, existing)
    reservations = plan_reservations(topology, profile, existing, previous)
    hugepages = plan_hugepages(topology, profile, previous)
    nodes = plan_numa_nodes(
        topology, profile, existing, previous, cpus.value.reserved, reservations.value, hugepages.value
    )
    tuning = plan_tuning(topology, profile, previous)
    devices = inventory_of(topology, profile.mig.strategy, shared_by(profile))
    decided = NodeDecisions(cpus.value, reservations.value, nodes.value, devices)
    kubelet = _plan_kubelet(topology, profile, version, existing, decided, previous)
    largest = plan_largest_pods(topology, existing, hugepages.value, kubelet.value, devices)
    parts = (earlier, cpus, reservations, hugepages, nodes, kubelet, tuning, largest)
    return NodePlan(
        hostname="",
        profile=profile.name,
        cpus=cpus.value,
        memory=reservations.value.memory,
        numa_nodes=nodes.value,
        tuning=tuning.value,
        kubelet=kubelet.value,
        files=plan_files(tuning.value, nodes.value, kubelet.value),
        allocatable=_allocatable(topology, existing, cpus.value, reservations.value, hugepages.value)
        if kubelet.value and topology.memory_bytes
        else None,
        decisions=tuple(decision for part in parts for decision in part.decisions),
        notices=(
            *(notice for part in parts for notice in part.notices),
            *_unread_notice(topology),
            *_swap_notice(topology, profile, existing, kubelet.value),
            *_lost_gpu_notice(topology),
        ),
        largest_pods=largest.value,
    )


def _earlier_plan(topology: NodeTopology) -> Reasoned[NodePlan | None]:
    """Return the plan that an earlier run left on the host; one that cannot be read is as good as none."""
    if not topology.previous_plan:
        return Reasoned(None)
    try:
        return Reasoned(loads(topology.previous_plan))
    except PlanError as error:
        return Reasoned(
            None,
            notices=(
                Notice(
                    "earlier-plan-unreadable",
                    f"{PLAN_PATH} on the host cannot be read ({error.where}: {error.message}): what an "
                    "earlier run merged into the kubelet's own file is taken for the admin's",
                ),
            ),
        )


def _plan_kubelet(
    topology: NodeTopology,
    profile: NodeProfile,
    version: Reasoned[KubeletVersion | None],
    existing: ExistingSettings,
    decided: NodeDecisions,
    previous: NodePlan | None,
) -> Reasoned[KubeletPlan | None]:
    if version.value is None:
        return Reasoned(None, notices=version.notices)
    planned = plan_kubelet(topology, profile, version.value, existing, decided, previous)
    return Reasoned(planned.value, planned.decisions, (*version.notices, *planned.notices))


def _allocatable(
    topology: NodeTopology,
    existing: ExistingSettings,
    cpus: CpuPlan,
    reservations: Reservations,
    hugepages: Mapping[int, PagesBySize],
) -> PredictedAllocatable:
    """Predict what the kubelet reports: capacity less the reservations, and huge pages out of memory.

    pkg/kubelet/nodestatus/setters.go: every huge page's memory is taken from Allocatable memory, used or not.
    """
    # Without NUMA support in the kernel the pools are the machine's alone.
    pools = {
        size: 0 if topology.numa_nodes else pool.total * parse_bytes(size)
        for size, pool in topology.hugepages.items()
    }
    for node in topology.numa_nodes:
        for size, count in pools_after(node, hugepages[node.id]).items():
            pools[size] = pools.get(size, 0) + count * parse_bytes(size)
    reserved_millis = len(cpus.reserved) * 1000 or sum(
        int(parse_quantity(setting.value) * 1000)
        for name in ("kubeReserved", "systemReserved")
        if (setting := existing.get(name, "cpu"))
    )
    memory = reservations.memory.capacity_bytes - reservations.total_bytes - sum(pools.values())
    return PredictedAllocatable(
        cpu_millis=len(cpus.online) * 1000 - reserved_millis,
        memory_bytes=max(0, memory),
        hugepages_bytes=dict(sorted(pools.items())),
    )


def _unread_notice(topology: NodeTopology) -> tuple[Notice, ...]:
    install = topology.kubelet
    if install is None:
        return ()
    files = {
        install.config_file,
        *(file for file in topology.unreadable if _is_below(file, install.config_dir)),
    }
    unread = sorted(file for file in files if file in topology.unreadable and file is not None)
    if not unread:
        return ()
    return (
        Notice(
            "kubelet-config-unread",
            f"{', '.join(unread)} could not be read by the user who took the snapshot: what the kubelet is "
            "told there is not in this plan; take it as root",
        ),
    )


def _is_below(file: str, folder: str | None) -> bool:
    return folder is not None and PurePosixPath(file).is_relative_to(folder)


def _lost_gpu_notice(topology: NodeTopology) -> tuple[Notice, ...]:
    lost = judge(UNANSWERED, topology).findings
    if not lost:
        return ()
    gpus = ", ".join(f"{finding.where} ({finding.evidence})" for finding in lost)
    return (
        Notice(
            "gpu-unanswered",
            f"{gpus}: no answer. The plan leaves CPUs for it as for the others, and no pod gets it: "
            "`numaforge gpus check` says what helps",
        ),
    )


def _swap_notice(
    topology: NodeTopology, profile: NodeProfile, existing: ExistingSettings, kubelet: KubeletPlan | None
) -> tuple[Notice, ...]:
    tolerated = existing.effective.get("failSwapOn") is False
    if kubelet is None or not topology.swap_bytes or profile.tuning.swap == "off" or tolerated:
        return ()
    return (
        Notice(
            "swap-on",
            "swap is on and failSwapOn is not false: the kubelet does not start; set tuning.swap: off",
        ),
    )
