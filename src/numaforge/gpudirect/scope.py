"""On which machines a rule about GPUDirect applies: each answer with its reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from numaforge.findings import Applicability
from numaforge.gpudirect.access_control import Layout, Required, nics, required_control
from numaforge.gpus.boards import GRACE
from numaforge.gpus.scope import NO_NVIDIA, on_bare_metal, own_gpus
from numaforge.topology.model import NodeTopology

Applies = Callable[[NodeTopology], Applicability]

DMA_BUF_KERNEL = (5, 12)  # the first with DMA-BUF for RDMA (ib_umem_dmabuf_get)
CONFIG_ACS_KERNEL = (6, 11)  # the first with pci=config_acs=


@dataclass(frozen=True)
class Way:
    """How the driver lets NICs reach a GPU's memory: DMA-BUF, peer memory, or why by `none` of them."""

    dma_buf: bool | None
    peer_memory: bool | None
    none: str | None = None
    unknown: str | None = None


def way_of_memory(machine: NodeTopology) -> Way:
    """Return the ways that are open: DMA-BUF needs the open module and Linux 5.12."""
    if not own_gpus(machine):
        return Way(None, None, unknown="the way of this maker's driver is not judged")
    install = machine.nvidia_install
    peer_memory = bool(machine.peer_memory.clients) or (
        None
        if install is None or install.kernel_modules is None
        else "nvidia_peermem" in install.kernel_modules
    )
    version = kernel_version(machine)
    open_module = install.open_module if install else None
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
    found = re.match(r"(\d+)\.(\d+)", machine.kernel or "")
    return (int(found[1]), int(found[2])) if found else None


def beside_grace(machine: NodeTopology) -> bool:
    """Say whether GPUs reach the CPU's root ports by NVLink-C2C: NCCL's level for them is farther (P2C)."""
    return any(gpu.device in GRACE for gpu in machine.gpus)


def has_pairs(machine: NodeTopology) -> Applicability:
    """Apply where there are GPUs and RDMA devices."""
    if not machine.gpus:
        return Applicability(False, "no GPU")
    if not nics(machine):
        return Applicability(False, "no RDMA device")
    return Applicability(True, "GPUs and RDMA devices")


def on_metal(machine: NodeTopology) -> Applicability:
    """Apply where there are pairs, and PCIe is what the machine has, not what a hypervisor shows of it."""
    where = has_pairs(machine)
    if not where.applies:
        return where
    told = [gpu for gpu in own_gpus(machine) if gpu.virtualization is not None]
    if machine.peer_memory.virtual_machine or (told and not any(map(on_bare_metal, told))):
        return Applicability(False, "a hypervisor shows its own PCIe")
    return where


def on_metal_for_itself(machine: NodeTopology) -> Applicability:
    """Apply where the host itself uses its GPUs, on bare metal."""
    where = on_metal(machine)
    if not where.applies:
        return where
    if any(gpu.driver == "vfio-pci" for gpu in machine.gpus):
        return Applicability(False, "guests use its GPUs")
    required = required_control(machine)
    if required.virtual:
        return Applicability(False, "its NICs are set up for guests")
    return where


def nvidia_pairs(machine: NodeTopology) -> Applicability:
    """Apply where the host's own GPUs are NVIDIA's, and there are RDMA devices."""
    where = has_pairs(machine)
    return where if not where.applies or own_gpus(machine) else Applicability(False, NO_NVIDIA)


def access_controlled(pick: Callable[[Required], bool], otherwise: str) -> Applies:
    """Apply on bare metal where the bridges between GPUs and NICs need certain values."""

    def applies(machine: NodeTopology) -> Applicability:
        where = on_metal(machine)
        if not where.applies:
            return where
        required = required_control(machine)
        if not pick(required):
            return Applicability(False, otherwise)
        if required.unknown:
            return Applicability(None, required.unknown)
        return Applicability(True, str(required.layout))

    return applies


def is_layout(*layouts: Layout) -> Callable[[Required], bool]:
    """Return whether the machine is built in one of these ways."""
    return lambda required: required.layout in layouts
