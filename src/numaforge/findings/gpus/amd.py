"""Rules about AMD's GPUs: their modes, their state in kernel and device plugin, their errors."""

from collections import Counter
from collections.abc import Iterator

from numaforge.findings.engine import Applicability, Seen, within
from numaforge.findings.rules import machine_rule
from numaforge.findings.scope import own_gpus
from numaforge.kubelet.admission.amd_resources import LISTED, kind_of
from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import counted
from numaforge.machine.topology.model import Gpu, GpuPartition, NodeTopology
from numaforge.machine.topology.vendors import AMD

_NONE = "no AMD GPU"


def _cuttable(machine: NodeTopology) -> list[tuple[Gpu, GpuPartition]]:
    return [(gpu, gpu.partition) for gpu in own_gpus(machine, AMD) if gpu.partition is not None]


def _cut(machine: NodeTopology) -> list[tuple[Gpu, GpuPartition]]:
    return [(gpu, cut) for gpu, cut in _cuttable(machine) if cut.compute not in (None, "SPX")]


def _counted(number: int, none: str) -> Applicability:
    return Applicability(True, counted(number, "AMD GPU")) if number else Applicability(False, none)


def _with_gpu(machine: NodeTopology) -> Applicability:
    return _counted(len(own_gpus(machine, AMD)), _NONE)


@within(_with_gpu)
def _with_modes(machine: NodeTopology) -> Applicability:
    return _counted(len(_cuttable(machine)), "no AMD GPU that can be partitioned")


@within(_with_modes)
def _with_partitions(machine: NodeTopology) -> Applicability:
    return _counted(len(_cut(machine)), "every AMD GPU is whole")


def _silent(machine: NodeTopology) -> Iterator[Seen]:
    for gpu, cut in _cuttable(machine):
        if cut.compute is None:
            yield Seen("its driver does not report its compute mode", gpu.pci_address)


def _mixed(machine: NodeTopology) -> Iterator[Seen]:
    hives = grouped((gpu.xgmi_hive or "", gpu) for gpu, _ in _cuttable(machine))
    for gpus in hives.values():
        kinds = Counter(kind for gpu in gpus if (kind := kind_of(gpu)))
        (most, _), *rarer = kinds.most_common() or [("", 0)]
        for gpu in gpus if rarer else ():
            if (kind := kind_of(gpu)) not in (None, most):
                yield Seen(f"it is in {kind}, others of its hive in {most}", gpu.pci_address)


def _miscounted(machine: NodeTopology) -> Iterator[Seen]:
    cuttable = _cuttable(machine)
    if not any(cut.count for _, cut in cuttable):
        yield Seen(unknown="the compute nodes of the kernel's KFD were not read")
        return
    for gpu, cut in cuttable:
        if cut.compute is not None and cut.count is None:
            yield Seen(f"the kernel's KFD has not the partitions that {cut.compute} makes", gpu.pci_address)


def _unlisted(machine: NodeTopology) -> Iterator[Seen]:
    for gpu, cut in _cut(machine):
        if cut.named is None:
            yield Seen(unknown="how the kernel names the devices of partitions was not read")
        elif cut.named != LISTED:
            yield Seen(f"the kernel names its partitions {cut.named}N", gpu.pci_address)


def _placeless(machine: NodeTopology) -> Iterator[Seen]:
    for gpu in own_gpus(machine, AMD):
        if gpu.numa_node is None:
            yield Seen("the kernel knows no NUMA node for it (-1)", gpu.pci_address)


def _errors(machine: NodeTopology) -> Iterator[Seen]:
    for gpu in own_gpus(machine, AMD):
        if not gpu.ras:
            yield Seen(unknown="the driver's counters of errors (RAS) were not read")
        for block in gpu.ras:
            if block.uncorrected:
                yield Seen(f"{block.block}: {block.uncorrected} uncorrected errors", gpu.pci_address)


RULES = (
    machine_rule("NG801", _with_modes, _silent),
    machine_rule("NG802", _with_modes, _mixed),
    machine_rule("NG803", _with_modes, _miscounted),
    machine_rule("NG804", _with_partitions, _unlisted),
    machine_rule("NG805", _with_gpu, _placeless),
    machine_rule("NG806", _with_gpu, _errors),
)
