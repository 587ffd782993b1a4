"""The processes that hold an NVIDIA GPU; setting its MIG mode, and the reset that this may need."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pynvml as nvml

from numaforge.node.holders import Holder, NotDoneError, add_lines, lines_of, output, release, sorted_holders
from numaforge.node.processes import opened
from numaforge.roles.mig.worker.geometry import (
    DRIVER_SECONDS,
    ENABLED,
    Existing,
    Wanted,
    Work,
    connect,
    devices,
    instances,
    mode,
    patiently,
    reasoned,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OPTION = "mig.may_stop"
MOST_LINKS = 36


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


def switch(works: list[Work], folder: Path | None) -> None:
    """Set the MIG mode where it differs, and reset only GPUs that need it and can be reset."""
    waiting = []
    for work in works:
        if not work.switches:
            continue
        failure = f"{work.address}: the MIG mode cannot be set"
        patiently(failure, nvml.nvmlDeviceSetMigMode, work.device, int(work.wanted.mode == ENABLED))
        if mode(work.device) != work.wanted.mode and not work.wanted.by_boot:
            waiting.append(work)
    if not waiting:
        return
    if folder is None:
        names = ", ".join(work.address for work in waiting)
        raise NotDoneError(f"{names}: the MIG mode waits for a reset, and a boot resets nothing")
    reset(waiting, folder)


def reset(works: list[Work], folder: Path) -> None:
    """Reset GPUs; also those behind the same NVLinks, where that is required and all of them are idle."""
    addresses = [work.address for work in works]
    stop_persistence(addresses, folder)
    linked = [
        address for address, device in devices().items() if address not in addresses and has_links(device)
    ]
    nvml.nvmlShutdown()  # this process holds the GPUs, too
    status, output_text = output("nvidia-smi", "-r", "-i", ",".join(addresses))
    connect(DRIVER_SECONDS)
    if status and linked and has_links(devices().get(addresses[0])):
        output_text = f"{output_text}\n{reset_linked(addresses, linked, folder)}"
    start_persistence(folder)
    for work in works:
        device = devices().get(work.address)
        if device is None or mode(device) != work.wanted.mode:
            raise NotDoneError(
                f"{work.address}: the MIG mode needs a reset: {' '.join(output_text.split())}{hints()}"
            )


def reset_linked(addresses: list[str], linked: list[str], folder: Path) -> str:
    """Reset all GPUs that NVLink connects; return nvidia-smi's output, or why they cannot be reset."""
    handles = devices()
    for address in linked:
        device = handles[address]
        busy = [str(holder) for holder in sorted_holders({*running(device)})]
        if busy or instances(device):
            why = ", ".join(busy) or "its GPU instances"
            return f"They are reset together with {address}, which is in use by {why}."
    works = [Linked(Wanted(address, None, ""), handles[address], None, []) for address in linked]
    release(lambda: held(works), folder, OPTION)
    stop_persistence(linked, folder)
    nvml.nvmlShutdown()
    _, output_text = output("nvidia-smi", "-r", "-i", ",".join(sorted([*addresses, *linked])))
    connect(DRIVER_SECONDS)
    return output_text


class Linked(Work):
    """A GPU that is reset because another one is: every holder must release it."""

    @property
    def switches(self) -> bool:
        """Always True, so that every holder releases the GPU."""
        return True


def has_links(device: Any) -> bool:
    """Return whether NVLink connects a GPU to anything."""
    for link in range(MOST_LINKS if device is not None else 0):
        try:
            if nvml.nvmlDeviceGetNvLinkState(device, link):
                return True
        except nvml.NVMLError:
            break  # no more links
    return False


def stop_persistence(addresses: Iterable[str], folder: Path) -> None:
    """Turn off persistence mode that is set without the daemon, for it holds the GPUs; note them first."""
    persistent = [address for address in addresses if persistence(address)]
    add_lines(folder / "persistent", persistent)
    for address in persistent:
        persist(address, on=False)


def start_persistence(folder: Path) -> None:
    """Turn persistence mode back on where it was turned off."""
    for address in lines_of(folder / "persistent"):
        persist(address, on=True)


def persistence(address: str) -> bool:
    """Return whether a GPU has persistence mode on."""
    try:
        return bool(nvml.nvmlDeviceGetPersistenceMode(devices()[address]))
    except nvml.NVMLError:
        return False


def persist(address: str, *, on: bool) -> None:
    """Set persistence mode. A failure goes to stderr only: the reset reports what it lacks."""
    try:
        device = devices().get(address)
        if device is not None:
            nvml.nvmlDeviceSetPersistenceMode(device, int(on))
    except nvml.NVMLError as error:
        print(f"{address}: persistence mode cannot be set: {reasoned(error)}", file=sys.stderr)


def hints() -> str:
    """Return hints: what may hold a GPU besides processes, and what to do where a reset is impossible."""
    drm = (
        "; nvidia_drm is loaded and may hold it: unload it" if Path("/sys/module/nvidia_drm").exists() else ""
    )
    return f"{drm}. Where a GPU cannot be reset, as in a virtual machine, a reboot of the node does it"
