"""Rules about the kernel's files: what a snapshot has of them, compared with what the saved plan expects."""

from collections.abc import Callable, Iterable, Iterator

from numaforge.findings.drift import DriftRule
from numaforge.findings.engine import Seen
from numaforge.findings.finding import Severity
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.plan import NodePlan
from numaforge.roles import role
from numaforge.roles.amd_partitions.expected import mode_path
from numaforge.roles.expectation import Expected
from numaforge.roles.expected import EXPECTED
from numaforge.roles.hugepages.expected import hugepage_totals, pool_pages
from numaforge.roles.kernel_values.paths import ENERGY_PREFERENCE, GOVERNOR, ONLINE, sysctl

_RULES = {
    role.hugepages: ("NP103", Severity.ERROR, "huge pages are not as planned"),
    role.kernel_values: ("NP104", Severity.ERROR, "a value of the kernel is not as planned"),
    role.slices: ("NP105", Severity.ERROR, "the system's own daemons are not on the planned CPUs"),
    role.interrupts: ("NP106", Severity.ERROR, "devices are not answered by the planned CPUs"),
    role.kernel_cmdline: ("NP107", Severity.ERROR, "the kernel has booted without planned parameters"),
    role.amd_partitions: ("NP111", Severity.ERROR, "AMD GPUs do not have the planned modes"),
}
"""The id, the severity and the title of the rule of each role that expects something."""


def kernel_files(machine: NodeTopology) -> dict[str, str]:
    """Return what a snapshot has of the kernel's files that a plan may set, by path."""
    scaling = machine.cpufreq
    texts = {path: str(pages) for path, pages in hugepage_totals(machine).items()}
    texts |= {pool_pages(None, size): str(pool.total) for size, pool in machine.hugepages.items()}
    texts |= {**machine.planned_files, **machine.kernel_values}
    texts |= {sysctl(name): value for name, value in machine.sysctls.items()}
    if scaling:
        texts |= {GOVERNOR.format(cpu): word for cpu, word in scaling.governors.items()}
        texts |= {ENERGY_PREFERENCE.format(cpu): word for cpu, word in scaling.energy_preferences.items()}
    texts |= {ONLINE.format(cpu): "1" for cpu in machine.online}
    texts |= {ONLINE.format(cpu): "0" for cpu in machine.offline}
    if machine.kernel_cmdline is not None:
        texts["/proc/cmdline"] = machine.kernel_cmdline
    for gpu in machine.gpus:
        if gpu.partition and gpu.partition.compute:
            texts[mode_path(gpu.pci_address, "compute")] = gpu.partition.compute
        if gpu.partition and gpu.partition.memory:
            texts[mode_path(gpu.pci_address, "memory")] = gpu.partition.memory
    return texts


def _look(
    expected: Callable[[NodePlan], Iterable[Expected]],
) -> Callable[[NodeTopology, NodePlan], Iterator[Seen]]:
    def look(machine: NodeTopology, plan: NodePlan) -> Iterator[Seen]:
        texts = kernel_files(machine)
        for row in expected(plan):
            for difference in row.differences(texts):
                if difference.found is None:
                    yield Seen(unknown=f"{row.pattern} was not read")
                else:
                    yield Seen(f"{difference}, planned {row}", _place(row))

    return look


def _place(row: Expected) -> str:
    kind, _, name = row.what.partition(":")
    return name or kind.replace("_", " ")


DRIFT = tuple(DriftRule(*_RULES[owner], _look(expected)) for owner, expected in EXPECTED)
