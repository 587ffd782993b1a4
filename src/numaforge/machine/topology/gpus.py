"""GPUs: their PCI functions, what their kernel driver shows in files, and what NVML or nvidia-smi answered.

A snapshot has all three: its script asks NVML with `snapshot/nvml_probe.py`. `nvml.py` and `nvidia_smi.py`
read the answers, which are joined with the functions here; `amd.py` reads what amdgpu shows.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.amd import partition_names, with_amdgpu
from numaforge.machine.topology.model import Gpu, NvidiaDriver
from numaforge.machine.topology.nvidia_smi import read_smi_driver, read_smi_gpus
from numaforge.machine.topology.nvml import read_nvml_driver, read_nvml_gpus
from numaforge.machine.topology.pci import functions
from numaforge.machine.topology.vendors import NOT_LISTED, listed_by_nvml

_NVSWITCH_CLASS = "0x0680"  # "other bridge": NVSwitches before NVLink 4 are PCI functions


def read_gpus(snapshot: Snapshot) -> tuple[Gpu, ...]:
    """Return every GPU that can compute, with what its driver, NVML or nvidia-smi say of it."""
    gpus = [
        Gpu(
            pci_address=function.address,
            vendor=function.hex_id("vendor"),
            device=function.hex_id("device"),
            numa_node=function.numa_node,
            link=function.link,
            driver=function.driver,
        )
        for function in functions(snapshot)
        if function.is_gpu
    ]
    names_by_gpu = partition_names(snapshot.commands.get("present", ""))
    return tuple(
        _with_own_memory(with_amdgpu(gpu, snapshot.files, names_by_gpu), snapshot.files)
        for gpu in with_answers(gpus, snapshot)
    )


def _with_own_memory(gpu: Gpu, files: Mapping[str, str]) -> Gpu:
    """Return the GPU with the NUMA node of its memory, by NVIDIA's driver where NVML did not say."""
    status = files.get(f"/proc/driver/nvidia/gpus/{gpu.pci_address}/numa_status", "")
    online = re.fullmatch(r"Node:\s*([0-9]{1,9})\s+Status:\s*online\b.*", status, re.DOTALL)
    return replace(gpu, memory_numa_node=int(online[1])) if online and gpu.memory_numa_node is None else gpu


def read_driver(snapshot: Snapshot) -> NvidiaDriver | None:
    """Return NVIDIA's driver; None where there is none, or neither NVML nor nvidia-smi was asked."""
    if snapshot.nvml is not None:
        return read_nvml_driver(snapshot.nvml)
    return read_smi_driver(snapshot.nvidia_smi) if snapshot.nvidia_smi else None


def read_gpu_answers(snapshot: Snapshot) -> Iterator[Gpu]:
    """Yield the driver's answers for each GPU, from NVML where it was asked, else from `nvidia-smi -q -x`."""
    if snapshot.nvml is not None:
        yield from read_nvml_gpus(snapshot.nvml)
    elif snapshot.nvidia_smi:
        yield from read_smi_gpus(snapshot.nvidia_smi)


def with_answers(gpus: Sequence[Gpu], snapshot: Snapshot) -> tuple[Gpu, ...]:
    """Return the GPUs of sysfs with the driver's answers: place and PCI ids are sysfs', the rest is NVML's.

    `unanswered` is why a GPU that belongs to the driver has no answer. Answers without an address belong to
    the remaining GPUs where these are as many: both lists are in PCI order.
    """
    queried = [gpu for gpu in gpus if listed_by_nvml(gpu)]
    listed = list(read_gpu_answers(snapshot))
    answers = {answer.pci_address: answer for answer in listed if answer.pci_address}
    nameless = [answer for answer in listed if not answer.pci_address]
    remaining = sorted(gpu.pci_address for gpu in queried if gpu.pci_address not in answers)
    if len(remaining) == len(nameless):
        answers |= dict(zip(remaining, nameless, strict=True))
    driver = read_driver(snapshot)
    reason = None if driver is None else driver.error or NOT_LISTED
    silent = {gpu.pci_address: replace(gpu, unanswered=reason) for gpu in queried}
    return tuple(
        _merged(gpu, answers[gpu.pci_address], answers, snapshot)
        if gpu.pci_address in answers
        else silent.get(gpu.pci_address, gpu)
        for gpu in gpus
    )


def _merged(gpu: Gpu, answer: Gpu, answers: Mapping[str, Gpu], snapshot: Snapshot) -> Gpu:
    peers: dict[str, int] = {}
    for peer, count in answer.nvlink_peers.items():
        # A driver that does not report the remote type gives the address of an NVSwitch.
        peer_class = snapshot.files.get(f"/sys/bus/pci/devices/{peer}/class", "")
        end = "switch" if peer not in answers and peer_class.startswith(_NVSWITCH_CLASS) else peer
        peers[end] = peers.get(end, 0) + count
    return replace(
        answer,
        pci_address=gpu.pci_address,
        vendor=gpu.vendor,
        device=gpu.device,
        numa_node=gpu.numa_node,
        link=gpu.link or answer.driver_link,
        driver=gpu.driver,
        nvlink_peers=peers,
    )
