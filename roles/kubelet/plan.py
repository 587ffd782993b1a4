"""The kubelet's settings for one version: policies, options and the feature gates that they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from numaforge.kubelet.admission.device_manager import Inventory
from numaforge.kubelet.admission.hint_work import (
    ENDLESS_NUMA_NODES,
    MEMORY_MANAGER,
    NEWER_KUBELET,
    HintWork,
    Policies,
    fewer_numa_nodes,
    hint_work,
)
from numaforge.kubelet.admission.inventory import whole_gpus
from numaforge.kubelet.admission.machine import MachineInfo, cores_seen
from numaforge.kubelet_minors.options import (
    ALIGN_BY_SOCKET,
    DEFAULT_MAX_NUMA_NODES,
    FULL_PCPUS_ONLY,
    MAX_ALLOWABLE_NUMA_NODES,
    PREFER_CLOSEST_NUMA,
    STRICT_CPU_RESERVATION,
    Maturity,
    OptionState,
    cpu_options,
    forbidden_pairs,
    known_versions_of,
    topology_options,
)
from numaforge.kubelet_minors.values.numbers import truth
from numaforge.kubelet_minors.versions import LATEST_MINOR, KubeletVersion
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import KubeletConfigError, PlanError
from numaforge.lib.given import digits
from numaforge.lib.quantity import format_bytes
from numaforge.lib.reasons import Decision, Notice, Reasoned
from numaforge.machine.topology.links import nodes_of_gpus
from numaforge.machine.topology.model import KubeletInstall, NodeTopology, why_no_version
from numaforge.roles.cpus.plan import CpuPlan, uneven_smt
from numaforge.roles.hugepages.plan import WantedPages, pools_after
from numaforge.roles.kubelet import engine
from numaforge.roles.kubelet.delivery import KubeletPlan, hand_back, plan_delivery
from numaforge.roles.kubelet.existing import ExistingSettings, read_existing
from numaforge.roles.kubelet.largest_pods import admits_all_devices
from numaforge.roles.kubelet.section import read_taint
from numaforge.roles.memory.plan import MemoryPlan, holds_reservation

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.planning.profile import NodeProfile


# The profile field of each policy and scope.
_FIELDS = {
    "cpuManagerPolicy": "kubelet.cpu_manager_policy",
    "topologyManagerPolicy": "kubelet.topology_manager_policy",
    "topologyManagerScope": "kubelet.topology_manager_scope",
    "memoryManagerPolicy": "kubelet.memory_manager_policy",
}

# Before it k3s and RKE2 give their kubelet flags alone, which no file overrides.
_FIRST_MINOR_OF_DISTRIBUTIONS = 32

_EPYC = "AuthenticAMD"

Options = dict[str, str]


def kubelet_version(
    topology: NodeTopology, profile: NodeProfile, version_wish: str | None, previous: NodePlan | None
) -> Reasoned[KubeletVersion | None]:
    """Return the version to plan for: the one asked for, else the host's, else the profile's, else None.

    Raises PlanError where the host has a kubelet, or `previous` planned one, whose version is not known.
    """
    distribution = topology.kubelet.distribution if topology.kubelet else None
    if topology.kubelet and distribution and version_wish is None and not _takes_drop_ins(topology.kubelet):
        arguments = topology.kubelet.arguments_file
        unread = f"; {arguments} was not read" if arguments in topology.unreadable else ""
        notice = Notice(
            "kubelet-of-a-distribution",
            f"{distribution} runs this host's kubelet its own way, and no drop-in is known to reach "
            f"it{unread}: its settings are not planned, and what would disturb its pods is refused",
        )
        return Reasoned(None, notices=(notice,))
    installed = topology.kubelet.version if topology.kubelet else None
    text, field = version_wish or installed, "kubelet version"
    if text is None:
        text, field = profile.kubelet.version, "kubelet.version"
    unknown = why_no_version(topology.kubelet)
    if text is None and _is_there(topology.kubelet, previous):
        raise PlanError(
            f"the kubelet's version is not known: {unknown}",
            where=field,
            remedy="fix it, or run again when the host is less busy, or name kubelet.version in the profile",
        )
    if text is None:
        text = f"{unknown} and the profile names no version: its settings are not planned"
        return Reasoned(None, notices=(Notice("no-kubelet", text),))
    try:
        version = KubeletVersion.parse(text)
    except KubeletConfigError as error:
        raise PlanError(error.message, where=field, remedy=error.remedy) from error
    notices = (Notice("newer-kubelet", version.notice),) if version.notice else ()
    return Reasoned(version, notices=notices)


class InstalledKubelet(NamedTuple):
    """The installed kubelet: its version and existing settings."""

    version: KubeletVersion | None
    existing: ExistingSettings


def read_installed(
    machine: NodeTopology, profile: NodeProfile, version_wish: str | None, earlier: NodePlan | None
) -> Reasoned[InstalledKubelet]:
    """Return the kubelet of this host with its admin's settings."""
    version = kubelet_version(machine, profile, version_wish, earlier)
    existing = read_existing(
        machine.kubelet,
        earlier.kubelet if earlier else None,
        version.value or KubeletVersion(LATEST_MINOR),
        override=profile.kubelet.on_conflict == "override",
    )
    return Reasoned(InstalledKubelet(version.value, existing), version.decisions, version.notices)


