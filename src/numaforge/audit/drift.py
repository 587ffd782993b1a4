"""Rules about the plan that is saved on a host: whether the host is still as it was planned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from numaforge.audit.kubelet import kubelet_report
from numaforge.cpulist import format_cpulist
from numaforge.errors import PlanError
from numaforge.findings import Severity
from numaforge.findings.engine import Applicability, MachineRule, Scope, Seen, applies
from numaforge.kubelet.config.comparison import differences
from numaforge.kubelet.minors.versions import KubeletVersion
from numaforge.memoize import once_per_value
from numaforge.roles.document import loads
from numaforge.roles.hugepages.plan import pools_of
from numaforge.roles.kernel_values.knobs import KNOB_AT
from numaforge.roles.kernel_values.paths import knob_values
from numaforge.roles.kernel_values.sysctls import reaches
from numaforge.roles.mig.devices import as_instance
from numaforge.topology.model import HugepagePool, NodeTopology

if TYPE_CHECKING:
    from numaforge.roles.node import NodePlan

_SAVED = "/etc/numaforge/plan.json"
_APPLY = "`numaforge apply` brings the host back to its plan; plan it again where the change was wanted"
_loads = once_per_value(loads)


def saved_plan(machine: NodeTopology) -> NodePlan | None:
    """Return the plan that is saved on the host; None where there is none. Raises PlanError."""
    return _loads(machine.previous_plan) if machine.previous_plan else None


@applies("with a plan of numaforge's")
def _with_plan(machine: NodeTopology) -> Applicability:
    there = bool(machine.previous_plan)
    return Applicability(there, "a plan is saved on it" if there else "no plan is saved on it")


@applies("with a plan of numaforge's that can be read", within=_with_plan)
def _planned(machine: NodeTopology) -> Applicability | None:
    try:
        saved_plan(machine)
    except PlanError:
        return Applicability(None, "its plan cannot be read")
    return None


def _plan(machine: NodeTopology) -> NodePlan:
    plan = saved_plan(machine)
    assert plan is not None, "the rule applies to hosts with a plan"  # noqa: S101 (its scope says so)
    return plan


def _unreadable(machine: NodeTopology) -> Iterator[Seen]:
    try:
        saved_plan(machine)
    except PlanError as error:
        yield Seen(error.message, error.where)


def _another_machine(machine: NodeTopology) -> Iterator[Seen]:
    plan = _plan(machine)
    if machine.hostname is not None and plan.hostname != machine.hostname:
        yield Seen(f"{machine.hostname}, planned as {plan.hostname}", "hostname")
    if plan.cpus.online != machine.online:
        held, planned = format_cpulist(machine.online), format_cpulist(plan.cpus.online)
        yield Seen(f"{held} online, planned {planned}", "CPUs")
    there = {node.id: node.cpus for node in machine.numa_nodes}
    for node in plan.numa_nodes:
        if node.id not in there:
            yield Seen("is not there", f"NUMA node {node.id}")
        elif plan.cpus.online == machine.online and there[node.id] != node.cpus:
            held, planned = format_cpulist(there[node.id]), format_cpulist(node.cpus)
            yield Seen(f"CPUs {held}, planned {planned}", f"NUMA node {node.id}")


def _hugepages(machine: NodeTopology) -> Iterator[Seen]:
    pools: dict[int | None, Mapping[str, HugepagePool]] = {None: machine.hugepages}
    pools |= {node.id: node.hugepages for node in machine.numa_nodes}
    for place, wanted in pools_of(_plan(machine)).items():
        for size, pages in sorted(wanted.items()):
            pool = pools.get(place, {}).get(size)
            there = pool.total if pool else 0
            if there != pages:
                where = size if place is None else f"{size} on NUMA node {place}"
                yield Seen(f"{there} pages, planned {pages}", where)


def _kernel_values(machine: NodeTopology) -> Iterator[Seen]:
    for path, value in sorted(knob_values(_plan(machine).tuning).items()):
        there = machine.kernel_values.get(path)
        if there is None:
            yield Seen(unknown=f"{path} was not read")
        elif there != value:
            yield Seen(f"{there}, planned {value}", KNOB_AT[path].key)


def _scaling(machine: NodeTopology) -> Iterator[Seen]:
    tuning, scaling = _plan(machine).tuning, machine.cpufreq
    wanted = {"governor": tuning.governors, "energy preference": tuning.energy_preferences}
    held = {
        "governor": scaling.governors if scaling else {},
        "energy preference": scaling.energy_preferences if scaling else {},
    }
    for what, by_cpu in wanted.items():
        others: dict[tuple[str, str], set[int]] = {}
        for cpu, value in by_cpu.items():
            there = held[what].get(cpu)
            if there is not None and there != value:
                others.setdefault((there, value), set()).add(cpu)
        for (there, value), cpus in others.items():
            yield Seen(f"{there} on CPUs {format_cpulist(frozenset(cpus))}, planned {value}", what)


def _sysctls(machine: NodeTopology) -> Iterator[Seen]:
    tuning = _plan(machine).tuning
    for name, value in sorted({**tuning.sysctls, **tuning.raised_sysctls}.items()):
        there = machine.sysctls.get(name)
        if there is None:
            yield Seen(unknown=f"{name} was not read")
            continue
        kept = there.split() == value.split() if name in tuning.sysctls else reaches(there, value)
        if not kept:
            least = "" if name in tuning.sysctls else "at least "
            yield Seen(f"{there}, planned {least}{value}", name)


def _cmdline(machine: NodeTopology) -> Iterator[Seen]:
    plan = _plan(machine)
    if machine.kernel_cmdline is None:
        yield Seen(unknown="the kernel's command line was not read")
    elif plan.kernel.reboot == "allowed":
        words = machine.kernel_cmdline.split()
        missing = [parameter for parameter in plan.kernel.cmdline if parameter not in words]
        if missing:
            yield Seen(f"booted without {' '.join(missing)}", "kernel's command line")


@applies("with a plan of numaforge's for its kubelet", within=_planned)
def _with_kubelet(machine: NodeTopology) -> Applicability | None:
    return None if _plan(machine).kubelet else Applicability(False, "its plan leaves the kubelet alone")


def _kubelet_settings(machine: NodeTopology) -> Iterator[Seen]:
    report, kubelet = kubelet_report(machine), _plan(machine).kubelet
    if report is None or not report.effective:
        yield Seen(unknown="what the kubelet runs with is not known")
        return
    for name, value in (kubelet.settings if kubelet else {}).items():
        for said in differences(name, value, report.effective.get(name)):
            yield Seen(said, name)


def _kubelet_version(machine: NodeTopology) -> Iterator[Seen]:
    kubelet, there = _plan(machine).kubelet, machine.kubelet.version if machine.kubelet else None
    if there is None:
        yield Seen(unknown="the kubelet's version is not known")
    elif kubelet and KubeletVersion.parse(there).minor != KubeletVersion.parse(kubelet.version).minor:
        yield Seen(f"{there}, planned for {kubelet.version}", "kubelet")


@applies("with a plan of numaforge's that cuts GPUs", within=_planned)
def _with_mig(machine: NodeTopology) -> Applicability | None:
    mig = _plan(machine).mig
    ours = mig.managed_by != "gpu-operator" and bool(mig.gpus)
    return None if ours else Applicability(False, "its plan cuts no GPU")


def _mig(machine: NodeTopology) -> Iterator[Seen]:
    plan = _plan(machine).mig
    there = {gpu.pci_address: gpu for gpu in machine.gpus}
    for wanted in plan.gpus:
        gpu = there.get(wanted.pci_address)
        if gpu is None:
            yield Seen("the GPU is not there", wanted.pci_address)
        elif gpu.mig_mode is None:
            yield Seen(unknown=f"{wanted.pci_address}: its MIG mode was not read")
        elif gpu.mig_mode != (wanted.mode or "disabled"):
            yield Seen(f"MIG is {gpu.mig_mode}, planned {wanted.mode or 'disabled'}", wanted.pci_address)
        elif plan.managed_by == "numaforge" and gpu.gpu_instances is not None:
            held = frozenset(as_instance(each) for each in gpu.gpu_instances)
            if gpu.mig_mode == "enabled" and held != frozenset(wanted.instances):
                planned = ", ".join(map(str, wanted.instances)) or "none"
                yield Seen(f"{len(held)} instances that are not those planned: {planned}", wanted.pci_address)


@applies("with a plan of numaforge's that partitions AMD GPUs", within=_planned)
def _with_partitions(machine: NodeTopology) -> Applicability | None:
    return None if _plan(machine).amd_partitions.gpus else Applicability(False, "its plan partitions no GPU")


def _partitions(machine: NodeTopology) -> Iterator[Seen]:
    there = {gpu.pci_address: gpu for gpu in machine.gpus}
    for wanted in _plan(machine).amd_partitions.gpus:
        gpu = there.get(wanted.pci_address)
        cut = gpu.partition if gpu else None
        if gpu is None:
            yield Seen("the GPU is not there", wanted.pci_address)
        elif cut is None or cut.compute is None:
            yield Seen(unknown=f"{wanted.pci_address}: its modes were not read")
        elif wanted.compute != cut.compute or wanted.memory not in ("", cut.memory):
            now = " ".join(filter(None, (cut.compute, cut.memory)))
            yield Seen(f"it is in {now}, planned {wanted.modes}", wanted.pci_address)


def _rule(
    rule_id: str,
    title: str,
    look: Callable[[NodeTopology], Iterator[Seen]],
    scope: Scope = _planned,
    *,
    remedy: str = _APPLY,
    severity: Severity = Severity.ERROR,
) -> MachineRule:
    return MachineRule(rule_id, severity, title, scope, _SAVED, remedy, look)


RULES: tuple[MachineRule, ...] = (
    _rule(
        "NP101",
        "the saved plan cannot be read",
        _unreadable,
        _with_plan,
        remedy="plan the host again with the version of numaforge that is to see to it",
    ),
    _rule("NP102", "the host is not the one planned", _another_machine),
    _rule("NP103", "huge pages are not as planned", _hugepages),
    _rule("NP104", "a value of the kernel is not as planned", _kernel_values),
    _rule("NP105", "frequency scaling is not as planned", _scaling),
    _rule("NP106", "a sysctl is not as planned", _sysctls),
    _rule("NP107", "the kernel has booted without planned parameters", _cmdline),
    _rule("NP108", "the kubelet's settings are not as planned", _kubelet_settings, _with_kubelet),
    _rule(
        "NP109",
        "the plan is for another minor of the kubelet",
        _kubelet_version,
        _with_kubelet,
        remedy="`numaforge apply` plans for the kubelet that is there",
        severity=Severity.WARNING,
    ),
    _rule("NP110", "GPUs are not cut as planned", _mig, _with_mig),
    _rule("NP111", "AMD GPUs do not have the planned modes", _partitions, _with_partitions),
)
