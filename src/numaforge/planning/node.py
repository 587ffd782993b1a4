"""One host's plan: a pure function of what is there, what is wanted, and the kubelet's version."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import PurePosixPath

from numaforge.errors import PlanError
from numaforge.findings.engine import judge
from numaforge.findings.gpus.nvidia_driver import UNANSWERED
from numaforge.kinds import kind_of, once_per_kind
from numaforge.kubelet.admission import inventory_of
from numaforge.kubelet.admission.machine import cpu_capacity
from numaforge.kubelet.minors.versions import LATEST_MINOR, KubeletVersion
from numaforge.planning import sysctl_sets
from numaforge.planning.cpus import plan_cpus
from numaforge.planning.device_plugin.plan import shared_by, with_device_plugin
from numaforge.planning.document import loads
from numaforge.planning.elsewhere import elsewhere
from numaforge.planning.existing import ExistingSettings, read_existing
from numaforge.planning.files import (
    host_files,
    interrupts_files,
    library_files,
    mig_files,
    modules_files,
    plan_files,
    pod_tuning_files,
    rdma_files,
    system_files,
)
from numaforge.planning.handed_back import cpus_left_alone, memory_left_alone
from numaforge.planning.host import brings_cgroup_v2, plan_host
from numaforge.planning.hugepages import VMEMMAP, WantedPages, plan_hugepages, pool_places, pools_after
from numaforge.planning.interrupts import plan_interrupts
from numaforge.planning.kernel import plan_kernel
from numaforge.planning.kubelet import NodeDecisions, kubelet_version, plan_kubelet
from numaforge.planning.largest_pods import plan_largest_pods
from numaforge.planning.made_for import kind_notices
from numaforge.planning.memory import Reservations, max_pods, plan_numa_nodes, plan_reservations
from numaforge.planning.mig.plan import as_planned, plan_mig
from numaforge.planning.model import (
    PLAN_PATH,
    CpuPlan,
    KubeletPlan,
    NodePlan,
    Notice,
    OfflinePlan,
    PredictedAllocatable,
    RdmaPlan,
    Reasoned,
)
from numaforge.planning.modules import plan_modules
from numaforge.planning.nic_queues import with_nic_queues
from numaforge.planning.numa_notices import gpu_memory_bytes, numa_notices
from numaforge.planning.offline import as_before, plan_offline, without
from numaforge.planning.page_size import judge_page_size
from numaforge.planning.pod_tuning import plan_pod_tuning
from numaforge.planning.rdma.acs import config_acs
from numaforge.planning.rdma.plan import plan_rdma, with_pools
from numaforge.planning.rdma.pools import plan_pools
from numaforge.planning.startup import judge_startup
from numaforge.planning.system import plan_system
from numaforge.planning.tuning import plan_tuning
from numaforge.profile import NodeProfile
from numaforge.quantity import parse_bytes, parse_quantity
from numaforge.topology.model import KubeletInstall, NodeTopology


def plan_node(topology: NodeTopology, profile: NodeProfile, kubelet_version: str | None = None) -> NodePlan:
    """Decide everything for one host.

    `kubelet_version` plans for another version than the host's. Raises PlanError, with the host's name, for a
    profile that this machine or this kubelet cannot meet.
    """
    try:
        return _of_machine(topology, profile, kubelet_version)
    except PlanError as error:
        raise error.at(topology.hostname or "localhost") from error.__cause__


def _of_machine(topology: NodeTopology, profile: NodeProfile, asked_version: str | None) -> NodePlan:
    """Return the plan of a kind of machine with what is this one's own."""
    before = as_before(topology)
    offline = plan_offline(before, profile)
    topology = without(before, offline.value)
    mig = plan_mig(topology, profile)
    machine = kind_of(as_planned(topology, mig.value), _sysctls(profile))
    kind = _plan(machine, profile, asked_version, offline.value)
    rdma = with_nic_queues(plan_rdma(topology, profile, kind.rdma), topology, profile, kind.cpus)
    host = plan_host(topology, profile, kind)
    kernel = plan_kernel(topology, profile, kind, config_acs(rdma.value.acs))
    pods = plan_pod_tuning(topology, profile, kind)
    own = (offline, judge_page_size(topology, profile), mig, rdma, host, kernel, pods)
    plan = replace(
        kind,
        hostname=topology.hostname or "localhost",
        kubelet=kind.kubelet and _of_binary(kind.kubelet, topology.kubelet),
        kernel=kernel.value,
        mig=mig.value,
        rdma=rdma.value,
        host=host.value,
        pod_tuning=pods.value,
        files=(
            *kind.files,
            *mig_files(mig.value),
            *rdma_files(rdma.value),
            *host_files(host.value),
            *pod_tuning_files(pods.value),
            *library_files(rdma.value.libraries),
        ),
        decisions=(*kind.decisions, *chain.from_iterable(part.decisions for part in own)),
        notices=(*kind.notices, *chain.from_iterable(part.notices for part in own)),
    )
    return with_pools(with_device_plugin(plan, topology, profile))


def _of_binary(kubelet: KubeletPlan, install: KubeletInstall | None) -> KubeletPlan:
    binary = install.binary if install else None
    return replace(kubelet, binary=binary, binary_version=install.version if binary and install else None)


