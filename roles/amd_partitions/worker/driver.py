"""The modes that amdgpu shows of its GPUs, how to change them, and its reload."""

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
    """Return the modes of a GPU; "" for one that the driver does not report.

    Raises NotDoneError for a GPU that amdgpu does not have.
    """
    folder = DRIVER / address
    if not folder.exists():
        raise NotDoneError(f"{address}: amdgpu does not have this GPU any more")
    return AmdGpu(address, mode(folder / COMPUTE, "PX"), mode(folder / MEMORY, "NPS"), compute_nodes(address))


def mode(path: Path, word: str) -> str:
    """Return the mode that a file names; "" for UNKNOWN, and for what cannot be read, as during a reset."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
    return text if word in text else ""


def compute_nodes(address: str) -> int | None:
    """Return how many compute nodes of the kernel's KFD are parts of a GPU; None without KFD."""
    domain, bus, device = (int(part, 16) for part in address.partition(".")[0].split(":"))
    place = domain, bus << 8 | device << 3
    found = 0
    for file in NODES.glob("*/properties"):
        try:
            rows = (line.split() for line in file.read_text(encoding="ascii").splitlines())
        except OSError:
            continue
        said = {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
        if said.get("simd_count") and (said.get("domain", 0), said.get("location_id", -1) & 0xFFF8) == place:
            found += 1
    return found if NODES.exists() else None


def is_so(wanted: AmdGpu, now: AmdGpu) -> bool:
    """Whether a GPU has the wanted modes."""
    return wanted.compute in ("", now.compute) and wanted.memory in ("", now.memory)


def read_back(wanted: AmdGpu) -> None:
    """Compare a GPU with what is wanted, and its partitions with those that the kernel has.

    Raises NotDoneError where it differs.
    """
    now = gpu_now(wanted.pci_address)
    if not is_so(wanted, now):
        raise NotDoneError(f"{wanted.pci_address}: wanted {wanted.modes}, and there is {now.modes}")
    if None not in (wanted.partitions, now.partitions) and wanted.partitions != now.partitions:
        raise NotDoneError(
            f"{wanted.pci_address}: {wanted.modes} makes {wanted.partitions} partitions, and the "
            f"kernel's KFD has {now.partitions}"
        )


def device_names() -> list[str]:
    """Return the names of amdgpu's device files below /dev/dri: those of GPUs and of their partitions."""
    folders = [*DRIVER.glob("*:*:*.*/drm/*"), *PLATFORM.glob("amdgpu_xcp*/drm/*")]
    return sorted({each.name for each in folders if re.fullmatch(r"(card|renderD)[0-9]+", each.name)})


def held() -> Iterator[tuple[str, Sequence[Holder]]]:
    """Yield the processes that have to release AMD's GPUs.

    That is every process with /dev/kfd open, whatever GPU it is on: the driver changes no compute mode
    while there is one (amdgpu_amdkfd_check_and_lock_kfd), and is unloaded only when no device file is open.
    """
    pattern = "|".join(["/dev/kfd", *(f"/dev/dri/{name}" for name in device_names())])
    yield "the AMD GPUs are", sorted_holders(opened(pattern))


def write(path: Path, text: str) -> None:
    """Write a mode; retry for BUSY_SECONDS while the driver is busy.

    Raises NotDoneError with the kernel's message.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        status, said = output("tee", str(path), text=text, seconds=WRITE_SECONDS)
        if not status:
            return
        why = said.strip().splitlines()[-1].rpartition(": ")[2] if said.strip() else "it failed"
        if "busy" not in why or time.monotonic() > deadline:
            raise NotDoneError(f"{path.parent.name}: {path.name} does not take {text}: {why}")
        time.sleep(POLL_SECONDS)


def refuse_pair(wanted: AmdGpu) -> None:
    """Ask the driver which memory modes go with a compute mode; a driver without that file passes.

    The question leaves the GPU as it is. Raises NotDoneError where the wanted one is not among them.
    """
    folder = DRIVER / wanted.pci_address / "compute_partition_config"
    asked, answer = folder / "xcp_config", folder / "supported_nps_configs"
    if not (asked.exists() and answer.exists() and wanted.compute and wanted.memory):
        return
    before = asked.read_text(encoding="ascii").strip()
    write(asked, wanted.compute)
    try:
        allowed = re.findall(r"NPS[0-9]", answer.read_text(encoding="ascii"))
    finally:
        write(asked, before)
    if allowed and wanted.memory not in allowed:
        raise NotDoneError(
            f"{wanted.pci_address}: its driver allows {', '.join(allowed)} with {wanted.compute}, and not "
            f"{wanted.memory}"
        )


def change_memory(gpus: Sequence[AmdGpu], addresses: Sequence[str], folder: Path | None) -> None:
    """Request memory modes, and reload the driver, which applies them; the requests are noted first.

    The driver cancels no request: one for the mode that it has is ignored (amdgpu_gmc.c,
    current_memory_partition_store).
    """
    if folder is not None:
        add_lines(folder / "requested", [f"{boot_id()} {each.memory}" for each in gpus])
    for each in gpus:
        write(DRIVER / each.pci_address / MEMORY, each.memory)
    reload(addresses, folder)


def requested(folder: Path) -> str | None:
    """Return the memory mode that the driver was asked for in this boot and has not been unloaded for."""
    noted = folder / "requested"
    lines = noted.read_text(encoding="utf-8").split("\n")[:-1] if noted.exists() else []
    boot, _, mode_asked = lines[-1].partition(" ") if lines else ("", "", "")
    return mode_asked if boot == boot_id() else None


def reload(addresses: Sequence[str], folder: Path | None) -> None:
    """Unload the driver and load it again, and wait until it has the GPUs.

    Raises NotDoneError for a driver that cannot be unloaded, or comes back without one of them.
    """
    status, said = output("modprobe", "-r", "amdgpu", seconds=RELOAD_SECONDS)
    if status:
        raise NotDoneError(f"amdgpu cannot be unloaded: {one_line(said)}")
    if folder is not None:
        add_lines(folder / "requested", [DONE])
    load(addresses)


def load(addresses: Iterable[str]) -> None:
    """Load the driver where it is not loaded, and wait until it has the GPUs."""
    status, said = output("modprobe", "amdgpu", seconds=RELOAD_SECONDS)
    if status:
        raise NotDoneError(f"amdgpu cannot be loaded: {one_line(said)}")
    deadline = time.monotonic() + DRIVER_SECONDS
    while away := missing(addresses):
        if time.monotonic() > deadline:
            raise NotDoneError(
                f"{', '.join(away)}: amdgpu does not have this GPU again after {DRIVER_SECONDS} s"
            )
        time.sleep(POLL_SECONDS)


def missing(addresses: Iterable[str]) -> list[str]:
    """Return the GPUs that the driver does not have, or whose modes it does not report."""
    return [each for each in addresses if not (DRIVER / each).exists() or gpu_now(each).compute == ""]


def is_loaded() -> bool:
    """Whether the driver is loaded: an interrupted change may have left it unloaded."""
    return MODULE.exists()


def boot_id() -> str:
    """Return the id of this boot."""
    return BOOT_ID.read_text(encoding="ascii").strip().replace(" ", "-")


def one_line(said: str) -> str:
    """Return the end of a program's output, in one line."""
    return " ".join(said.split())[-200:] or "it says nothing"
