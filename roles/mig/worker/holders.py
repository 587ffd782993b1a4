"""Processes that hold an NVIDIA GPU: by NVML, by its device files, by the capabilities of its instances."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pynvml as nvml

from numaforge.node.holders import Holder, sorted_holders
from numaforge.node.processes import opened
from numaforge.roles.mig.worker.geometry import Existing, Work

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OPTION = "mig.may_stop"


def running(device: Any) -> dict[int, int | None]:
    """Return the processes that NVML reports on a GPU, with the id of each one's GPU instance or None."""
    instance_of: dict[int, int | None] = {}
    for ask in (
        nvml.nvmlDeviceGetComputeRunningProcesses,
        nvml.nvmlDeviceGetGraphicsRunningProcesses,
        nvml.nvmlDeviceGetMPSComputeRunningProcesses,
    ):
        try:
            processes = ask(device)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
            continue
        for process in processes:
            instance = process.gpuInstanceId
            instance_of[process.pid] = None if instance in (None, 0xFFFFFFFF) else instance
    return instance_of


def capabilities(minor: int, instance: Existing) -> set[int]:
    """Return the processes that have a GPU instance open by its capability file."""
    folder = Path(f"/proc/driver/nvidia/capabilities/gpu{minor}/mig/gi{instance.id}")
    texts = [file.read_text(encoding="ascii") for file in folder.glob("**/access")]
    minors = [match[1] for text in texts if (match := re.search(r"DeviceFileMinor:\s*(\d+)", text))]
    return opened("|".join(f"/dev/nvidia-caps/nvidia-cap{number}" for number in minors)) if minors else set()


def holders(work: Work) -> list[Holder]:
    """Return the holders that must release a GPU.

    All holders where its mode changes, else those in instances that go, and pods' containers that have the
    GPU open without working on it: they see the new instances after a restart.
    """
    at_work = running(work.device)
    minor = nvml.nvmlDeviceGetMinorNumber(work.device)
    watching = opened(f"/dev/nvidia{minor}")
    if work.switches:
        return sorted_holders({*at_work, *watching})
    leaving = [*work.goes, *work.recut]
    ids = {instance.id for instance in leaving}
    inside = {pid for pid, instance in at_work.items() if instance in ids}
    inside |= {pid for instance in leaving for pid in capabilities(minor, instance)}
    pods = [holder for holder in sorted_holders(watching - {*at_work}) if holder.kind == "pod"]
    return sorted_holders(inside | {holder.pid for holder in pods})


def held(works: Iterable[Work]) -> Iterator[tuple[str, list[Holder]]]:
    """Yield the holders that must release each GPU."""
    for work in works:
        yield f"{work.address} is", holders(work)
