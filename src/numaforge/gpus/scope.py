"""On which machines a rule about GPUs applies: each answer with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from numaforge.findings import Applicability, Seen
from numaforge.gpus.boards import HGX_BLACKWELL, RACK
from numaforge.topology.model import Gpu, NodeTopology
from numaforge.topology.vendors import NVIDIA

Applies = Callable[[NodeTopology], Applicability]
Pick = Callable[[Gpu], bool]
Look = Callable[[NodeTopology], Iterator[Seen]]
Value = TypeVar("Value")

FABRIC_MANAGER, NVLSM, IMEX = "nv-fabricmanage", "nvlsm", "nvidia-imex"  # as the kernel cuts their names

NO_NVIDIA = "no NVIDIA GPU"


def own_gpus(machine: NodeTopology) -> list[Gpu]:
    """Return NVIDIA's GPUs that this host uses itself, not those that it gives to guests."""
    return [gpu for gpu in machine.gpus if gpu.vendor == NVIDIA and gpu.driver != "vfio-pci"]


def driven(machine: NodeTopology) -> list[Gpu]:
    """Return the GPUs that NVIDIA's driver has."""
    return [gpu for gpu in own_gpus(machine) if gpu.driver == "nvidia" or gpu.uuid is not None]


def answering(machine: NodeTopology) -> list[Gpu]:
    """Return the GPUs that NVML or nvidia-smi told of."""
    return [gpu for gpu in driven(machine) if gpu.uuid is not None and gpu.unanswered is None]


def any_gpu(
    gpus: Callable[[NodeTopology], Sequence[Gpu]], pick: Pick = lambda _: True, *, none: str
) -> Applies:
    """Apply where one of the GPUs is picked, whether or not it answers."""

    def applies(machine: NodeTopology) -> Applicability:
        if not own_gpus(machine):
            return Applicability(False, NO_NVIDIA)
        count = sum(map(pick, gpus(machine)))
        return Applicability(True, _counted(count)) if count else Applicability(False, none)

    return applies


def told(pick: Pick, *, none: str) -> Applies:
    """Apply where one of the GPUs that answer is picked; without any answer that is not known."""

    def applies(machine: NodeTopology) -> Applicability:
        if not own_gpus(machine):
            return Applicability(False, NO_NVIDIA)
        if not driven(machine):
            return Applicability(False, "NVIDIA's driver has no GPU")
        if not answering(machine):
            return Applicability(None, "neither NVML nor nvidia-smi told of a GPU")
        count = sum(map(pick, answering(machine)))
        return Applicability(True, _counted(count)) if count else Applicability(False, none)

    return applies


def each(
    pick: Pick, value: Callable[[Gpu], Value | None], wrong: Callable[[Value], str | None], *, unknown: str
) -> Look:
    """Look at one value of each GPU that answers and is picked.

    `wrong` words what is wrong with a value, None where it is sound. A value that is None is `unknown`.
    """

    def look(machine: NodeTopology) -> Iterator[Seen]:
        for gpu in filter(pick, answering(machine)):
            found = value(gpu)
            if found is None:
                yield Seen(unknown=unknown)
            elif (evidence := wrong(found)) is not None:
                yield Seen(evidence, gpu.pci_address)

    return look


def not_vgpu(gpu: Gpu) -> bool:
    """Say whether this is a real GPU, and not a share of one that a hypervisor keeps."""
    return gpu.virtualization != "vgpu"


def on_bare_metal(gpu: Gpu) -> bool:
    """Say whether the GPU's PCI and NVLink are its own, not what a hypervisor shows of them."""
    return gpu.virtualization in ("none", "host-vgpu", "host-vsga")


def without_mig(gpu: Gpu) -> bool:
    """Say whether the GPU talks to its peers: none in MIG mode does."""
    return gpu.mig_mode != "enabled"


def needs_fabric_manager(machine: NodeTopology) -> Applicability:
    """Say whether this host has to run a fabric manager.

    It has to where it has NVSwitches: as PCI functions up to the third generation (HGX A100, H100, H200), and
    on the baseboards of B100, B200 and B300. Racks (GB200, GB300) have theirs in trays of their own.
    """
    gpus = own_gpus(machine)
    if not gpus:
        return Applicability(False, "this host uses no NVIDIA GPU")
    if any(gpu.device in RACK for gpu in gpus):
        return Applicability(False, "the NVSwitches of the rack have a fabric manager of their own")
    baseboard = any(gpu.device in HGX_BLACKWELL for gpu in gpus)
    if not machine.nvswitches and not baseboard:
        return Applicability(False, "no NVSwitch")
    if not driven(machine):
        return Applicability(None, "NVIDIA's driver has no GPU yet")
    if all(gpu.mig_mode == "enabled" for gpu in gpus):
        return Applicability(None, "every GPU is in MIG mode, in which none has a peer")
    if machine.nvswitches:
        return Applicability(True, f"{len(machine.nvswitches)} NVSwitches")
    if not any(map(on_bare_metal, gpus)):
        return Applicability(None, "the fabric manager of a guest may run beside it")
    return Applicability(True, "a baseboard with NVSwitches of the fourth generation")


def needs_subnet_manager(machine: NodeTopology) -> Applicability:
    """Say whether the fabric manager needs nvlsm and InfiniBand's modules beside it (B100, B200, B300)."""
    where = needs_fabric_manager(machine)
    if where.applies is not False and not any(gpu.device in HGX_BLACKWELL for gpu in machine.gpus):
        return Applicability(False, "NVSwitches before the fourth generation need none")
    return where


def in_a_rack(machine: NodeTopology) -> Applicability:
    """Say whether NVLink joins this host with others of a rack."""
    if not own_gpus(machine):
        return Applicability(False, NO_NVIDIA)
    found = any(gpu.device in RACK for gpu in own_gpus(machine))
    return Applicability(found, "GPUs of a rack" if found else "no GPU of a rack")


def imex_of_the_host(machine: NodeTopology) -> Applicability:
    """Say whether the host shares memory with others of its rack by an IMEX service of its own."""
    where = in_a_rack(machine)
    if not where.applies:
        return where
    install = machine.nvidia_install
    if install is None or install.daemons is None:
        return Applicability(None, "the host's IMEX service was not looked for")
    if install.imex_service != "enabled":
        return Applicability(False, "the host's own IMEX service is not enabled")
    return Applicability(True, "the host's own IMEX service is enabled")


def _counted(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"