def _takes_drop_ins(kubelet: KubeletInstall) -> bool:
    """Return whether a distribution's kubelet runs, and reads drop-ins or can be told to by its arguments."""
    if kubelet.unit is None or kubelet.version is None:
        return False
    if kubelet.config_dir is None and kubelet.arguments_text is None:
        return False
    return KubeletVersion.parse(kubelet.version).minor >= _FIRST_MINOR_OF_DISTRIBUTIONS


def _is_there(kubelet: KubeletInstall | None, previous: NodePlan | None) -> bool:
    """Whether there is a kubelet to configure: its program, or a unit that an earlier plan is for."""
    if kubelet is None:
        return False
    planned = previous is not None and previous.kubelet is not None
    return bool(kubelet.problem or planned)


@dataclass
class _Chooser:
    """Takes the decisions in order; each can use the earlier ones."""

    topology: NodeTopology
    profile: NodeProfile
    version: KubeletVersion
    existing: ExistingSettings
    cpus: CpuPlan
    memory: MemoryPlan
    pages: WantedPages
    devices: Inventory

    def __post_init__(self) -> None:
        self.wish = self.profile.kubelet
        self.seen = MachineInfo.from_topology(self.topology)
        self.decisions: list[Decision] = []
        self.notices: list[Notice] = []

    def settings(self) -> dict[str, Any]:
        """Return the managed part of the KubeletConfiguration, in the order of its reference."""
        self._refuse_reserved_cgroups()
        if engine.by_claims(self.wish):
            engine.require(self.wish, self.version)
            self.decisions.append(Decision(engine.FIELD, "dra", self.profile.choice(engine.FIELD)))
            self.notices += engine.notices(self.version)
        cpu_default = (
            ("static", "Guaranteed pods that ask for whole CPUs get them to themselves")
            if self.cpus.reserved
            else ("none", "no CPUs are reserved, which the static policy needs")
        )
        cpu_policy = self._policy("cpuManagerPolicy", self.wish.cpu_manager_policy, *cpu_default)
        if cpu_policy == "static" and not self.cpus.reserved:
            raise PlanError(
                "the static CPU manager needs reserved CPUs, and this machine's only core cannot be divided",
                where="kubelet.cpu_manager_policy",
                remedy="set kubelet.cpu_manager_policy: none",
            )
        topology_policy = self._policy(
            "topologyManagerPolicy",
            self.wish.topology_manager_policy,
            *self._bearable(cpu_policy, *self._topology_policy_default(cpu_policy)),
        )
        scope = self._policy(
            "topologyManagerScope",
            self.wish.topology_manager_scope,
            "container",
            "the kubelet's default: each container is aligned by itself",
        )
        memory_policy = self._policy(
            "memoryManagerPolicy",
            self.wish.memory_manager_policy,
            *self._memory_policy_default(topology_policy),
        )
        cpu_chosen = self._cpu_options(cpu_policy, topology_policy)
        topology_chosen = self._topology_options(topology_policy)
        self._judge_division(topology_policy, topology_chosen)
        self._judge_hints(cpu_policy, memory_policy, topology_policy)
        settings: dict[str, Any] = {
            "reservedSystemCPUs": format_cpulist(self.cpus.reserved),
            "cpuManagerPolicy": cpu_policy,
            "cpuManagerPolicyOptions": cpu_chosen,
            "memoryManagerPolicy": memory_policy,
            "topologyManagerPolicy": topology_policy,
            "topologyManagerScope": scope,
            "topologyManagerPolicyOptions": topology_chosen,
            "kubeReserved": self._amount(self.memory.kube_reserved_bytes, "kubeReserved"),
            "systemReserved": self._amount(self.memory.system_reserved_bytes, "systemReserved"),
            "evictionHard": dict(self.memory.eviction_hard),
            "reservedMemory": self._reserved_memory(memory_policy),
            "featureGates": self._gates(cpu_chosen, topology_chosen),
            "registerWithTaints": self._taints(),
        }
        by_flags = [name for name in settings if (flag := self.existing.get(name)) and flag.from_flag]
        return {
            name: value
            for name, value in settings.items()
            if value not in ("", {}, []) and name not in by_flags
        }

    def _refuse_reserved_cgroups(self) -> None:
        for name in ("systemReservedCgroup", "kubeReservedCgroup"):
            setting = self.existing.get(name)
            if setting and self.cpus.reserved:
                raise PlanError(
                    f"{setting.place} sets {name}: {setting.value}, and the kubelet does not start with "
                    "that and reservedSystemCPUs together",
                    where="cpus.reserved",
                    remedy=f"remove {name} from {setting.place}",
                )

    def _policy(self, name: str, policy_wish: str | None, default: str, reason: str) -> str:
        subject = f"kubelet.{name}"
        by_engine = engine.POLICIES.get(_FIELDS[name].rpartition(".")[2])
        if by_engine and engine.by_claims(self.wish):
            self.existing.settle((name,), by_engine, subject=engine.FIELD)
            self.decisions.append(Decision(subject, by_engine, engine.REASON))
            return by_engine
        kept_setting = self.existing.settle((name,), policy_wish, subject=_FIELDS[name])
        if kept_setting:
            value, reason = str(kept_setting.value), f"kept as {kept_setting.place} has it"
        else:
            if policy_wish is not None:
                default, reason = policy_wish, self.profile.choice(_FIELDS[name])
            value = default
        self.decisions.append(Decision(subject, value, reason))
        return value

    def _topology_policy_default(self, cpu_policy: str) -> tuple[str, str]:
        """Return the strictest policy that admits one pod with all GPUs, and the reason.

        Under a stricter one every such pod that the scheduler places fails (pytorch/ci-infra#652).
        """
        nodes = sum(bool(node.cpus) for node in self.topology.numa_nodes)
        if nodes <= 1:
            return "none", "there is one NUMA node with CPUs, so there is nothing to align"
        aligned = f"{nodes} NUMA nodes have CPUs: a pod's CPUs, memory and devices stay on one of them"
        gpus_by_resource = whole_gpus(self.devices)
        devices = [device for listed in gpus_by_resource.values() for device in listed]
        gpus = len(devices)
        if not gpus:
            return "single-numa-node", aligned
        strict = [
            p for p in ("single-numa-node", "restricted") if self._admits_all(gpus_by_resource, p, cpu_policy)
        ]
        if strict:
            return strict[0], f"{aligned}, and {strict[0]} admits a pod with all {gpus} GPUs"
        near = len({device.numa_nodes for device in devices})
        reason = (
            f"the {gpus} GPUs are near {near} NUMA nodes: single-numa-node and restricted would refuse a pod "
            "with a core and all of them; best-effort aligns what fits and admits the rest"
        )
        return "best-effort", reason

    def _bearable(self, cpu_policy: str, policy: str, reason: str) -> tuple[str, str]:
        """Return a default under which the kubelet starts and admits pods in time: none, if need be.

        That is the kubelet's own default, too. A policy that the profile names is refused instead.
        """
        is_chosen = self.wish.topology_manager_policy or self.wish.topology_manager_options
        if policy == "none" or is_chosen or self.existing.get("topologyManagerPolicy"):
            return policy, reason
        if self._has_too_many_numa_nodes():
            limit = f"{self._numa_node_limit()}, so it would not start with {policy}"
            self._notice(
                "not-aligned",
                f"{limit}: by default pods are not aligned to NUMA nodes here. To align them, "
                + "; or ".join([self._kubelet_with_limit(), *fewer_numa_nodes(self.topology)]),
            )
            return "none", limit
        work = self._hint_work(cpu_policy, "None", policy)
        if not work.stalls:
            return policy, reason
        self._notice(
            "not-aligned",
            f"with {policy}, {work}: by default pods are not aligned to NUMA nodes here. To align them, "
            f"{work.ways_to_align(self.topology)}",
        )
        return "none", f"with {policy}, {work}, and no pod would be admitted in time"

    def _admits_all(self, devices: Inventory, topology_policy: str, cpu_policy: str) -> bool:
        limit = max(len(self.topology.numa_nodes), DEFAULT_MAX_NUMA_NODES)
        config = {
            "cpuManagerPolicy": cpu_policy,
            "reservedSystemCPUs": format_cpulist(self.cpus.reserved),
            "topologyManagerPolicy": topology_policy,
            "topologyManagerPolicyOptions": {MAX_ALLOWABLE_NUMA_NODES: str(limit)},
        }
        return admits_all_devices(self.seen, config, devices)

    def _memory_policy_default(self, topology_policy: str) -> tuple[str, str]:
        if self.memory.reserved_bytes == 0:
            return "None", "no memory is reserved, which the Static policy needs"
        if not any(node.reserved_memory_bytes for node in self.memory.numa_nodes):
            if holds_reservation(self.topology):
                return "None", "the NUMA nodes that have CPUs cannot hold the reservation"
            return "None", "no NUMA node is known to have CPUs and memory"
        if topology_policy in ("restricted", "single-numa-node"):
            work = self._hint_work("static", "Static", topology_policy)
            if work.stalls:
                return "None", f"with Static, {work}"
            return (
                "Static",
                f"with {topology_policy}, memory and huge pages are to come from the pod's own NUMA nodes",
            )
        return "None", f"with topology manager policy {topology_policy}, memory is left to the kernel"

    def _hint_work(self, cpu_policy: str, memory_policy: str, topology_policy: str) -> HintWork:
        pages = {
            size
            for node in self.topology.numa_nodes
            for size, count in pools_after(node, self.pages.get(node.id, {})).items()
            if count
        }
        policies = Policies(cpu_policy, memory_policy, topology_policy, pages)
        return hint_work(self.topology, self.version, policies)

    def _judge_hints(self, cpu_policy: str, memory_policy: str, topology_policy: str) -> None:
        """Refuse policies under which the kubelet admits no pod in time; add a notice where it is slow."""
        work = self._hint_work(cpu_policy, memory_policy, topology_policy)
        if not work.slow:
            return
        memory, topology = _FIELDS["memoryManagerPolicy"], _FIELDS["topologyManagerPolicy"]
        remedy = work.remedies(self.topology, memory, self._no_alignment())
        if work.hopeless:
            raise PlanError(
                f"{work}: kubelet {self.version} would admit no pod in time",
                where=memory if MEMORY_MANAGER in (work.endless or work.numa_nodes) else topology,
                remedy=remedy,
            )
        self._notice("many-hints", f"{work}: {remedy}")

    def _no_alignment(self) -> str:
        options = " and leave kubelet.topology_manager_options out"
        policy = f"set {_FIELDS['topologyManagerPolicy']}: none"
        return policy + (options if self.wish.topology_manager_options else "")

    def _cpu_options(self, policy: str, topology_policy: str) -> Options:
        known_options = cpu_options(self.version)
        field = "kubelet.cpu_manager_options"
        options = dict(sorted(self.wish.cpu_manager_options.items()))
        if policy != "static" and options:
            raise PlanError(
                f"{', '.join(options)} cannot be given with the CPU manager's policy {policy}: the kubelet "
                "would not start",
                where=field,
                remedy=f"set kubelet.cpu_manager_policy: static, or leave {field} out"
                if self.cpus.reserved
                else f"leave {field} out",
            )
        if policy != "static":
            return {}
        self._check_options(options, known_options, field)
        chosen = self._settle_options("cpuManagerPolicyOptions", options, field, _same_bool)
        existing_options = {
            key: str(setting.value) for key, setting in self.existing.below("cpuManagerPolicyOptions").items()
        }
        whole_map = self.existing.effective.get("cpuManagerPolicyOptions") or {}  # of files, and of a flag
        effective = {**existing_options, **chosen}
        name = "cpuManagerPolicyOptions"
        if self._wants_full_cores(effective):
            effective[FULL_PCPUS_ONLY] = "true"
            reason = "pods do not share a core's threads with others"
            self._turn_on(name, FULL_PCPUS_ONLY, chosen, reason)
        if self._wants_strict_reservation(effective, known_options):
            reason = (
                "no pod runs on reserved CPUs, not even one that shares CPUs with others; while pods have "
                "all other CPUs to themselves the kubelet does not restart (kubernetes/kubernetes#141196)"
            )
            self._turn_on(name, STRICT_CPU_RESERVATION, chosen, reason)
        elif not truth({**whole_map, **effective}.get(STRICT_CPU_RESERVATION)):
            self._notice(
                "reserved-cpus-shared",
                f"without {STRICT_CPU_RESERVATION}, kubelet {self.version} lets pods that share CPUs "
                "run on the reserved ones, too: only pods with CPUs of their own are kept off",
            )
        self._refuse_pairs(effective, topology_policy, field)
        return dict(sorted(chosen.items()))

    def _wants_strict_reservation(self, effective: Options, known_options: Mapping[str, OptionState]) -> bool:
        """Whether to turn the option on where it is unset: from the first minor in which it is not alpha."""
        state = known_options.get(STRICT_CPU_RESERVATION)
        if state is None or state.maturity is Maturity.ALPHA or STRICT_CPU_RESERVATION in effective:
            return False
        gate = self.existing.get("featureGates", state.gate) if state.gate else None
        off = gate is not None and truth(gate.value) is False
        return not off and self.existing.get("cpuManagerPolicyOptions") is None

    def _wants_full_cores(self, effective: Options) -> bool:
        if FULL_PCPUS_ONLY in effective or self.existing.get("cpuManagerPolicyOptions") is not None:
            return False
        if uneven_smt(self.topology) or all(len(core.cpus) == 1 for core in cores_seen(self.topology)):
            return False
        partners = {
            ({pair.first, pair.second} - {FULL_PCPUS_ONLY}).pop()
            for pair in forbidden_pairs(self.version)
            if FULL_PCPUS_ONLY in (pair.first, pair.second)
        }
        return not any(truth(effective.get(partner)) for partner in partners)

    def _refuse_pairs(self, effective: Options, topology_policy: str, field: str) -> None:
        on = {name for name, value in effective.items() if truth(value)}
        for pair in forbidden_pairs(self.version):
            if {pair.first, pair.second} <= on:
                raise PlanError(
                    f"kubelet {self.version} refuses {pair.first} and {pair.second} together",
                    where=field,
                    remedy=f"leave {field}.{pair.first} out, or leave {field}.{pair.second} out",
                )
        if ALIGN_BY_SOCKET not in on:
            return
        if topology_policy == "single-numa-node":
            raise PlanError(
                f"kubelet {self.version} refuses {ALIGN_BY_SOCKET} with the topology manager's "
                "single-numa-node",
                where=field,
                remedy=f"set kubelet.topology_manager_policy: restricted, or leave {field}.{ALIGN_BY_SOCKET} "
                "out",
            )
        counted = self.seen.cpus
        if counted.num_sockets > counted.num_numa_nodes:
            raise PlanError(
                f"{ALIGN_BY_SOCKET} needs a NUMA node in every package; there are "
                f"{counted.num_sockets} packages, and fewer NUMA nodes with CPUs: {counted.num_numa_nodes}",
                where=field,
                remedy=f"leave {field}.{ALIGN_BY_SOCKET} out",
            )

    def _topology_options(self, policy: str) -> Options:
        known_options = topology_options(self.version)
        field = "kubelet.topology_manager_options"
        options = dict(sorted(self.wish.topology_manager_options.items()))
        if policy == "none" and options:
            raise PlanError(
                f"{', '.join(options)} have no effect with the topology manager's policy none",
                where=field,
                remedy=f"set kubelet.topology_manager_policy: best-effort, or leave {field} out",
            )
        if policy == "none":
            return {}
        self._check_options(options, known_options, field)
        chosen = self._settle_options(
            "topologyManagerPolicyOptions",
            options,
            field,
            lambda text, value: str(value) == text or _same_bool(text, value),
        )
        self._refuse_unmeasured(chosen, field)
        self._add_prefer_closest(policy, chosen, known_options)
        self._add_max_numa_nodes(chosen, field)
        return dict(sorted(chosen.items()))

    def _refuse_unmeasured(self, chosen: Options, field: str) -> None:
        nodes = self.topology.numa_nodes
        measured = nodes and all(node.distances for node in nodes)
        if truth(chosen.get(PREFER_CLOSEST_NUMA)) and not measured:
            raise PlanError(
                f"{PREFER_CLOSEST_NUMA} needs the distances between NUMA nodes, and the kernel gives none",
                where=f"{field}.{PREFER_CLOSEST_NUMA}",
                remedy=f"leave {field}.{PREFER_CLOSEST_NUMA} out",
            )

    def _add_prefer_closest(
        self, policy: str, chosen: Options, known_options: Mapping[str, OptionState]
    ) -> None:
        several = sum(bool(node.cpus) for node in self.topology.numa_nodes) > 2
        measured = all(len(node.distances) > 1 for node in self.topology.numa_nodes)
        ids = sorted(node.id for node in self.topology.numa_nodes)
        gaps = ids != list(range(len(ids)))  # with which the kubelet panics when it compares NUMA nodes
        existing_options = self.existing.below("topologyManagerPolicyOptions")
        if (
            policy in ("best-effort", "restricted")
            and several
            and measured
            and not gaps
            and PREFER_CLOSEST_NUMA in known_options
            and PREFER_CLOSEST_NUMA not in {**existing_options, **chosen}
            and self.existing.get("topologyManagerPolicyOptions") is None
        ):
            reason = "pods that need several NUMA nodes get near ones"
            self._turn_on("topologyManagerPolicyOptions", PREFER_CLOSEST_NUMA, chosen, reason)

    def _judge_division(self, policy: str, chosen: Options) -> None:
        """Add a notice of what pods with GPUs get where firmware divides an EPYC into NUMA nodes.

        It names the alternatives. A GPU is near one NUMA node: its quadrant in NPS4, the quadrant's first L3
        with L3 as NUMA domain.
        """
        near_gpus = {gpu.numa_node for gpu in self.topology.gpus}
        with_cpus = [node for node in self.topology.numa_nodes if node.cpus]
        sizes = [len(node.cpus - self.cpus.reserved) for node in with_cpus if node.id in near_gpus]
        nodes, packages = len(with_cpus), len(self.topology.packages)
        has_notice = any(notice.id == "not-aligned" for notice in self.notices)  # it names the alternatives
        if self.topology.cpu_vendor != _EPYC or not sizes or nodes <= packages or has_notice:
            return
        closest = truth(chosen.get(PREFER_CLOSEST_NUMA))
        near = "with prefer-closest-numa-nodes near ones" if closest else "near or far"
        best = "kubelet.topology_manager_policy: best-effort"
        under = {
            "best-effort": f"best-effort gives a pod that needs more several NUMA nodes, {near}",
            "single-numa-node": f"single-numa-node refuses a pod that needs more: set {best}",
            "restricted": "restricted refuses a pod whose GPUs need fewer NUMA nodes than its CPUs: set "
            + best,
        }.get(policy, f"{policy} aligns none of them: set {best}")
        self._notice(
            "divided-packages",
            f"{packages} packages are {nodes} NUMA nodes, and pods find at most {max(sizes)} CPUs on "
            f"that of a GPU; {under}; or choose NPS1 in the firmware, without L3 as NUMA domain: a "
            "package is then one NUMA node, on which such a pod is aligned",
        )

    def _has_too_many_numa_nodes(self) -> bool:
        """Whether this kubelet starts only with policy none here: no option raises its NUMA node limit."""
        is_raisable = MAX_ALLOWABLE_NUMA_NODES in topology_options(self.version)
        return len(self.topology.numa_nodes) > DEFAULT_MAX_NUMA_NODES and not is_raisable

    def _numa_node_limit(self) -> str:
        return (
            f"the machine has {len(self.topology.numa_nodes)} NUMA nodes, those without CPUs included, and "
            f"kubelet {self.version} aligns at most {DEFAULT_MAX_NUMA_NODES}"
        )

    def _kubelet_with_limit(self) -> str:
        if len(nodes_of_gpus(self.topology)) >= ENDLESS_NUMA_NODES:
            return NEWER_KUBELET
        return f"use a kubelet that has {MAX_ALLOWABLE_NUMA_NODES} ({_versions(MAX_ALLOWABLE_NUMA_NODES)})"

    def _add_max_numa_nodes(self, chosen: Options, field: str) -> None:
        nodes = len(self.topology.numa_nodes)
        if nodes <= DEFAULT_MAX_NUMA_NODES and MAX_ALLOWABLE_NUMA_NODES not in chosen:
            return
        if self._has_too_many_numa_nodes():
            raise PlanError(
                self._numa_node_limit(),
                where="kubelet.topology_manager_policy",
                remedy=f"{self._kubelet_with_limit()}, or {self._no_alignment()}",
            )
        setting = self.existing.get("topologyManagerPolicyOptions", MAX_ALLOWABLE_NUMA_NODES)
        value = chosen.get(MAX_ALLOWABLE_NUMA_NODES) or (str(setting.value) if setting else None)
        if value is None and self.existing.get("topologyManagerPolicyOptions") is None:
            chosen[MAX_ALLOWABLE_NUMA_NODES] = str(nodes)
            self._decide_option(
                "topologyManagerPolicyOptions",
                MAX_ALLOWABLE_NUMA_NODES,
                str(nodes),
                f"the machine has {nodes} NUMA nodes, those without CPUs included; the kubelet's limit is "
                f"{DEFAULT_MAX_NUMA_NODES}",
            )
        elif value is None or (digits(value) or 0) < max(nodes, DEFAULT_MAX_NUMA_NODES):
            raise PlanError(
                f"{MAX_ALLOWABLE_NUMA_NODES} is {value or 'not set'}"
                + (f" in {setting.place}" if setting and setting.value == value else "")
                + f", but the machine has {nodes} NUMA nodes, those without CPUs included",
                where=field,
                remedy=f'set {field}.{MAX_ALLOWABLE_NUMA_NODES}: "{max(nodes, DEFAULT_MAX_NUMA_NODES)}", or '
                "more",
            )

    def _check_options(self, options: Options, known_options: Mapping[str, OptionState], field: str) -> None:
        for name, value in options.items():
            if name not in known_options:
                versions = _versions(name)
                raise PlanError(
                    f"kubelet {self.version} does not know the option {name}",
                    where=f"{field}.{name}",
                    remedy=f"use a kubelet that has {name} ({versions}), or leave {field}.{name} out"
                    if versions
                    else f"leave {field}.{name} out: kubelet {self.version} knows "
                    f"{', '.join(sorted(known_options))}",
                )
            if known_options[name].kind == "bool" and truth(value) is None:
                raise PlanError(
                    f"{value!r} is neither true nor false",
                    where=f"{field}.{name}",
                    remedy="write true or false",
                )
            if known_options[name].kind == "int" and digits(value) is None:
                raise PlanError(
                    f"{value!r} is not a number", where=f"{field}.{name}", remedy="write a whole number"
                )

    def _settle_options(
        self, name: str, options: Options, field: str, same: Callable[[str, Any], bool]
    ) -> Options:
        """Return the profile's options, each compared with the kubelet's existing setting."""
        for option, value in options.items():
            self.existing.settle(
                (name, option), value, subject=f"{field}.{option}", same=partial(same, value)
            )
            self._decide_option(name, option, value, self.profile.choice(f"{field}.{option}"))
        return dict(options)

    def _taints(self) -> list[dict[str, str]]:
        texts = self.wish.register_with_taints
        if not texts:
            return []
        name, field = "registerWithTaints", "kubelet.register_with_taints"
        shown, taints = ", ".join(texts), [read_taint(text) for text in texts]
        self.existing.settle((name,), texts, subject=field, same=taints.__eq__, shown=shown)
        self.decisions.append(Decision(f"kubelet.{name}", shown, self.profile.choice(field)))
        return taints

    def _turn_on(self, name: str, option: str, chosen: Options, reason: str) -> None:
        chosen[option] = "true"
        self._decide_option(name, option, "true", reason)

    def _decide_option(self, name: str, option: str, value: str, reason: str) -> None:
        self.decisions.append(Decision(f"kubelet.{name}.{option}", value, reason))

    def _notice(self, notice_id: str, text: str) -> None:
        self.notices.append(Notice(notice_id, text))

    def _amount(self, count: int, name: str) -> dict[str, str]:
        setting = self.existing.get(name, "cpu")
        if setting and self.cpus.reserved:
            self._notice(
                "reserved-cpu-overruled",
                f"{setting.place} sets {name}.cpu: {setting.value}, which the kubelet ignores once "
                "reservedSystemCPUs is set",
            )
        return {"memory": format_bytes(count)} if count else {}

    def _reserved_memory(self, policy: str) -> list[dict[str, Any]]:
        if policy != "Static":
            return []
        shares = [
            {"numaNode": node.id, "limits": {"memory": format_bytes(node.reserved_memory_bytes)}}
            for node in self.memory.numa_nodes
            if node.reserved_memory_bytes
        ]
        if not shares:
            can_hold = bool(self.topology.memory_bytes) and holds_reservation(self.topology)
            nothing = not self.memory.reserved_bytes
            raise PlanError(
                "the Static memory manager needs reserved memory, and "
                + ("none is reserved" if nothing else "no NUMA node is known to have room for it"),
                where="kubelet.memory_manager_policy",
                remedy=("set memory.system_reserved: 500Mi, or more, or " if can_hold else "")
                + "set kubelet.memory_manager_policy: None",
            )
        return shares

    def _gates(self, cpu_chosen: Options, topology_chosen: Options) -> dict[str, bool]:
        cpu_states, topology_states = cpu_options(self.version), topology_options(self.version)
        states = {f"kubelet.cpu_manager_options.{name}": cpu_states[name] for name in cpu_chosen}
        states |= {
            f"kubelet.topology_manager_options.{name}": topology_states[name] for name in topology_chosen
        }
        gates = {}
        for gate in engine.gates(self.version) if engine.by_claims(self.wish) else ():
            self._settle_gate(gate, engine.FIELD, "dra")
            gates[gate] = True
            self._decide_option("featureGates", gate, "true", "the CPU driver needs it, and it is alpha here")
        for name, state in states.items():
            if state.gate is None:
                continue
            off = self.existing.get("featureGates", state.gate)
            self._settle_gate(state.gate, name, state.name)
            if not state.gate_default or (off and not _same_bool("true", off.value)):
                gates[state.gate] = True
                self._decide_option(
                    "featureGates", state.gate, "true", f"{state.name} is {state.maturity} here"
                )
        return dict(sorted(gates.items()))

    def _settle_gate(self, gate: str, subject: str, needs: str) -> None:
        self.existing.settle(
            ("featureGates", gate),
            "true",
            subject=subject,
            same=partial(_same_bool, "true"),
            shown=f"{needs}, which needs the feature gate {gate}",
        )


