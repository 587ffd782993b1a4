"""What NVML or nvidia-smi says of each GPU, by the PCI address that sysfs uses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from numaforge.errors import TopologyError
from numaforge.snapshot.model import Snapshot


@dataclass(frozen=True)
class GpuAnswer:
    """One GPU as NVIDIA's driver sees it; fields as in `topology.model.Gpu`."""

    pci_address: str
    uuid: str | None
    name: str | None
    memory_bytes: int | None
    mig_capable: bool | None
    mig_mode: str | None
    nvlinks: int | None
    fabric: str | None


def read_gpu_answers(snapshot: Snapshot) -> Iterator[GpuAnswer]:
    """Yield one answer per GPU, from NVML where it answered, else from `nvidia-smi -q -x`."""
    if snapshot.nvml is not None:
        for gpu in snapshot.nvml.get("gpus", []):
            yield _from_nvml(gpu)
    elif snapshot.nvidia_smi:
        yield from _from_nvidia_smi(snapshot.nvidia_smi)


def sysfs_address(bus_id: str) -> str:
    """Return "0000:1b:00.0" for NVML's "00000000:1B:00.0"; a domain that needs more digits keeps them."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def _from_nvml(gpu: Mapping[str, Any]) -> GpuAnswer:
    current = gpu.get("mig_current")
    return GpuAnswer(
        pci_address=sysfs_address(gpu["pci_address"]),
        uuid=gpu.get("uuid"),
        name=gpu.get("name"),
        memory_bytes=gpu.get("memory_bytes"),
        mig_capable=gpu.get("mig_capable"),
        mig_mode=None if current is None else ("enabled" if current else "disabled"),
        nvlinks=gpu.get("nvlinks"),
        fabric=gpu.get("fabric"),
    )


def _from_nvidia_smi(text: str) -> Iterator[GpuAnswer]:
    # Without its DOCTYPE the document can define no entities.
    xml = re.sub(r"<!DOCTYPE[^>]*>", "", text)
    try:
        log = ElementTree.fromstring(xml.strip())  # noqa: S314
    except ElementTree.ParseError as error:
        raise TopologyError(f"the XML of nvidia-smi is broken: {error}") from error
    for gpu in log.iter("gpu"):
        address = gpu.get("id") or _said(gpu, "pci/pci_bus_id")
        if address is None:
            continue
        mig = gpu.findtext("mig_mode/current_mig", "").strip()
        yield GpuAnswer(
            pci_address=sysfs_address(address),
            uuid=_said(gpu, "uuid"),
            name=_said(gpu, "product_name"),
            memory_bytes=_mebibytes(_said(gpu, "fb_memory_usage/total")),
            mig_capable={"Enabled": True, "Disabled": True, "N/A": False}.get(mig),
            mig_mode={"Enabled": "enabled", "Disabled": "disabled"}.get(mig),
            nvlinks=None,
            fabric=_fabric(gpu),
        )


def _fabric(gpu: ElementTree.Element) -> str | None:
    cluster, clique = (_said(gpu, f"fabric/{name}") for name in ("clusterUuid", "cliqueId"))
    completed = _said(gpu, "fabric/state") == "Completed"
    return f"{cluster}.{clique}" if completed and cluster and clique and cluster.strip("0-") else None


def _said(gpu: ElementTree.Element, path: str) -> str | None:
    text = gpu.findtext(path, "").strip()
    return text if text and text not in ("N/A", "[N/A]", "Unknown Error", "Not Supported") else None


def _mebibytes(text: str | None) -> int | None:
    match = re.fullmatch(r"(\d+) MiB", text or "")
    return int(match[1]) * 2**20 if match else None
