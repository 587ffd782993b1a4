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
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from numaforge.node.holders import NotDoneError, await_units, noted_units, refuse_others, release, start_units
from numaforge.node.worker import alone, note, note_earlier, run_to_status
from numaforge.roles.amd_partitions.instance import AmdGpu
from numaforge.roles.amd_partitions.worker.driver import (
    COMPUTE,
    DRIVER,
    MEMORY,
    change_memory,
    gpu_now,
    held,
    is_loaded,
    is_so,
    load,
    missing,
    read_back,
    refuse_pair,
    reload,
    requested,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LOCK = "/run/numaforge/amd-partitions.lock"
OPTION = "amd_partitions.may_stop"


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
