"""Bring AMD's GPUs to their modes and back; runs on hosts, with the standard library alone.

    worker.py keep|apply|undo|prove|settled|by-hand FOLDER    the part `amd_partitions`
    worker.py boot PLAN    numaforge-amd-partitions.service, from the field `amd_partitions` of a plan

FOLDER is the part's own. It holds planned.json, found.json (what that was planned on) and, once it is kept,
earlier.json: each has GPUs in the form of the plan's field `amd_partitions`. `units` has the units that may
be stopped: "seen UNIT" held a GPU when the node was looked at, "named UNIT" is the profile's. Processes of
pods are ended only where the file NUMAFORGE_LEASE names the pod. `stopped` has the units that were stopped, a
line each, `requested` the memory modes that the driver was asked for, `notes` what a reader of the result has
to know. What is amiss goes to stderr, a line each; the exit status is 1 then, and 3 where `keep` finds a GPU
held by a unit that is not among `units`: the node has changed since it was looked at.
"""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from numaforge.node.holders import (
    Holder,
    NotDoneError,
    add_lines,
    await_units,
    noted_units,
    output,
    refuse_others,
    release,
    sorted_holders,
    start_units,
)
from numaforge.node.processes import opened
from numaforge.node.worker import alone, note, note_earlier, run_to_status
from numaforge.roles.amd_partitions.instance import AmdGpu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

LOCK = "/run/numaforge/amd-partitions.lock"
OPTION = "amd_partitions.may_stop"
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


# ---- the driver ----


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


# ---- the verbs ----


def gpus_of(path: Path) -> list[AmdGpu]:
    return [AmdGpu.read(gpu) for gpu in json.loads(path.read_text(encoding="utf-8"))["gpus"]]


def bring(targets: Sequence[AmdGpu], folder: Path | None) -> None:
    """Bring GPUs to their targets, and leave those alone that are there; a missing GPU gets a reload.

    The memory mode comes first: the reload for it chooses a compute mode by itself. At a boot there is no
    folder, and no holder is stopped. Raises NotDoneError.
    """
    addresses = [target.pci_address for target in targets]
    if not is_loaded():
        load(addresses)
    elif folder is not None and missing(addresses):
        release(lambda: held(), folder, OPTION)
        reload(addresses, folder)
    changing = [target for target in targets if not is_so(target, gpu_now(target.pci_address))]
    if not changing:
        return
    if folder is not None:
        release(lambda: held(), folder, OPTION)
    else:
        refuse_held()
    memory = [target for target in changing if target.memory not in ("", gpu_now(target.pci_address).memory)]
    if memory:
        change_memory(memory, addresses, folder)
    for target in targets:
        if target.compute not in ("", gpu_now(target.pci_address).compute):
            write(DRIVER / target.pci_address / COMPUTE, target.compute)
    for target in targets:
        read_back(target)


def refuse_held() -> None:
    """Refuse at a boot while anything holds a GPU: a boot stops nothing."""
    for device, holders in held():
        if holders:
            raise NotDoneError(f"{device} in use by {', '.join(map(str, holders))}, and a boot stops nothing")


def keep(folder: Path) -> None:
    """Record the current modes; refuse where they differ from those planned on, or a person holds a GPU."""
    targets = gpus_of(folder / "planned.json")
    planned_on_by_address = {gpu.pci_address: gpu for gpu in gpus_of(folder / "found.json")}
    refuse_others(held(), folder, OPTION)
    current_modes = []
    for target in targets:
        current, planned_on = gpu_now(target.pci_address), planned_on_by_address[target.pci_address]
        if current != planned_on:
            raise NotDoneError(
                f"{target.pci_address} has {current.modes}; when it was looked at it had {planned_on.modes}"
            )
        refuse_pair(target)
        current_modes.append(asdict(current))
    note_earlier(folder, current_modes)


def apply(folder: Path) -> None:
    """Bring the GPUs to the plan; stopped units are started again, even after a failure."""
    try:
        bring(gpus_of(folder / "planned.json"), folder)
    finally:
        start_units(folder)


def undo(folder: Path) -> None:
    """Restore the recorded modes, also after a boot that has left others."""
    earlier = gpus_of(folder / "earlier.json")
    try:
        withdraw(earlier, folder)
        bring(earlier, folder)
    finally:
        start_units(folder)


def withdraw(earlier: Sequence[AmdGpu], folder: Path) -> None:
    """Reload the driver to carry out a waiting request for a memory mode, or note that it waits."""
    request = requested(folder)
    if request is None or not is_loaded():
        return
    try:
        release(lambda: held(), folder, OPTION)
        reload([gpu.pci_address for gpu in earlier], folder)
    except NotDoneError as error:
        if not is_loaded():
            raise
        note(
            folder,
            f"amdgpu still has the request for {request}, and carries it out when it is unloaded next; "
            f"a reboot forgets it ({error})",
        )


def prove(folder: Path) -> None:
    """Read the GPUs back, and wait for the stopped units, also for those that a boot has not started."""
    for gpu in gpus_of(folder / "planned.json"):
        read_back(gpu)
    start_units(folder)
    await_units(folder)


def by_hand(folder: Path) -> None:
    """Print the commands that restore the recorded modes."""
    earlier = gpus_of(folder / "earlier.json")
    absent = missing([gpu.pci_address for gpu in earlier])
    current = {gpu.pci_address: gpu_now(gpu.pci_address) for gpu in earlier} if not absent else {}
    memory = [
        gpu for gpu in earlier if gpu.memory and current and gpu.memory != current[gpu.pci_address].memory
    ]
    for gpu in memory:
        print(f"echo {gpu.memory} > {DRIVER / gpu.pci_address / MEMORY}", end="; ")
    if memory or absent:
        print("modprobe -r amdgpu; modprobe amdgpu", end="; ")
    if absent:  # their modes are seen when they are back
        print(f"python3 -BEs '{folder}/worker.py' undo '{folder}'", end="; ")
    for gpu in earlier if not absent else ():
        if memory or gpu.compute != current[gpu.pci_address].compute:
            print(f"echo {gpu.compute} > {DRIVER / gpu.pci_address / COMPUTE}", end="; ")
    for unit in noted_units(folder):
        print(f"systemctl start '{unit}'", end="; ")


def boot(plan: Path) -> None:
    """Bring the GPUs to their plan after a boot."""
    bring(gpus_of_plan(plan), None)


def gpus_of_plan(plan: Path) -> list[AmdGpu]:
    """Return the GPUs of a plan's document."""
    document = json.loads(plan.read_text(encoding="utf-8"))["amd_partitions"]
    return [AmdGpu.read(gpu) for gpu in document["gpus"]]


def main(verb: str, *arguments: str) -> None:
    """Run one verb under the lock."""
    verbs: dict[str, Callable[..., None]] = {
        "keep": keep,
        "apply": apply,
        "undo": undo,
        "prove": prove,
        "settled": await_units,
        "by-hand": by_hand,
        "boot": boot,
    }
    with alone(LOCK):
        verbs[verb](*map(Path, arguments))


if __name__ == "__main__":
    run_to_status(main, *sys.argv[1:])