def _sysctls(profile: NodeProfile) -> tuple[str, ...]:
    """Return the sysctls whose values on the host a plan may depend on."""
    return (*profile.tuning.sysctls, *sysctl_sets.names(profile.tuning.sysctl_sets), VMEMMAP)


@once_per_kind
def _plan(
    topology: NodeTopology, profile: NodeProfile, asked_version: str | None, offline: OfflinePlan
) -> NodePlan:
    earlier = _earlier_plan(topology)
    previous = earlier.value
    version = kubelet_version(topology, profile, asked_version, previous)
    existing = read_existing(
        topology.kubelet,
        previous.kubelet if previous else None,
        version.value or KubeletVersion(LATEST_MINOR),
    )
    hugepages = plan_hugepages(topology, profile, previous)
    handed_back = profile.kubelet.state == "absent"
    if handed_back:
        cpus, reservations = cpus_left_alone(topology, existing), memory_left_alone(topology)
    else:
        cpus = plan_cpus(topology, profile, existing, previous)
        reservations = plan_reservations(topology, profile, existing, previous, hugepages.value)
    nodes = plan_numa_nodes(
        topology, profile, existing, previous, cpus.value.reserved, reservations.value, hugepages.value
    )
    tuning = plan_tuning(topology, profile, previous, offline)
    interrupts = plan_interrupts(topology, profile, cpus.value)
    system = plan_system(topology, profile, cpus.value, existing)
    modules = plan_modules(profile)
    pools = plan_pools(topology, profile)
    devices = inventory_of(topology, profile.mig.strategy, shared_by(profile))
    decided = NodeDecisions(cpus.value, reservations.value, nodes.value, devices)
    kubelet = _plan_kubelet(topology, profile, version, existing, decided, previous)
    told = None if handed_back else kubelet.value
    largest = plan_largest_pods(topology, existing, hugepages.value, told, devices)
    parts = (
        *(earlier, cpus, reservations, hugepages, nodes, kubelet),
        *(tuning, interrupts, system, modules, pools, largest),
    )
    notices = (
        *(notice for part in parts for notice in part.notices if not _asked_for(notice, topology, offline)),
        *kind_notices(topology, profile),
        *numa_notices(topology),
        *_unread_notice(topology),
        *_lost_gpu_notice(topology),
    )
    if kubelet.value:
        said = {notice.id for notice in notices}
        notices += judge_startup(
            topology,
            kubelet.value,
            hugepages.value,
            said,
            swap_off=tuning.value.swap_off,
            cgroup_v2=brings_cgroup_v2(profile),
        )
    return NodePlan(
        hostname="",
        profile=profile.name,
        cpus=cpus.value,
        memory=reservations.value.memory,
        numa_nodes=nodes.value,
        hugepages=hugepages.value.get(None, {}),
        tuning=tuning.value,
        kubelet=kubelet.value,
        interrupts=interrupts.value,
        system=system.value,
        modules=modules.value,
        rdma=RdmaPlan(
            pools=pools.value, pools_deployed=bool(pools.value) and profile.rdma.device_plugin.deployed
        ),
        files=(
            *plan_files(tuning.value, [*hugepages.value.values()], kubelet.value),
            *interrupts_files(interrupts.value),
            *system_files(system.value),
            *modules_files(modules.value, profile.maintenance.reboot),
        ),
        allocatable=_allocatable(topology, existing, cpus.value, reservations.value, hugepages.value)
        if kubelet.value and topology.memory_bytes and not handed_back
        else None,
        decisions=tuple(decision for part in parts for decision in part.decisions),
        notices=notices,
        largest_pods=largest.value,
        elsewhere=elsewhere(cpu_capacity(topology), topology.memory_bytes, max_pods(existing))
        if topology.memory_bytes
        else (),
    )


def _asked_for(notice: Notice, topology: NodeTopology, offline: OfflinePlan) -> bool:
    """Whether a notice tells of offline CPUs of which each is so because the profile says it."""
    return notice.id == "offline-cpus" and topology.offline <= offline.cpus


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
    hugepages: WantedPages,
) -> PredictedAllocatable:
    """Predict what the kubelet reports: capacity less the reservations, and huge pages out of memory.

    pkg/kubelet/nodestatus/setters.go: every huge page's memory is taken from Allocatable memory, used or not.
    """
    pools = dict.fromkeys(topology.hugepages, 0)
    for place, node in pool_places(topology).items():
        for size, count in pools_after(node, hugepages[place]).items():
            pools[size] = pools.get(size, 0) + count * parse_bytes(size)
    reserved_millis = len(cpus.reserved) * 1000 or sum(
        int(parse_quantity(setting.value) * 1000)
        for name in ("kubeReserved", "systemReserved")
        if (setting := existing.get(name, "cpu"))
    )
    memory = reservations.memory.capacity_bytes - reservations.total_bytes - sum(pools.values())
    return PredictedAllocatable(
        cpu_millis=cpu_capacity(topology) * 1000 - reserved_millis,
        memory_bytes=max(0, memory),
        hugepages_bytes=dict(sorted(pools.items())),
        gpu_memory_bytes=min(max(0, memory), gpu_memory_bytes(topology)),
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
