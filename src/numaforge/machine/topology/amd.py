"""The amdgpu driver's data on its GPUs in sysfs: name, memory, partitions and XGMI hive."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from numaforge.lib.given import digits
from numaforge.machine.topology.gpu_models import PARTITIONS
from numaforge.machine.topology.model import Gpu, GpuPartition, RasErrors
from numaforge.machine.topology.vendors import AMD

KFD = "/sys/devices/virtual/kfd/kfd/topology/nodes"
MOST_NODES = 512  # 8 packages, and 8 GPUs of 8 partitions, many times over
FOLDER = "/sys/bus/pci/drivers/amdgpu"

PARTITION_DEVICE = re.compile(r"/sys/devices/platform/(amdgpu_xcp[._])[0-9]+")
RAS_BLOCKS = ("umc", "gfx", "sdma", "xgmi_wafl")

_COMPUTE = re.compile(r"[SDTQC]PX")
_MEMORY = re.compile(r"NPS[0-9]")
_ERRORS = re.compile(r"(ue|ce): ([0-9]{1,12})$", re.MULTILINE)


def partition_names(present: str) -> str | None:
    """Return the prefix of partition devices, "amdgpu_xcp_" or "amdgpu_xcp." (ROCm/k8s-device-plugin#157)."""
    forms = {match[1] for path in present.split() if (match := PARTITION_DEVICE.fullmatch(path))}
    return forms.pop() if len(forms) == 1 else None


def with_amdgpu(gpu: Gpu, files: Mapping[str, str], partition_name: str | None = None) -> Gpu:
    """Return the GPU with its driver's answers and the prefix of the names of its partitions' devices."""
    if gpu.vendor != AMD:
        return gpu

    def said(name: str) -> str:
        return files.get(f"{FOLDER}/{gpu.pci_address}/{name}", "").strip()

    memory, hive = said("mem_info_vram_total"), said("xgmi_hive_info/xgmi_hive_id")
    available = said("available_compute_partition") or said("compute_partition_config/supported_xcp_configs")
    configured = _one(_COMPUTE, said("compute_partition_config/xcp_config"))
    allowed = tuple(_MEMORY.findall(said("compute_partition_config/supported_nps_configs")))
    partition = GpuPartition(
        compute=_one(_COMPUTE, said("current_compute_partition")),
        memory=_one(_MEMORY, said("current_memory_partition")),
        available_compute=tuple(_COMPUTE.findall(available)),
        available_memory=tuple(_MEMORY.findall(said("available_memory_partition"))),
        memory_of={configured: allowed} if configured and allowed else {},
    )
    counted = _counted(partition, _compute_nodes(gpu.pci_address, files))
    return replace(
        gpu,
        name=said("product_name") or gpu.name,
        memory_bytes=gpu.memory_bytes if (size := digits(memory)) is None else size,
        partition=counted and replace(counted, named=partition_name),
        xgmi_hive=hive if hive.strip("0x") else None,
        ras=tuple(
            RasErrors(block, int(counts["ue"]), int(counts.get("ce", 0)))
            for block in RAS_BLOCKS
            if "ue" in (counts := dict(_ERRORS.findall(said(f"ras/{block}_err_count"))))
        ),
    )


def _counted(partition: GpuPartition, nodes: Sequence[int | None]) -> GpuPartition | None:
    """Return the partition with its compute nodes' count and memory; None for a GPU without partitioning.

    Where the mode and the number of nodes disagree, as during a mode change, the nodes are ignored.
    """
    if partition == GpuPartition(None, None) and len(nodes) < 2:
        return None
    if not nodes or PARTITIONS.get(partition.compute or "", len(nodes)) != len(nodes):
        return partition
    sizes = {*nodes}
    return replace(partition, count=len(nodes), memory_bytes=sizes.pop() if len(sizes) == 1 else None)


def _compute_nodes(address: str, files: Mapping[str, str]) -> list[int | None]:
    domain, bus, device = (int(part, 16) for part in address.partition(".")[0].split(":"))
    location = domain, bus << 8 | device << 3
    memories = []
    for node in (f"{KFD}/{number}" for number in range(MOST_NODES)):
        properties = _properties(files.get(f"{node}/properties", ""))
        # A partition's number is in the function bits or in the highest ones, by the kernel's release.
        place = properties.get("domain"), properties.get("location_id", -1) & 0xFFF8
        if properties.get("simd_count") and place == location:
            bank = _properties(files.get(f"{node}/mem_banks/0/properties", ""))
            memories.append(bank.get("size_in_bytes"))
    return memories


def _properties(text: str) -> dict[str, int]:
    rows = (line.split() for line in text.splitlines())
    return {row[0]: value for row in rows if len(row) == 2 and (value := digits(row[1])) is not None}


def _one(form: re.Pattern[str], text: str) -> str | None:
    """Return the mode in a file; None for UNKNOWN and other words."""
    return text if form.fullmatch(text) else None
