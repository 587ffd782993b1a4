"""Rules about the PCIe links of GPUs, NVIDIA's and AMD's."""

from collections.abc import Iterator

from numaforge.findings import scope
from numaforge.findings.engine import Applicability, Seen
from numaforge.findings.rules import machine_rule
from numaforge.machine.topology.gpu_models import GRACE
from numaforge.machine.topology.model import Gpu, NodeTopology
from numaforge.machine.topology.vendors import AMD, NVIDIA


def _by_pcie(gpu: Gpu) -> bool:
    """Return whether the GPU works over PCIe: Grace talks to its GPU by NVLink-C2C instead."""
    return gpu.vendor in (NVIDIA, AMD) and gpu.link is not None and gpu.device not in GRACE


def _with_own_pcie(gpu: Gpu) -> bool:
    """Return whether the link is the GPU's own; for AMD's, no field shows whether they are a guest's."""
    return _by_pcie(gpu) and (gpu.vendor == AMD or scope.on_bare_metal(gpu))


def _pcie(machine: NodeTopology) -> Applicability:
    pcie_gpus = list(filter(_by_pcie, machine.gpus))
    if not pcie_gpus:
        return Applicability(False, "no GPU that works over PCIe")
    if any(map(_with_own_pcie, pcie_gpus)):
        return Applicability(True, "GPUs on PCIe of their own")
    if all(gpu.virtualization is None for gpu in pcie_gpus):
        return Applicability(None, "unknown whether this is a guest")
    return Applicability(False, "the PCIe of a guest is the hypervisor's")


def _narrow(machine: NodeTopology) -> Iterator[Seen]:
    for gpu in filter(_with_own_pcie, machine.gpus):
        width, most = (gpu.link.width, gpu.link.max_width) if gpu.link else (None, None)
        if width is None or most is None:
            yield Seen(unknown="the kernel does not report the link's width")
        elif width < most:
            yield Seen(f"its PCIe link has {width} of {most} lanes", gpu.pci_address)


def _slow(machine: NodeTopology) -> Iterator[Seen]:
    for gpu in filter(_with_own_pcie, machine.gpus):
        if gpu.link is None or gpu.link.speed is None or gpu.link.max_speed is None:
            yield Seen(unknown="the kernel does not report the link's speed")
        elif gpu.link.speed < gpu.link.max_speed:
            if gpu.pids:
                rate = f"{gpu.link.speed:g} of {gpu.link.max_speed:g} GT/s"
                yield Seen(f"its PCIe link runs at {rate}, with processes on it", gpu.pci_address)
            else:
                yield Seen(unknown="a GPU at rest lowers the speed of its link")


RULES = (
    machine_rule("NG501", _pcie, _narrow),
    machine_rule("NG502", _pcie, _slow),
)
