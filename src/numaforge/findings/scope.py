"""Scopes and looks that tables share: which GPUs a host has, and which of them answer."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from numaforge.findings.engine import Applicability, Look, Scope, Seen, within
from numaforge.lib.quantity import counted
from numaforge.machine.topology.model import Gpu, NodeTopology, NvidiaInstall
from numaforge.machine.topology.vendors import NVIDIA

Pick = Callable[[Gpu], bool]
Value = TypeVar("Value")

NO_NVIDIA = "no NVIDIA GPU"
NO_DRIVER = "NVIDIA's driver has no GPU"


def own_gpus(machine: NodeTopology, vendor: str = NVIDIA) -> list[Gpu]:
    """Return a vendor's GPUs that this host uses itself, without those for guests."""
    return [gpu for gpu in machine.gpus if gpu.vendor == vendor and gpu.driver != "vfio-pci"]


def driven(machine: NodeTopology) -> list[Gpu]:
    """Return the GPUs that NVIDIA's driver has."""
    return [gpu for gpu in own_gpus(machine) if has_driver(gpu)]


def has_driver(gpu: Gpu) -> bool:
    """Return whether NVIDIA's driver has a GPU: linked by the kernel, or known to NVML, even if lost."""
    return gpu.driver == "nvidia" or gpu.uuid is not None or gpu.index is not None


def lost(machine: NodeTopology) -> list[Gpu]:
    """Return the GPUs that NVIDIA's driver has and NVML cannot reach; none where NVML does not start."""
    if machine.nvidia is None or machine.nvidia.error is not None:
        return []
    listed = (gpu for gpu in own_gpus(machine) if gpu.driver == "nvidia" or gpu.index is not None)
    return [gpu for gpu in listed if gpu.unanswered is not None]


def answering(machine: NodeTopology) -> list[Gpu]:
    """Return the GPUs that NVML or nvidia-smi answered for."""
    return [gpu for gpu in driven(machine) if gpu.uuid is not None and gpu.unanswered is None]


def nvidia_install(machine: NodeTopology) -> NvidiaInstall:
    """Return NVIDIA's installed software; an empty record where it was not captured."""
    return machine.nvidia_install or NvidiaInstall()


def not_vgpu(gpu: Gpu) -> bool:
    """Return whether this is a real GPU, not a hypervisor's share."""
    return gpu.virtualization != "vgpu"


def on_bare_metal(gpu: Gpu) -> bool:
    """Return whether the GPU's PCI and NVLink are its own, not what a hypervisor shows of them."""
    return gpu.virtualization in ("none", "host-vgpu", "host-vsga")


def with_own_gpu(machine: NodeTopology) -> Applicability:
    """Apply to a host that uses an NVIDIA GPU itself."""
    return _counted(own_gpus(machine), NO_NVIDIA)


@within(with_own_gpu)
def with_driver(machine: NodeTopology) -> Applicability:
    """Apply where NVIDIA's driver has a GPU, whether or not it answers."""
    return _counted(driven(machine), NO_DRIVER)


def with_answer(pick: Pick, *, none: str) -> Scope:
    """Apply where one of the GPUs that answer is picked; unknown where none answers."""

    @within(with_driver)
    def with_answer_of_picked(machine: NodeTopology) -> Applicability:
        if not answering(machine):
            return Applicability(None, "neither NVML nor nvidia-smi reported a GPU")
        return _counted(list(filter(pick, answering(machine))), none)

    return with_answer_of_picked


with_real_gpu = with_answer(not_vgpu, none="a hypervisor keeps the GPUs of vGPUs")


def with_driven(pick: Pick, *, none: str) -> Scope:
    """Apply where one of the GPUs that NVIDIA's driver has is picked, whether or not it answers."""

    @within(with_own_gpu)
    def with_picked(machine: NodeTopology) -> Applicability:
        return _counted(list(filter(pick, driven(machine))), none)

    return with_picked


def one_value(
    pick: Pick, value: Callable[[Gpu], Value | None], wrong: Callable[[Value], str | None], *, unknown: str
) -> Look:
    """Check one value of each answering, picked GPU: `wrong` words a fault; None is `unknown`."""

    def look(machine: NodeTopology) -> Iterator[Seen]:
        for gpu in filter(pick, answering(machine)):
            reading = value(gpu)
            if reading is None:
                yield Seen(unknown=unknown)
            elif (evidence := wrong(reading)) is not None:
                yield Seen(evidence, gpu.pci_address)

    return look


def _counted(gpus: Sequence[Gpu], none: str) -> Applicability:
    count = counted(len(gpus), "GPU")
    return Applicability(True, count) if gpus else Applicability(False, none)
