"""The scopes of rules about GPUDirect: each answer with its reason."""

import re
from collections.abc import Callable
from typing import NamedTuple

from numaforge.findings.engine import Applicability, Scope, within
from numaforge.findings.gpudirect.access_control import Required, nics, required_control
from numaforge.findings.scope import NO_NVIDIA, nvidia_install, on_bare_metal, own_gpus
from numaforge.machine.topology.gpu_models import GRACE
from numaforge.machine.topology.model import NodeTopology

DMA_BUF_KERNEL = (5, 12)  # the first with DMA-BUF for RDMA (ib_umem_dmabuf_get)
CONFIG_ACS_KERNEL = (6, 11)  # the first with pci=config_acs=


class Way(NamedTuple):
    """How the driver lets NICs reach a GPU's memory: DMA-BUF, peer memory, or why by `none` of them."""

    dma_buf: bool | None
    peer_memory: bool | None
    none: str | None = None
    unknown: str | None = None


def way_of_memory(machine: NodeTopology) -> Way:
    """Return the ways that are open: DMA-BUF needs the open module and Linux 5.12."""
    if not own_gpus(machine):
        return Way(None, None, unknown="the way of this maker's driver is not judged")
    modules, open_module = nvidia_install(machine).kernel_modules, nvidia_install(machine).open_module
    peer_memory = bool(machine.peer_memory.clients) or (
        None if modules is None else "nvidia_peermem" in modules
    )
    version = kernel_version(machine)
    dma_buf = None if open_module is None or version is None else open_module and version >= DMA_BUF_KERNEL
    if dma_buf is None and not peer_memory:
        return Way(None, peer_memory, unknown="it was not captured which of NVIDIA's modules runs")
    if not dma_buf and peer_memory is None:
        return Way(dma_buf, None, unknown="the loaded modules were not captured")
    if dma_buf or peer_memory:
        return Way(dma_buf, peer_memory)
    why = f"Linux {machine.kernel}" if open_module else "the closed kernel module"
    return Way(False, False, none=f"{why} has no DMA-BUF, and nvidia_peermem is not loaded")


def kernel_version(machine: NodeTopology) -> tuple[int, int] | None:
    """Return the first two numbers of the kernel's release."""
    version = re.match(r"(\d+)\.(\d+)", machine.kernel or "")
    return (int(version[1]), int(version[2])) if version else None


def beside_grace(machine: NodeTopology) -> bool:
    """Return whether GPUs reach the CPU's root ports by NVLink-C2C: NCCL rates them as farther (P2C)."""
    return any(gpu.device in GRACE for gpu in machine.gpus)


def has_pairs(machine: NodeTopology) -> Applicability:
    """Apply to machines with GPUs and RDMA devices."""
    if not machine.gpus:
        return Applicability(False, "no GPU")
    if not nics(machine):
        return Applicability(False, "no RDMA device")
    return Applicability(True, "GPUs and RDMA devices")


@within(has_pairs)
def on_metal(machine: NodeTopology) -> Applicability | None:
    """Apply to machines with pairs and their own PCIe, not a hypervisor's view of it."""
    return Applicability(False, "a hypervisor shows its own PCIe") if _is_guest(machine) else None


@within(has_pairs)
def in_a_guest(machine: NodeTopology) -> Applicability | None:
    """Apply to machines with pairs and a hypervisor's view of PCIe."""
    return None if _is_guest(machine) else Applicability(False, "bare metal")


def _is_guest(machine: NodeTopology) -> bool:
    reporting = [gpu for gpu in own_gpus(machine) if gpu.virtualization is not None]
    return machine.peer_memory.virtual_machine or bool(reporting and not any(map(on_bare_metal, reporting)))


@within(on_metal)
def on_metal_for_itself(machine: NodeTopology) -> Applicability | None:
    """Apply where the host itself uses its GPUs, on bare metal."""
    if any(gpu.driver == "vfio-pci" for gpu in machine.gpus):
        return Applicability(False, "guests use its GPUs")
    if required_control(machine).virtual:
        return Applicability(False, "its NICs are set up for guests")
    return None


@within(has_pairs)
def nvidia_pairs(machine: NodeTopology) -> Applicability | None:
    """Apply to hosts that use NVIDIA GPUs themselves and have RDMA devices."""
    return None if own_gpus(machine) else Applicability(False, NO_NVIDIA)


def access_controlled(pick: Callable[[Required], bool], *, none: str) -> Scope:
    """Apply on bare metal where the bridges between GPUs and NICs need certain values."""

    @within(on_metal)
    def with_layout(machine: NodeTopology) -> Applicability:
        required = required_control(machine)
        if not pick(required):
            return Applicability(False, none)
        if required.unknown:
            return Applicability(None, required.unknown)
        return Applicability(True, str(required.layout))

    return with_layout
