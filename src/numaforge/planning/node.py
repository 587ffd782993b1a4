"""One host's plan: a pure function of the machine, the profile and the kubelet's version."""

from dataclasses import replace
from typing import TypeVar

from numaforge.lib.errors import PlanError
from numaforge.lib.file_content import PLAN_PATH, PlannedFile
from numaforge.lib.reasons import Decision, Notice, Reasoned
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.allocatable import plan_allocatable, plan_devices
from numaforge.planning.capacity import plan_capacity
from numaforge.planning.document import saved_plan
from numaforge.planning.files import planned_files
from numaforge.planning.machine_notices import machine_notices
from numaforge.planning.made_for import kind_notices
from numaforge.planning.measure import plan_measure
from numaforge.planning.node_labels import plan_labels
from numaforge.planning.plan import NodePlan
from numaforge.planning.profile import NodeProfile
from numaforge.roles.amd_partitions.plan import partitioned, plan_amd_partitions
from numaforge.roles.cpus.offline import OfflinePlan, plan_offline, taken_offline
from numaforge.roles.cpus.plan import plan_cpus
from numaforge.roles.cpus.slices.plan import plan_slices
from numaforge.roles.crio.plan import plan_pod_tuning
from numaforge.roles.device_plugin.plan import plan_device_plugin
from numaforge.roles.dra.plan import plan_dra
from numaforge.roles.gpudirect.plan import plan_access_control
from numaforge.roles.host.plan import brings_cgroup_v2, plan_host
from numaforge.roles.hugepages.plan import plan_hugepages
from numaforge.roles.imex.plan import plan_imex
from numaforge.roles.interrupts.plan import plan_interrupts
from numaforge.roles.kernel_cmdline.parameters import isolated_by
from numaforge.roles.kernel_cmdline.plan import plan_kernel
from numaforge.roles.kernel_values.plan import plan_tuning
from numaforge.roles.kubelet.largest_pods import plan_largest_pods
from numaforge.roles.kubelet.plan import plan_kubelet, read_installed
from numaforge.roles.kubelet.startup import judge_startup
from numaforge.roles.memory.plan import plan_memory
from numaforge.roles.mig.plan import as_cut, plan_mig
from numaforge.roles.modules.gpu_memory import in_mode, plan_gpu_memory
from numaforge.roles.modules.plan import plan_modules
from numaforge.roles.rdma.nics.plan import plan_nic_queues
from numaforge.roles.rdma.plan import plan_rdma
from numaforge.roles.rdma.pools import plan_pools
from numaforge.roles.watch.plan import plan_watch

T = TypeVar("T")


def plan_node(topology: NodeTopology, profile: NodeProfile, kubelet_version: str | None = None) -> NodePlan:
    """Decide everything for one host.

    `kubelet_version` replaces the host's own. Raises PlanError, with the host's name, for a profile that this
    machine or this kubelet cannot meet.
    """
    try:
        return _planned(topology, profile, kubelet_version)
    except PlanError as error:
        raise error.at(topology.hostname or "localhost") from error.__cause__


