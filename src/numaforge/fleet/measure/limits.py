"""The most that a link carries, where the machine shows which link it is."""

import re

from numaforge.machine.topology.model import Gpu, NodeTopology, RdmaPort

# Bits that arrive of those sent, by GT/s: 8b/10b, 128b/130b, then flits of 256 bytes with 242 of content
# (PCI Express base specification 6.0).
_CODING = ((5.0, 8 / 10), (32.0, 128 / 130), (64.0, 242 / 256))
# GB/s of one NVLink in one direction, by the GPU's architecture (NVIDIA's data sheets: 600 GB/s for 12 links
# in both directions, 900 for 18, 1800 for 18).
_NVLINK = {"volta": 25.0, "ampere": 25.0, "hopper": 25.0, "blackwell": 50.0}


def pcie_limit(speed: float | None, width: int | None) -> float | None:
    """Return the GB/s that a PCIe link carries in one direction, by GT/s and lanes; None where unknown."""
    if not speed or not width:
        return None
    coding = next((share for most, share in _CODING if speed <= most), None)
    return None if coding is None else speed * width * coding / 8


def gpu_limit(gpu: Gpu) -> float | None:
    """Return the GB/s between host and GPU in one direction, by the widest link that slot and GPU reach."""
    for link in (gpu.driver_link, gpu.link):
        if link is not None and (limit := pcie_limit(link.max_speed, link.max_width)) is not None:
            return limit
    return None


def nvlink_limit(gpu: Gpu) -> float | None:
    """Return the GB/s from a GPU to another in one direction, by its active links.

    All links to a switch count; else those to the peer with the fewest. None where the architecture or the
    links are unknown: GPUs may then reach each other over PCIe.
    """
    per_link = _NVLINK.get((gpu.architecture or "").lower())
    if per_link is None or not gpu.nvlinks:
        return None
    if "switch" in gpu.nvlink_peers:
        return per_link * gpu.nvlink_peers["switch"]
    direct = [count for peer, count in gpu.nvlink_peers.items() if ":" in peer]
    return per_link * min(direct) if direct else None


def port_limit(port: RdmaPort) -> float | None:
    """Return the Gb/s of an RDMA port, as the kernel words its rate: "400 Gb/sec (4X NDR)"."""
    rate = re.match(r"(\d+(?:\.\d+)?) Gb/sec", port.rate or "")
    return float(rate[1]) if rate and float(rate[1]) > 0 else None


def gpus_by_number(machine: NodeTopology) -> dict[str, Gpu]:
    """Return NVIDIA's GPUs by their CUDA number, in the order of PCI addresses."""
    gpus = sorted((gpu for gpu in machine.gpus if gpu.vendor == "10de"), key=lambda gpu: gpu.pci_address)
    return {str(number): gpu for number, gpu in enumerate(gpus)}
