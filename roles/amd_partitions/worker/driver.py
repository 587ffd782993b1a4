"""Read and change the modes of amdgpu's GPUs, and reload the driver."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from numaforge.node.holders import Holder, NotDoneError, add_lines, output, sorted_holders
from numaforge.node.processes import opened
from numaforge.roles.amd_partitions.instance import AmdGpu

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

DRIVER = Path("/sys/bus/pci/drivers/amdgpu")
MODULE = Path("/sys/module/amdgpu")
PLATFORM = Path("/sys/devices/platform")
NODES = Path("/sys/devices/virtual/kfd/kfd/topology/nodes")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
COMPUTE, MEMORY = "current_compute_partition", "current_memory_partition"
WRITE_SECONDS = 120  # all dies of a GPU are reset for another compute mode
RELOAD_SECONDS = 300  # of each half: eight GPUs are taken down, or brought up, one after another
DRIVER_SECONDS = 180  # until the GPUs are there again after that
DONE = "-"  # of a request: the driver was unloaded for it
BUSY_SECONDS = 10  # the kernel lets go of a process a moment after it has ended
POLL_SECONDS = 0.5


def gpu_now(address: str) -> AmdGpu:
    """Return the modes of a GPU; "" for one that the driver does not report."""
    folder = DRIVER / address
    if not folder.exists():
        raise NotDoneError(f"{address}: amdgpu no longer has this GPU")
    return AmdGpu(address, mode(folder / COMPUTE, "PX"), mode(folder / MEMORY, "NPS"), compute_nodes(address))


def mode(path: Path, word: str) -> str:
    """Return the mode in a file; "" for UNKNOWN, and where it cannot be read, as during a reset."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
    return text if word in text else ""


