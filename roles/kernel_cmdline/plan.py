"""What needs a reboot: parameters of the kernel's command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.lib.errors import PlanError
from numaforge.lib.quantity import parse_bytes
from numaforge.lib.reasons import Decision, Notice, Reasoned
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.numa import hugepage_sizes, page_size
from numaforge.roles.gpudirect.plan import AcsPlan, config_acs
from numaforge.roles.kernel_cmdline.parameters import REPEATED, isolated_by, parameter_name
from numaforge.roles.kernel_cmdline.section import ALLOCATABLE
from numaforge.roles.kernel_values.keys import sysctl_knobs

if TYPE_CHECKING:
    from numaforge.planning.profile import NodeProfile
    from numaforge.roles.cpus.plan import CpuPlan
    from numaforge.roles.hugepages.plan import WantedPages
    from numaforge.roles.memory.plan import NumaNodePlan


@dataclass(frozen=True)
class KernelPlan:
    """What needs a reboot: the planned parameters of the kernel's command line, all others kept.

    `reboot` is "allowed" or "never": under "never" missing parameters are reported, and nothing is written.
    `next_kernel` is "running" where a reboot must start the same kernel, else "any".
    """

    cmdline: tuple[str, ...] = ()
    reboot: str = "never"
    next_kernel: str = "running"


_PARAMETERS = "Documentation/admin-guide/kernel-parameters.txt"
_INTEL, _AMD = ("GenuineIntel",), ("AuthenticAMD", "HygonGenuine")
_PAGES_BY_NUMA_NODE = (5, 16)  # hugepages=0:8,1:8


class _Intent(NamedTuple):
    """The parameters that one key of the profile means on this machine."""

    place: str  # "kernel.iommu"
    parameters: tuple[str, ...]
    reason: str


def _intents(
    topology: NodeTopology,
    profile: NodeProfile,
    cpus: CpuPlan,
    numa_nodes: Sequence[NumaNodePlan],
    hugepages: WantedPages,
    notices: list[Notice],
) -> Iterator[_Intent]:
    wish = profile.kernel
    if wish.cmdline:
        reason = profile.choice("kernel.cmdline", f"the profile {profile.name} asks for it")
        yield _Intent("kernel.cmdline", wish.cmdline, reason)
    for parameter, risk in wish.unsafe.items():
        reason = profile.choice("kernel.unsafe", f"the profile {profile.name} takes the risk")
        yield _Intent("kernel.unsafe", (parameter,), f"{reason}: {risk}")
        notices.append(
            Notice("unsafe-parameter", f"{parameter} is not a known parameter; the profile's reason: {risk}")
        )
    yield from _iommu(topology, profile, notices)
    yield from _cpu_sets(topology, profile, cpus, notices)
    yield from _switches(profile)
    yield from _max_cstate(topology, profile, notices)
    yield from _boot_hugepages(topology, profile, numa_nodes, hugepages)


def _said_once(intents: Iterable[_Intent]) -> tuple[str, ...]:
    """Return all parameters in order.

    Raises PlanError, naming both places, for a parameter that is set twice.
    """
    place_of: dict[str, tuple[str, str]] = {}
    for intent in intents:
        for parameter in intent.parameters:
            name = parameter if parameter_name(parameter) in REPEATED else parameter_name(parameter)
            if name in place_of:
                field, earlier = place_of[name]
                raise PlanError(
                    f"{field} says {earlier}, and {intent.place} comes to {parameter}",
                    where=field,
                    remedy=f"leave {earlier} out of {field}, or leave out {intent.place}",
                )
            place_of[name] = intent.place, parameter
    return tuple(parameter for _, parameter in place_of.values())


def _iommu(topology: NodeTopology, profile: NodeProfile, notices: list[Notice]) -> Iterator[_Intent]:
    wish = profile.kernel.iommu
    if wish in (None, "keep"):
        return
    if topology.cpu_vendor in _INTEL:
        parameters = {"passthrough": ("intel_iommu=on", "iommu=pt"), "off": ("intel_iommu=off",)}
    elif topology.cpu_vendor in _AMD:
        parameters = {"passthrough": ("iommu=pt",), "off": ("amd_iommu=off",)}
    elif topology.architecture == "aarch64":
        parameters = {"passthrough": ("iommu.passthrough=1",)}
    else:
        text = f"no IOMMU parameter is known for this CPU ({topology.architecture}): left alone"
        notices.append(Notice("no-iommu-parameter", text))
        return
    if wish not in parameters:
        raise PlanError(
            "an Arm kernel has no parameter that switches the IOMMU off",
            where="kernel.iommu",
            remedy="set passthrough, which leaves memory untranslated",
        )
    reason = {
        "passthrough": "devices reach memory untranslated",
        "off": "devices are not kept apart, and none is handed to a virtual machine",
    }[wish]
    yield _Intent("kernel.iommu", parameters[wish], _because(profile, "kernel.iommu", reason))


def _cpu_sets(
    topology: NodeTopology, profile: NodeProfile, cpus: CpuPlan, notices: list[Notice]
) -> Iterator[_Intent]:
    wish = profile.kernel
    isolated = isolated_by(wish.cmdline)
    if wish.isolated_cpus is not None:
        isolated = _chosen_cpus("kernel.isolated_cpus", wish.isolated_cpus, cpus)
    if isolated:
        text = (
            f"CPUs {isolated} are not balanced by the scheduler: threads of pods that are not pinned stay on "
            "the CPU on which they start, even when it is busy"
        )
        notices.append(Notice("cpus-isolated", text))
    rows = (
        (
            "isolated_cpus",
            wish.isolated_cpus,
            "isolcpus=managed_irq,domain,",
            "the scheduler and managed interrupts keep off them",
        ),
        ("nohz_full", wish.nohz_full, "nohz_full=", "no tick interrupts a thread that has its CPU to itself"),
        ("rcu_nocbs", wish.rcu_nocbs, "rcu_nocbs=", "RCU callbacks run on other CPUs"),
    )
    for key, asked, parameter, reason in rows:
        if asked is None:
            continue
        field = f"kernel.{key}"
        chosen = _chosen_cpus(field, asked, cpus)
        if key == "nohz_full" and topology.nohz_full is None:
            text = "this kernel always ticks (no CONFIG_NO_HZ_FULL): nohz_full left alone"
            notices.append(Notice("no-nohz-full", text))
        else:
            yield _Intent(field, (f"{parameter}{chosen}",), _because(profile, field, reason))


def _chosen_cpus(field: str, wish: str, cpus: CpuPlan) -> str:
    chosen = cpus.allocatable if wish == ALLOCATABLE else parse_cpulist(wish)
    if not cpus.reserved:
        raise PlanError(
            "no CPUs are reserved, so none is left for the system",
            where=field,
            remedy="reserve some with cpus.reserved, on which everything else runs",
        )
    if absent := chosen - cpus.online:
        raise PlanError(
            f"CPUs {format_cpulist(absent)} are not online",
            where=field,
            remedy=f"choose among {format_cpulist(cpus.allocatable)}",
        )
    if inside := chosen & cpus.reserved:
        raise PlanError(
            f"CPUs {format_cpulist(inside)} are reserved for the system, which has to run somewhere",
            where=field,
            remedy=f"choose among {format_cpulist(cpus.allocatable)}, or set {ALLOCATABLE}",
        )
    return format_cpulist(chosen)


def _switches(profile: NodeProfile) -> Iterator[_Intent]:
    wish = profile.kernel
    _, at_once = sysctl_knobs(profile.tuning).get("kernel.numa_balancing", (None, None))
    if None not in (wish.numa_balancing, at_once) and wish.numa_balancing is not at_once:
        raise PlanError(
            f"is {str(wish.numa_balancing).lower()}, and tuning.numa_balancing is {str(at_once).lower()}",
            where="kernel.numa_balancing",
            remedy="set the same value in both, or leave one out",
        )
    rows = (
        ("init_on_alloc", wish.init_on_alloc, ("0", "1"), "pages that are handed out"),
        ("numa_balancing", wish.numa_balancing, ("disable", "enable"), "from the first moment of a boot"),
        ("skew_tick", wish.skew_tick, ("0", "1"), "when the CPUs tick"),
    )
    for key, value, words, reason in rows:
        if value is not None:
            field = f"kernel.{key}"
            yield _Intent(field, (f"{key}={words[value]}",), _because(profile, field, reason))


def _max_cstate(topology: NodeTopology, profile: NodeProfile, notices: list[Notice]) -> Iterator[_Intent]:
    limit = profile.kernel.max_cstate
    if limit is None:
        return
    if topology.cpu_vendor not in (*_INTEL, *_AMD):
        text = "only x86 kernels limit sleep states by a parameter: max_cstate left alone"
        notices.append(Notice("no-max-cstate", text))
        return
    drivers = ("intel_idle", "processor") if topology.cpu_vendor in _INTEL else ("processor",)
    yield _Intent(
        "kernel.max_cstate",
        tuple(f"{driver}.max_cstate={limit}" for driver in drivers),
        _because(profile, "kernel.max_cstate", "the driver offers no deeper sleep state"),
    )


def _boot_hugepages(
    topology: NodeTopology, profile: NodeProfile, nodes: Sequence[NumaNodePlan], hugepages: WantedPages
) -> Iterator[_Intent]:
    sizes = sorted({entry.size for entry in profile.hugepages if entry.at == "boot"})
    if not sizes:
        return
    if len(sizes) > 1:
        raise PlanError(
            f"pages of {' and '.join(sizes)} are asked for at boot, and the parameters of two sizes would "
            "have the same names",
            where="hugepages",
            remedy="set at: boot for the largest size alone; smaller pages are found while the node runs",
        )
    (size,) = sizes
    pages = {node.id: count for node in nodes if (count := hugepages.get(node.id, {}).get(size))}
    of_machine = hugepages.get(None, {}).get(size)
    if not (pages or of_machine):
        return
    value = _page_counts(topology, nodes, pages, size) if pages else str(of_machine)
    reason = f"{size} pages are reserved before memory is in pieces"
    parameters = (f"hugepagesz={size.removesuffix('i')}", f"hugepages={value}")
    yield _Intent("hugepages.at", parameters, f"{reason} ({_PARAMETERS})")


def _page_counts(
    topology: NodeTopology, nodes: Sequence[NumaNodePlan], pages: dict[int, int], size: str
) -> str:
    if len(nodes) == 1:
        return str(sum(pages.values()))
    if _version(topology.kernel) >= _PAGES_BY_NUMA_NODE:
        return ",".join(f"{node}:{count}" for node, count in sorted(pages.items()))
    with_memory = [node.id for node in nodes if node.memory_bytes]
    if len({pages.get(node) for node in with_memory}) == 1:
        return str(sum(pages.values()))
    raise PlanError(
        f"kernel {topology.kernel} spreads pages at boot evenly over NUMA nodes, and {size} pages are to be "
        + ", ".join(f"{pages.get(node, 0)} on NUMA node {node}" for node in with_memory),
        where="hugepages",
        remedy="leave at: boot out, ask for as many on each NUMA node, or run Linux 5.16 or later",
    )


def _version(kernel: str | None) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)", kernel or "")
    return (int(match[1]), int(match[2])) if match else (0,)


def _because(profile: NodeProfile, field: str, reason: str) -> str:
    return f"{profile.choice(field)}: {reason} ({_PARAMETERS})"


def _by_grubby(topology: NodeTopology) -> bool:
    names = (*topology.os_release.get("ID", "").split(), *topology.os_release.get("ID_LIKE", "").split())
    return not {"rhel", "fedora"}.isdisjoint(names)


def _refuse_repeated(topology: NodeTopology, cmdline: tuple[str, ...]) -> None:
    """Refuse several parameters of one name where grubby writes them: it keeps the last."""
    names = [parameter_name(parameter) for parameter in cmdline]
    several = [word for word, name in zip(cmdline, names, strict=True) if names.count(name) > 1]
    if several and _by_grubby(topology):
        raise PlanError(
            f"{' and '.join(several)}: grubby, which writes this host's command line, keeps one of each name",
            where="kernel.cmdline",
            remedy="leave them out, and write them in /etc/kernel/cmdline of the host",
        )


def _with_pci_option(topology: NodeTopology, cmdline: tuple[str, ...], option: str) -> tuple[str, ...]:
    """Return the parameters with one `pci=`, the new option last.

    The kernel reads several, but grubby keeps one parameter of each name: there the host's own options are
    repeated.
    """
    if not option:
        return cmdline
    pci_words = [parameter for parameter in cmdline if parameter.startswith("pci=")]
    sources = pci_words or ((topology.kernel_cmdline or "").split() if _by_grubby(topology) else [])
    given = [one for word in sources if word.startswith("pci=") for one in word[4:].split(",") if one]
    name = option.partition("=")[0]
    others = [one for one in dict.fromkeys(given) if not one.startswith(f"{name}=")]
    if pci_words and len(others) < len({*given}):
        raise PlanError(
            f"gives {name}, which rdma.gpudirect.acs computes",
            where="kernel.cmdline",
            remedy="keep one of the two: set rdma.gpudirect.acs: keep, or drop this option",
        )
    rest = tuple(parameter for parameter in cmdline if parameter not in pci_words)
    return (*rest, f"pci={','.join([*others, option])}")


def _notices(plan: KernelPlan, topology: NodeTopology) -> Iterator[Notice]:
    running = (topology.kernel_cmdline or "").split()
    missing = [parameter for parameter in plan.cmdline if parameter not in running]
    if plan.cmdline and plan.reboot == "allowed":
        yield Notice("reboots", f"a node that runs without {' '.join(plan.cmdline)} reboots for it")
    elif missing:
        yield Notice(
            "reboot-pending",
            f"the kernel parameters {' '.join(missing)} wait for a reboot, and maintenance.reboot is "
            f"{plan.reboot}: nothing is written for them",
        )


def plan_kernel(
    machine: NodeTopology,
    profile: NodeProfile,
    cpus: CpuPlan,
    numa_nodes: Sequence[NumaNodePlan],
    hugepages: WantedPages,
    acs: AcsPlan,
) -> Reasoned[KernelPlan]:
    """Return the planned parameters of the command line, with reasons that also hold after the reboot.

    A second run must produce the same plan. Where a reboot is not allowed, a notice names what waits for one.
    Raises PlanError for CPUs that the system needs, for what the machine cannot do, and for a parameter that
    two places set.
    """
    size = judge_page_size(machine, profile)
    refuse_other_pages(machine, profile.kernel.cmdline)
    notices: list[Notice] = []
    intents = tuple(_intents(machine, profile, cpus, numa_nodes, hugepages, notices))
    cmdline = _with_pci_option(machine, _said_once(intents), config_acs(acs))
    _refuse_repeated(machine, cmdline)
    kernel = KernelPlan(cmdline, profile.maintenance.reboot, profile.kernel.next_kernel)
    decisions = (Decision(intent.place, " ".join(intent.parameters), intent.reason) for intent in intents)
    notices += _notices(kernel, machine)
    return Reasoned(kernel, (*size.decisions, *decisions), (*size.notices, *notices))


_FIELD = "kernel.page_size"
_DEFAULT_SIZE = "default_hugepagesz="
_PACKAGES = {
    "ubuntu": "linux-nvidia-64k on NVIDIA's systems, else linux-generic-64k",
    "rhel": "kernel-64k",
    "sles": "kernel-64kb",
}


def judge_page_size(topology: NodeTopology, profile: NodeProfile) -> Reasoned[str | None]:
    """Return the kernel's page size where the profile asks for one; None also where it is not known.

    Raises PlanError, naming the package of a kernel with that size, where the running kernel's differs.
    """
    wish = profile.kernel.page_size
    if wish is None:
        return Reasoned(None)
    kernel_size = page_size(topology)
    if kernel_size is None:
        text = f"the kernel's page size is unknown, so {wish} is not checked"
        return Reasoned(None, notices=(Notice("page-size-unknown", text),))
    if kernel_size != wish:
        raise PlanError(
            f"the kernel {topology.kernel or ''} has pages of {kernel_size}, not {wish}",
            where=_FIELD,
            remedy=_remedy(topology, wish),
        )
    return Reasoned(
        kernel_size, (Decision(_FIELD, kernel_size, f"{profile.choice(_FIELD)}, as the kernel has it"),)
    )


def refuse_other_pages(topology: NodeTopology, cmdline: Sequence[str]) -> None:
    """Raise PlanError for a default size of huge pages without a pool: the kernel would ignore it."""
    sizes = hugepage_sizes(topology)
    for parameter in cmdline:
        size = parameter.removeprefix(_DEFAULT_SIZE)
        if size == parameter or not sizes or parse_bytes(f"{size}i") in map(parse_bytes, sizes):
            continue
        kernel_size = page_size(topology)
        pages = f", with pages of {kernel_size}," if kernel_size else ""
        raise PlanError(
            f"has {parameter}, and this kernel{pages} has huge pages of {', '.join(sizes)}",
            where="kernel.cmdline",
            remedy="choose one of these sizes, or boot a kernel with another page size (kernel.page_size)",
        )


def _remedy(topology: NodeTopology, wish: str) -> str:
    if topology.architecture != "aarch64":
        return f"leave {_FIELD} out: only Arm has kernels with other pages than 4Ki"
    release = topology.os_release
    like = f"{release.get('ID', '')} {release.get('ID_LIKE', '')}".split()
    package = next((_PACKAGES[name] for name in like if name in _PACKAGES), None)
    if wish != "64Ki" or package is None:
        return f"install and boot a kernel with pages of {wish}, or leave {_FIELD} out"
    return f"install the package {package} and boot it, or leave {_FIELD} out"
