"""What the amdgpu driver says of its GPUs in sysfs: name, memory, partitions and XGMI hive."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from numaforge.given import digits
from numaforge.topology.model import Gpu, GpuPartition
from numaforge.topology.slices import PARTITIONS
from numaforge.topology.vendors import AMD

KFD = "/sys/devices/virtual/kfd/kfd/topology/nodes"
MOST_NODES = 512  # 8 packages, and 8 GPUs of 8 partitions, many times over
FOLDER = "/sys/bus/pci/drivers/amdgpu"

_COMPUTE = re.compile(r"[SDTQC]PX")
_MEMORY = re.compile(r"NPS[0-9]")


def with_amdgpu(gpu: Gpu, files: Mapping[str, str]) -> Gpu:
    """Return the GPU with what its driver says; where amdgpu has not bound it, as it was."""
    if gpu.vendor != AMD:
        return gpu

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
        memory_bytes=gpu.memory_bytes if (held := digits(memory)) is None else held,
        partition=_counted(partition, _compute_nodes(gpu.pci_address, files)),
        xgmi_hive=hive if hive.strip("0x") else None,
    )


def _counted(partition: GpuPartition, nodes: Sequence[int | None]) -> GpuPartition | None:
    """Return what the driver says with what its compute nodes are; None for a GPU that cannot be partitioned.

    Where both do not agree, as while the mode changes, the nodes count for nothing.
    """
    if partition == GpuPartition(None, None) and len(nodes) < 2:
        return None
    if not nodes or PARTITIONS.get(partition.compute or "", len(nodes)) != len(nodes):
        return partition
    sizes = {*nodes}
    return replace(partition, count=len(nodes), memory_bytes=sizes.pop() if len(sizes) == 1 else None)


def _compute_nodes(address: str, files: Mapping[str, str]) -> list[int | None]:
    """Return the memory of each compute node that is (a part of) this GPU."""
    domain, bus, device = (int(part, 16) for part in address.partition(".")[0].split(":"))
    place = domain, bus << 8 | device << 3
    found = []
    for number in range(MOST_NODES):
        said = _properties(files.get(f"{KFD}/{number}/properties", ""))
        # A partition's number is in the bits of the function, or the highest ones, by the kernel's release.
        if said.get("simd_count") and (said.get("domain"), said.get("location_id", -1) & 0xFFF8) == place:
            found.append(
                _properties(files.get(f"{KFD}/{number}/mem_banks/0/properties", "")).get("size_in_bytes")
            )
    return found


def _properties(text: str) -> dict[str, int]:
    rows = (line.split() for line in text.splitlines())
    return {row[0]: value for row in rows if len(row) == 2 and (value := digits(row[1])) is not None}


def _one(form: re.Pattern[str], text: str) -> str | None:
    """The mode that a file names; None for UNKNOWN and whatever else is no mode."""
    return text if form.fullmatch(text) else None