def _versions(option: str) -> str:
    minors = sorted(known_versions_of(option))
    return f"1.{minors[0]} to 1.{minors[-1]}" if minors else ""


def _same_bool(text: str, existing: object) -> bool:
    return truth(text) is not None and truth(text) == truth(existing)


def plan_kubelet(
    machine: NodeTopology,
    profile: NodeProfile,
    installed: InstalledKubelet,
    cpus: CpuPlan,
    memory: MemoryPlan,
    pages: WantedPages,
    devices: Inventory,
    previous: NodePlan | None,
) -> Reasoned[KubeletPlan | None]:
    """Return the kubelet's settings: the policies, their options, and how the settings reach it.

    Raises PlanError for what this version does not know or rejects, and for contradictions with the
    kubelet's existing settings.
    """
    version, existing = installed.version, installed.existing
    if version is None:
        return Reasoned(None)
    if profile.kubelet.state == "absent":
        hand_back_notices: list[Notice] = []
        handed_back = hand_back(machine, version, previous, hand_back_notices)
        why = "the profile says that numaforge sets nothing of it"
        decision = Decision("kubelet", "as without numaforge", why)
        absent = _of_machine(handed_back, machine.kubelet, profile)
        return Reasoned(absent, (decision,), tuple(hand_back_notices))
    chooser = _Chooser(machine, profile, version, existing, cpus, memory, pages, devices)
    settings, notices = chooser.settings(), chooser.notices
    plan = plan_delivery(machine, version, profile, existing, settings, previous, notices)
    return Reasoned(_of_machine(plan, machine.kubelet, profile), tuple(chooser.decisions), tuple(notices))


def _of_machine(kubelet: KubeletPlan, install: KubeletInstall | None, profile: NodeProfile) -> KubeletPlan:
    """Return the same with the path and version of this machine's kubelet binary, and how it is applied."""
    binary = install.binary if install else None
    return replace(
        kubelet,
        binary=binary,
        binary_version=install.version if binary and install else None,
        rehearsal=profile.maintenance.rehearsal,
    )