def compute_nodes(address: str) -> int | None:
    """Return how many compute nodes of the kernel's KFD belong to a GPU; None without KFD."""
    domain, bus, device = (int(part, 16) for part in address.partition(".")[0].split(":"))
    location = domain, bus << 8 | device << 3
    nodes = 0
    for file in NODES.glob("*/properties"):
        try:
            rows = (line.split() for line in file.read_text(encoding="ascii").splitlines())
        except OSError:
            continue
        properties = {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
        if (
            properties.get("simd_count")
            and (properties.get("domain", 0), properties.get("location_id", -1) & 0xFFF8) == location
        ):
            nodes += 1
    return nodes if NODES.exists() else None


def is_so(target: AmdGpu, current: AmdGpu) -> bool:
    """Whether a GPU has its target modes."""
    return target.compute in ("", current.compute) and target.memory in ("", current.memory)


def read_back(target: AmdGpu) -> None:
    """Compare a GPU with its target, and its partitions with the kernel's."""
    current = gpu_now(target.pci_address)
    if not is_so(target, current):
        raise NotDoneError(f"{target.pci_address}: wanted {target.modes}, and there is {current.modes}")
    if None not in (target.partitions, current.partitions) and target.partitions != current.partitions:
        raise NotDoneError(
            f"{target.pci_address}: {target.modes} makes {target.partitions} partitions, and the "
            f"kernel's KFD has {current.partitions}"
        )


def device_names() -> list[str]:
    """Return the names of amdgpu's device files below /dev/dri: those of GPUs and of their partitions."""
    folders = [*DRIVER.glob("*:*:*.*/drm/*"), *PLATFORM.glob("amdgpu_xcp*/drm/*")]
    return sorted({file.name for file in folders if re.fullmatch(r"(card|renderD)[0-9]+", file.name)})


def held() -> Iterator[tuple[str, Sequence[Holder]]]:
    """Yield the processes that have to release AMD's GPUs.

    That is every process with /dev/kfd open, whatever GPU it is on: the driver changes no compute mode
    while there is one (amdgpu_amdkfd_check_and_lock_kfd), and is unloaded only when no device file is open.
    """
    pattern = "|".join(["/dev/kfd", *(f"/dev/dri/{name}" for name in device_names())])
    yield "the AMD GPUs are", sorted_holders(opened(pattern))


def write(path: Path, text: str) -> None:
    """Write a mode; retry for BUSY_SECONDS while the driver is busy."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        status, output_text = output("tee", str(path), text=text, seconds=WRITE_SECONDS)
        if not status:
            return
        why = output_text.strip().splitlines()[-1].rpartition(": ")[2] if output_text.strip() else "it failed"
        if "busy" not in why or time.monotonic() > deadline:
            raise NotDoneError(f"{path.parent.name}: {path.name} does not take {text}: {why}")
        time.sleep(POLL_SECONDS)


def refuse_pair(target: AmdGpu) -> None:
    """Refuse a pair of modes that the driver does not allow; a driver without that file passes.

    The question leaves the GPU as it is. Raises NotDoneError where the target's memory mode is not allowed.
    """
    folder = DRIVER / target.pci_address / "compute_partition_config"
    request, answer = folder / "xcp_config", folder / "supported_nps_configs"
    if not (request.exists() and answer.exists() and target.compute and target.memory):
        return
    previous = request.read_text(encoding="ascii").strip()
    write(request, target.compute)
    try:
        allowed = re.findall(r"NPS[0-9]", answer.read_text(encoding="ascii"))
    finally:
        write(request, previous)
    if allowed and target.memory not in allowed:
        raise NotDoneError(
            f"{target.pci_address}: its driver allows {', '.join(allowed)} with {target.compute}, and not "
            f"{target.memory}"
        )


def change_memory(gpus: Sequence[AmdGpu], addresses: Sequence[str], folder: Path | None) -> None:
    """Request memory modes, and reload the driver, which applies them; the requests are noted first.

    The driver cancels no request: one for the mode that it has is ignored (amdgpu_gmc.c,
    current_memory_partition_store).
    """
    if folder is not None:
        add_lines(folder / "requested", [f"{boot_id()} {gpu.memory}" for gpu in gpus])
    for gpu in gpus:
        write(DRIVER / gpu.pci_address / MEMORY, gpu.memory)
    reload(addresses, folder)


def requested(folder: Path) -> str | None:
    """Return the memory mode that was requested in this boot and is not applied yet."""
    noted = folder / "requested"
    lines = noted.read_text(encoding="utf-8").split("\n")[:-1] if noted.exists() else []
    boot, _, mode_asked = lines[-1].partition(" ") if lines else ("", "", "")
    return mode_asked if boot == boot_id() else None


def reload(addresses: Sequence[str], folder: Path | None) -> None:
    """Unload the driver and load it again, and wait until it has the GPUs."""
    status, output_text = output("modprobe", "-r", "amdgpu", seconds=RELOAD_SECONDS)
    if status:
        raise NotDoneError(f"amdgpu cannot be unloaded: {one_line(output_text)}")
    if folder is not None:
        add_lines(folder / "requested", [DONE])
    load(addresses)


def load(addresses: Iterable[str]) -> None:
    """Load the driver where it is not loaded, and wait until it has the GPUs."""
    status, output_text = output("modprobe", "amdgpu", seconds=RELOAD_SECONDS)
    if status:
        raise NotDoneError(f"amdgpu cannot be loaded: {one_line(output_text)}")
    deadline = time.monotonic() + DRIVER_SECONDS
    while away := missing(addresses):
        if time.monotonic() > deadline:
            raise NotDoneError(
                f"{', '.join(away)}: amdgpu does not have this GPU again after {DRIVER_SECONDS} s"
            )
        time.sleep(POLL_SECONDS)


def missing(addresses: Iterable[str]) -> list[str]:
    """Return the GPUs that the driver does not have, or whose modes it does not report."""
    return [
        address for address in addresses if not (DRIVER / address).exists() or gpu_now(address).compute == ""
    ]


def is_loaded() -> bool:
    """Whether the driver is loaded: an interrupted change may have left it unloaded."""
    return MODULE.exists()


def boot_id() -> str:
    return BOOT_ID.read_text(encoding="ascii").strip().replace(" ", "-")


def one_line(text: str) -> str:
    """Return the end of a program's output, in one line."""
    return " ".join(text.split())[-200:] or "it printed nothing"