class _Reasons:
    """Collect the reasons of decisions; called with a decision, return its value."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.notices: list[Notice] = []

    def __call__(self, decided: Reasoned[T]) -> T:
        self.decisions += decided.decisions
        self.notices += decided.notices
        return decided.value


def _planned(machine: NodeTopology, profile: NodeProfile, asked_version: str | None) -> NodePlan:
    earlier, unreadable = _earlier_plan(machine)

    # The machine as this plan makes it, for which the rest is decided.
    with_reasons = _Reasons()
    offline_before = earlier.tuning.offline if earlier else OfflinePlan()
    offline = with_reasons(plan_offline(machine, profile, offline_before))
    machine = taken_offline(machine, offline, offline_before)
    gpu_memory = with_reasons(plan_gpu_memory(machine, profile, earlier))
    machine = in_mode(machine, gpu_memory)
    mig = with_reasons(plan_mig(machine, profile))
    machine = as_cut(machine, mig)
    partitions = with_reasons(plan_amd_partitions(machine, profile))
    machine = partitioned(machine, partitions)

    # What pods get: CPUs, memory, devices, and the kubelet that allocates them.
    pods = _Reasons()
    pods.notices += (*machine_notices(machine), *kind_notices(machine, profile), *unreadable)
    installed = pods(read_installed(machine, profile, asked_version, earlier))
    existing = installed.existing
    hugepages = pods(plan_hugepages(machine, profile, earlier))
    devices = pods(plan_devices(machine, profile))
    modules = pods(plan_modules(profile))
    measure = pods(plan_measure(profile))
    tuning = pods(plan_tuning(machine, profile, offline, earlier))
    pools = pods(plan_pools(machine, profile))
    cpus = pods(plan_cpus(machine, profile, existing, offline, earlier))
    memory = pods(plan_memory(machine, profile, existing, cpus, hugepages.pages, earlier))
    interrupts = pods(plan_interrupts(machine, profile, cpus.reserved))
    system = pods(plan_slices(machine, profile, existing, cpus.reserved))
    kubelet = pods(plan_kubelet(machine, profile, installed, cpus, memory, hugepages.pages, devices, earlier))
    largest_pods = pods(plan_largest_pods(machine, profile, existing, kubelet, hugepages.pages, devices))
    capacity = pods(
        plan_capacity(machine, profile, existing, cpus, memory, hugepages.pages, kubelet, gpu_memory, earlier)
    )
    if kubelet:
        noticed = {notice.id for notice in pods.notices}
        if profile.kernel.isolated_cpus is not None or isolated_by(profile.kernel.cmdline):
            noticed.add("cpus-isolated")  # by plan_kernel, below
        has_cgroup_v2 = brings_cgroup_v2(profile)
        pods.notices += judge_startup(
            machine, kubelet, hugepages.pages, noticed, swap_off=tuning.swap_off, cgroup_v2=has_cgroup_v2
        )

    # The host around them.
    around = _Reasons()
    host = around(plan_host(machine, profile, tuning, interrupts))
    acs = around(plan_access_control(machine, profile, earlier))
    nics = around(plan_nic_queues(machine, profile, cpus.reserved))
    imex = around(plan_imex(machine, profile))
    pod_tuning = around(plan_pod_tuning(machine, profile, kubelet))
    plugin = around(plan_device_plugin(machine, profile, mig))
    watch = around(plan_watch(machine, profile))
    kernel = around(plan_kernel(machine, profile, cpus, memory.numa_nodes, hugepages.pages, acs))
    rdma = around(plan_rdma(machine, profile, pools, nics, earlier))
    dra = around(plan_dra(machine, profile, installed.version, kubelet, cpus.reserved))
    allocatable = around(plan_allocatable(capacity, devices, plugin.advertised, partitions, rdma))
    labels = around(plan_labels(machine, profile, mig, partitions, rdma, kubelet))

    plan = with_files(
        NodePlan(
            hostname=machine.hostname or "localhost",
            profile=profile.name,
            files=(),
            decisions=(*pods.decisions, *with_reasons.decisions, *around.decisions),
            notices=(*pods.notices, *with_reasons.notices, *around.notices),
            gpu_memory=gpu_memory,
            cpus=cpus,
            memory=memory,
            host=host,
            kernel=kernel,
            modules=modules,
            measure=measure,
            tuning=tuning,
            interrupts=interrupts,
            system=system,
            hugepages=hugepages,
            mig=mig,
            amd_partitions=partitions,
            imex=imex,
            pod_tuning=pod_tuning,
            device_plugin=plugin.plan,
            acs=acs,
            rdma=rdma,
            kubelet=kubelet,
            dra=dra,
            largest_pods=largest_pods,
            allocatable=allocatable,
            labels=labels,
            watch=watch,
        )
    )
    return replace(plan, written_by=earlier.written_by) if earlier and plan == earlier else plan


def _earlier_plan(machine: NodeTopology) -> tuple[NodePlan | None, tuple[Notice, ...]]:
    """Return the plan that an earlier run left on the host; a notice instead where it cannot be read."""
    try:
        return saved_plan(machine), ()
    except PlanError as error:
        message = (
            f"{PLAN_PATH} on the host cannot be read ({error.where}: {error.message}): what an "
            "earlier run merged into the kubelet's own file is taken for the admin's"
        )
        return None, (Notice("earlier-plan-unreadable", message),)


def with_files(plan: NodePlan) -> NodePlan:
    """Return a plan with the files that follow from its decisions."""
    return replace(plan, files=(PlannedFile(PLAN_PATH, "topology", None, mode="0600"), *planned_files(plan)))
