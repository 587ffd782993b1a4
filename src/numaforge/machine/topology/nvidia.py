"""NVIDIA's GPUs as sysfs shows them, merged with NVML's or nvidia-smi's answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.model import Gpu, NvidiaDriver
from numaforge.machine.topology.nvidia_smi import read_smi_driver, read_smi_gpus
from numaforge.machine.topology.nvml import read_nvml_driver, read_nvml_gpus
from numaforge.machine.topology.vendors import NOT_LISTED, listed_by_nvml

_NVSWITCH_CLASS = "0x0680"  # "other bridge": NVSwitches before NVLink 4 are PCI functions


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

    `unanswered` is why a GPU that belongs to the driver has no answer.
    """
    queried = [gpu for gpu in gpus if listed_by_nvml(gpu)]
    answers = _by_address(queried, list(read_gpu_answers(snapshot)))
    driver = read_driver(snapshot)
    reason = None if driver is None else driver.error or NOT_LISTED
    silent = {gpu.pci_address: replace(gpu, unanswered=reason) for gpu in queried}
    return tuple(
        _merged(gpu, answers[gpu.pci_address], answers, snapshot)
        if gpu.pci_address in answers
        else silent.get(gpu.pci_address, gpu)
        for gpu in gpus
    )


def _by_address(queried: Sequence[Gpu], answers: Sequence[Gpu]) -> dict[str, Gpu]:
    """Return the answers by address; those without one are matched to the remaining GPUs.

    Both lists are in PCI order, so they match where their lengths are equal.
    """
    by_address = {answer.pci_address: answer for answer in answers if answer.pci_address}
    nameless = [answer for answer in answers if not answer.pci_address]
    unanswered = sorted(gpu.pci_address for gpu in queried if gpu.pci_address not in by_address)
    return by_address | (
        dict(zip(unanswered, nameless, strict=True)) if len(unanswered) == len(nameless) else {}
    )


def _merged(gpu: Gpu, answer: Gpu, answers: Mapping[str, Gpu], snapshot: Snapshot) -> Gpu:
    peers: dict[str, int] = {}
    for peer, count in answer.nvlink_peers.items():
        end = peer if peer in answers or not _is_nvswitch(peer, snapshot) else "switch"
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


def _is_nvswitch(peer: str, snapshot: Snapshot) -> bool:
    """Whether a peer is an NVSwitch: a driver that does not report the remote type gives its address."""
    return snapshot.files.get(f"/sys/bus/pci/devices/{peer}/class", "").startswith(_NVSWITCH_CLASS)
