"""Bring GPUs to a MIG geometry and back; runs on hosts, with the standard library and pynvml alone.

    worker.py keep|apply|undo|prove|settled|by-hand FOLDER    the parts `mig` and `mig_mode`
    worker.py pending-new|pending-old FOLDER    addresses of GPUs whose planned or kept mode needs a reboot
    worker.py boot PLAN    numaforge-mig.service, from the field `mig` of a plan
    worker.py show    a line ADDRESS<tab>JSON for each GPU, for the verification

FOLDER is the part's own. It holds planned.json, found.json (the state that was planned on) and, after `keep`,
earlier.json: each has GPUs in the form of the plan's field `mig`. Only a boot changes the mode of a GPU with
"by_boot": the mode is set, and the rest waits for the boot. `units` has the units that may be stopped: "seen
UNIT" held a GPU at the look, "named UNIT" comes from the profile. Processes of pods are ended only where the
file NUMAFORGE_LEASE names the pod. `stopped` has the units that were stopped, one per line, `persistent` the
GPUs whose persistence mode was turned off, `notes` what a reader of the result should know.
Errors go to stderr, one per line, with exit status 1, or 3 where `keep` finds a GPU held by a unit that is
not among `units`: the node has changed since the look.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pynvml as nvml

from numaforge.node.holders import (
    UNIT_SECONDS,
    NotDoneError,
    await_units,
    lines_of,
    noted_units,
    output,
    refuse_others,
    release,
    start_units,
    systemctl,
)
from numaforge.node.worker import alone, note, note_earlier, run_to_status
from numaforge.roles.mig.worker.geometry import (
    DRIVER_SECONDS,
    ENABLED,
    Wanted,
    clear,
    connect,
    create,
    devices,
    gpu_now,
    gpus_of,
    instances,
    looked_at,
    mode,
    order,
    read_back,
    reasoned,
    summary,
    work_on,
)
from numaforge.roles.mig.worker.reset import OPTION, held, start_persistence, switch

if TYPE_CHECKING:
    from collections.abc import Callable

LOCK = "/run/numaforge/mig.lock"
CDI_UNIT = "nvidia-cdi-refresh.service"
STALE = "still describes the GPUs to containers as they were"
CDI_FILES = ("/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml")


def bring(targets: list[Wanted], folder: Path | None) -> None:
    """Bring GPUs to their targets; without a folder, as at a boot, stop no holder and destroy nothing."""
    works = work_on(targets)
    if folder is None:
        for work in works:
            if work.goes or work.recut:
                current_cut = summary(gpu_now(work.address, work.device))
                raise NotDoneError(
                    f"{work.address} has {current_cut}, and the plan {summary(work.wanted)}: a boot destroys "
                    "nothing"
                )
    else:
        release(lambda: held(works), folder, OPTION)
    for work in works:
        clear(work)
    switch(works, folder)
    for work in work_on(targets):
        create(work)
    for work in looked_at(targets):
        if not work.waits:
            read_back(work.wanted)


def refresh_cdi(folder: Path | None) -> None:
    """Regenerate the CDI specification, where the node has one; a failure is only noted."""
    if systemctl("show", "-p", "LoadState", "--value", CDI_UNIT) == "loaded":
        systemctl("restart", "--no-block", CDI_UNIT)  # the proof checks the result
        return
    for file in CDI_FILES if shutil.which("nvidia-ctk") else ():
        if Path(file).exists():
            status, output_text = output("nvidia-ctk", "cdi", "generate", f"--output={file}")
            if status:
                note(folder, f"{file} {STALE}: {' '.join(output_text.split())[-200:]}")


def keep(folder: Path) -> None:
    """Record the present state; refuse one that was not planned on, and holders that may not be stopped."""
    targets = gpus_of(folder / "planned.json")
    planned_on_by_address = {gpu.pci_address: gpu for gpu in gpus_of(folder / "found.json")}
    refuse_others(held(work_on(targets)), folder, OPTION)
    current_gpus = []
    for work in looked_at(targets):
        gpu, planned_on = gpu_now(work.address, work.device), planned_on_by_address[work.address]
        if gpu.geometry != planned_on.geometry:
            raise NotDoneError(
                f"{work.address} has {summary(gpu)}; when it was looked at it had {summary(planned_on)}"
            )
        current_gpus.append({**asdict(gpu), "by_boot": work.wanted.by_boot})
    note_earlier(folder, current_gpus)


def apply(folder: Path) -> None:
    """Bring the GPUs to the plan; restart what was stopped for it, whether or not it succeeds."""
    try:
        bring(gpus_of(folder / "planned.json"), folder)
    finally:
        start_persistence(folder)
        start_units(folder)
    refresh_cdi(folder)


def undo(folder: Path) -> None:
    """Bring the GPUs back to the kept state, also after a boot that has destroyed every instance."""
    try:
        bring_each(gpus_of(folder / "earlier.json"), folder)
    finally:
        start_persistence(folder)
        start_units(folder)
        refresh_cdi(folder)


def bring_each(targets: list[Wanted], folder: Path | None) -> None:
    """Bring GPUs to their targets one by one: a failing GPU does not stop the others."""
    failed = []
    for gpu in targets:
        try:
            bring([gpu], folder)
        except NotDoneError as error:
            failed.append(str(error))
    if failed:
        raise NotDoneError("; ".join(failed))


def prove(folder: Path) -> None:
    """Read the GPUs back, and await the stopped units, starting those that a boot did not start."""
    for gpu in gpus_of(folder / "planned.json"):
        read_back(gpu)
    start_units(folder)
    settled(folder)


def settled(folder: Path) -> None:
    """Wait until the units that were stopped are active again; raises NotDoneError for one that is not."""
    deadline = time.monotonic() + UNIT_SECONDS
    while systemctl("is-active", CDI_UNIT) == "activating" and time.monotonic() < deadline:
        time.sleep(0.5)
    await_units(folder)
    if systemctl("is-failed", CDI_UNIT) == "failed":
        note(folder, f"{CDI_UNIT} has failed: the CDI specification {STALE}")


def pending(path: Path) -> None:
    """Print the GPUs whose mode, as a file has it, needs a reboot."""
    for work in looked_at(gpus_of(path)):
        if work.waits:
            print(work.address)


def by_hand(folder: Path) -> None:
    """Print the commands that bring the GPUs back to the kept state."""
    try:
        connect(0)
        handles = devices()
    except NotDoneError:
        handles = {}
    for gpu in gpus_of(folder / "earlier.json"):
        gpu_by_hand(gpu, handles.get(gpu.pci_address), folder)
    for address in lines_of(folder / "persistent"):
        print(f"nvidia-smi -i {address} -pm 1", end="; ")
    for unit in noted_units(folder):
        print(f"systemctl start '{unit}'", end="; ")


def gpu_by_hand(gpu: Wanted, device: Any, folder: Path) -> None:
    """Print what restores one GPU, where it differs; `device` is None where NVML does not answer."""
    address = gpu.pci_address
    if device is not None and gpu_now(address, device).geometry == gpu.geometry:
        return
    undivided = all(len(instance.compute_instances) == 1 for instance in gpu.instances)
    placements = ",".join(
        f"{instance.profile_id}:{instance.start}" for instance in sorted(gpu.instances, key=order)
    )
    lines = []
    if device is None or instances(device):
        lines += [f"nvidia-smi mig -i {address} -dci", f"nvidia-smi mig -i {address} -dgi"]
    if device is None or mode(device) != gpu.mode:
        lines += [f"nvidia-smi -i {address} -mig {int(gpu.mode == ENABLED)}"]
        lines += ["systemctl reboot"] if gpu.by_boot else []
    if placements:
        lines += [f"nvidia-smi mig -i {address} -cgi {placements}{' -C' if undivided else ''}"]
    if not undivided:  # nvidia-smi would need the ids of the instances that it has just created
        lines += [f"python3 -BEs '{folder}/worker.py' undo '{folder}'"]
    print("; ".join(lines), end="; ")


def boot(plan: Path) -> None:
    """Bring the GPUs to the plan after a boot: only their mode where the DRA driver cuts them."""
    mig = json.loads(plan.read_text(encoding="utf-8"))["mig"]
    gpus, handles = [Wanted.read(gpu) for gpu in mig["gpus"]], devices()
    if mig.get("managed_by") == "dra-driver":
        modes = {address: mode(device) for address, device in handles.items()}
        gpus = [gpu for gpu in gpus if modes.get(gpu.pci_address, "lost") != gpu.mode]
    try:
        bring_each(gpus, None)
    finally:
        refresh_cdi(None)


def show() -> None:
    """Print a line for each GPU."""
    for address, device in sorted(devices().items()):
        print(f"{address}\t{json.dumps(asdict(gpu_now(address, device)))}")


def main(verb: str, *arguments: str) -> None:
    """Run one verb under the lock, with NVML open."""
    verbs: dict[str, Callable[..., None]] = {
        "keep": keep,
        "apply": apply,
        "undo": undo,
        "prove": prove,
        "settled": settled,
        "pending-new": lambda folder: pending(folder / "planned.json"),
        "pending-old": lambda folder: pending(folder / "earlier.json"),
        "by-hand": by_hand,
        "boot": boot,
        "show": show,
    }
    with alone(LOCK):
        if verb not in ("by-hand", "settled"):  # these two also work without the driver
            connect(5 if verb in ("keep", "prove", "show") else DRIVER_SECONDS)
        verbs[verb](*map(Path, arguments))


def run(*words: str) -> None:
    """Run one verb; exit with 1 and the error where it fails."""
    try:
        run_to_status(main, *words)
    except nvml.NVMLError as error:
        sys.exit(f"NVML: {reasoned(error)}")


if __name__ == "__main__":
    run(*sys.argv[1:])
