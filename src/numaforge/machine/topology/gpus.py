"""GPUs: their PCI functions, what their kernel driver shows in files, and what NVML or nvidia-smi answered.

A snapshot has all three: its script asks NVML with `snapshot/nvml_probe.py`. `nvml.py` and `nvidia_smi.py`
read the answers, which `nvidia.py` joins with the functions; `amd.py` reads what amdgpu shows.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.amd import partition_names, with_amdgpu
from numaforge.machine.topology.model import Gpu
from numaforge.machine.topology.nvidia import with_answers
from numaforge.machine.topology.pci import Function, functions


def read_gpus(snapshot: Snapshot) -> tuple[Gpu, ...]:
    """Return every GPU that can compute, with what its driver, NVML or nvidia-smi say of it."""
    gpus = [_gpu(function) for function in functions(snapshot) if function.is_gpu]
    names_by_gpu = partition_names(snapshot.commands.get("present", ""))
    return tuple(_with_driver(gpu, snapshot.files, names_by_gpu) for gpu in with_answers(gpus, snapshot))


def _with_driver(gpu: Gpu, files: Mapping[str, str], names_by_gpu: str | None) -> Gpu:
    gpu = with_amdgpu(gpu, files, names_by_gpu)
    if gpu.memory_numa_node is not None:
        return gpu
    status = files.get(f"/proc/driver/nvidia/gpus/{gpu.pci_address}/numa_status", "")
    online = re.fullmatch(r"Node:\s*([0-9]{1,9})\s+Status:\s*online\b.*", status, re.DOTALL)
    return replace(gpu, memory_numa_node=int(online[1])) if online else gpu


def _gpu(function: Function) -> Gpu:
    return Gpu(
        pci_address=function.address,
        vendor=function.hex_id("vendor"),
        device=function.hex_id("device"),
        numa_node=function.numa_node,
        link=function.link,
        driver=function.driver,
    )
