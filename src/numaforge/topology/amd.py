"""What the amdgpu driver says of its GPUs in sysfs: name, memory, partitions and XGMI hive."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from numaforge.topology.model import Gpu, GpuPartition

FOLDER = "/sys/bus/pci/drivers/amdgpu"

_COMPUTE = re.compile(r"[SDTQC]PX")
_MEMORY = re.compile(r"NPS\d")


def with_amdgpu(gpu: Gpu, files: Mapping[str, str]) -> Gpu:
    """Return the GPU with what its driver says; where amdgpu has not bound it, as it was."""

    def said(name: str) -> str:
        return files.get(f"{FOLDER}/{gpu.pci_address}/{name}", "").strip()

    memory, hive = said("mem_info_vram_total"), said("xgmi_hive_info/xgmi_hive_id")
    available = said("available_compute_partition") or said("compute_partition_config/supported_xcp_configs")
    partition = GpuPartition(
        compute=_one(_COMPUTE, said("current_compute_partition")),
        memory=_one(_MEMORY, said("current_memory_partition")),
        available_compute=tuple(_COMPUTE.findall(available)),
        available_memory=tuple(_MEMORY.findall(said("available_memory_partition"))),
    )
    return replace(
        gpu,
        name=said("product_name") or gpu.name,
        memory_bytes=int(memory) if memory.isdigit() else gpu.memory_bytes,
        partition=None if partition == GpuPartition(None, None) else partition,
        xgmi_hive=hive if hive.strip("0x") else None,
    )


def _one(form: re.Pattern[str], text: str) -> str | None:
    """The mode that a file names; None for UNKNOWN and whatever else is no mode."""
    return text if form.fullmatch(text) else None
