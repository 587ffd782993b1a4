"""Bring GPUs to a MIG geometry and back; runs on hosts, with the standard library and pynvml alone.

    worker.py keep|apply|undo|prove|settled|by-hand FOLDER    the parts `mig` and `mig_mode`
    worker.py pending-new|pending-old FOLDER    addresses of GPUs whose mode a boot makes as planned, as kept
    worker.py boot PLAN    numaforge-mig.service, from the field `mig` of a plan
    worker.py show    a line ADDRESS<tab>JSON for each GPU, for the verification

FOLDER is the part's own. It holds planned.json, found.json (what that was planned on) and, once it is kept,
earlier.json: each has GPUs in the form of the plan's field `mig`. Of a GPU with "by_boot" only a boot changes
the mode: it is set, and the rest waits for the boot. `units` has the units that may be stopped: "seen UNIT"
held a GPU when the node was looked at, "named UNIT" is the profile's. Processes of pods are ended only where
NUMAFORGE_DRAINED says that the node was drained for this. `stopped` has the units that were stopped, a line
each, `persistent` the GPUs whose persistence mode was turned off, `notes` what a reader of the result has to
know.
What is amiss goes to stderr, a line each; the exit status is 1 then, and 3 where `keep` finds a GPU held by a
unit that is not among `units`: the node has changed since it was looked at.
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pynvml as nvml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ENABLED, DISABLED = "enabled", "disabled"
LARGEST_ENUMERATION = 32  # of NVML's profiles: 18 in R580
MOST_INSTANCES = 16  # of one profile; NVML's own limit is wrong for the A30
MOST_LINKS = 36
DRIVER_SECONDS = 60  # until the driver answers after a boot or a reset
HOLDER_SECONDS = 40
TERM_SECONDS = 10
BUSY_SECONDS = 10  # the driver lets go of a process a moment after it has ended
UNIT_SECONDS = 60
COMMAND_SECONDS = 120
LOCK = "/run/numaforge-mig.lock"
OUTDATED_STATUS = 3
DRAINED = os.environ.get("NUMAFORGE_DRAINED") == "yes"
CDI_UNIT = "nvidia-cdi-refresh.service"
STALE = "still describes the GPUs to containers as they were"
CDI_FILES = ("/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml")

# What runs in these units is a person's, unless the profile names one. The fabric manager stays: a reset of
# GPUs with NVSwitches needs it.
PERSONAL_UNITS = re.compile(
    r"(sshd?(@.*)?|crond?|atd|anacron|containerd|crio|docker|podman|slurmd|pbs|k3s(-agent)?|rke2-.*|kubelet)\.service"
)
TRANSIENT_UNITS = (
    "/run/systemd/transient"  # those that systemd-run has made: a job, which nothing starts again
)
FABRIC_UNIT = "nvidia-fabricmanager.service"

PLAIN = {
    "NVML_ERROR_INVALID_ARGUMENT": "NVML knows no such profile or placement",
    "NVML_ERROR_NOT_SUPPORTED": "it does not support that",
    "NVML_ERROR_NO_PERMISSION": "this machine may not change it, as in a vGPU guest",
    "NVML_ERROR_NOT_FOUND": "it is not there",
    "NVML_ERROR_DRIVER_NOT_LOADED": "the NVIDIA driver is not loaded",
    "NVML_ERROR_LIBRARY_NOT_FOUND": "libnvidia-ml.so.1 is not installed",
    "NVML_ERROR_FUNCTION_NOT_FOUND": "the driver is too old for that",
    "NVML_ERROR_GPU_IS_LOST": "it has fallen off the bus",
    "NVML_ERROR_RESET_REQUIRED": "it has to be reset first",
    "NVML_ERROR_IN_USE": "it is in use",
    "NVML_ERROR_INSUFFICIENT_RESOURCES": "there is no room for it",
    "NVML_ERROR_TIMEOUT": "the driver did not answer in time",
}


class MigError(Exception):
    """What is amiss, in a sentence."""


class OutdatedError(MigError):
    """What has come since the node was looked at."""


@dataclass(frozen=True)
class Instance:
    """A GPU instance as it is: handles are NVML's, `compute` has the slices and the handle of each."""

    id: int
    profile_id: int
    start: int
    size: int
    handle: Any
    compute: list[tuple[int, Any]]

    @property
    def place(self) -> tuple[int, int]:
        """What tells it from the other instances of its GPU."""
        return self.profile_id, self.start

    @property
    def form(self) -> dict[str, Any]:
        """The instance in the plan's form."""
        slices = sorted((slices for slices, _ in self.compute), reverse=True)
        return {
            "profile_id": self.profile_id,
            "start": self.start,
            "size": self.size,
            "compute_instances": slices,
        }


@dataclass(frozen=True)
class Holder:
    """A process that has a GPU open: "unit" (of systemd), "pod" (in a container of one), or "other"."""

    pid: int
    kind: str
    unit: str

    def __str__(self) -> str:
        """Return it as a person knows it."""
        try:
            words = Path(f"/proc/{self.pid}/cmdline").read_bytes().split(b"\0")
            owner = Path(f"/proc/{self.pid}").stat().st_uid
        except OSError:
            return f"pid {self.pid}, which has ended"
        command = b" ".join(words).decode("utf-8", "replace").strip()[:80]
        try:
            user = pwd.getpwuid(owner).pw_name
        except KeyError:
            user = f"uid {owner}"
        return f"pid {self.pid} ({command or '?'}) of {user}"


# ---- what is there ----


def reasoned(error: Exception) -> str:
    """Return NVML's code in plain English, else its own words."""
    name = next((name for name in PLAIN if getattr(nvml, name, None) == getattr(error, "value", 0)), "")
    return PLAIN.get(name, str(error))


def connect(seconds: float) -> None:
    """Open NVML; try again while the driver is on its way."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            nvml.nvmlInit()
            return
        except nvml.NVMLError as error:
            if time.monotonic() > deadline:
                raise MigError(f"NVML does not answer: {reasoned(error)}") from error
        time.sleep(1)


def devices() -> dict[str, Any]:
    """Return NVML's handle of each GPU that answers, by PCI address as sysfs writes it."""
    found = {}
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            device = nvml.nvmlDeviceGetHandleByIndex(index)
            bus_id = nvml.nvmlDeviceGetPciInfo(device).busId
        except nvml.NVMLError:
            continue  # it is lost; a plan that names it fails, because it is not there
        text = bus_id.decode() if isinstance(bus_id, bytes) else str(bus_id)
        found[text.lower()[-12:]] = device
    return found


def offered(ask: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
    """Return the profiles that `ask` knows, by NVML's enumeration; each has `id` and `sliceCount`."""
    for number in range(LARGEST_ENUMERATION):
        try:
            try:
                yield ask(number, *arguments)
            except nvml.NVMLError_FunctionNotFound:
                yield ask(number, *arguments, version=1)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument, nvml.NVMLError_NotFound):
            continue


def compute_profiles(handle: Any) -> list[Any]:
    """Return the compute instance profiles of a GPU instance."""

    def ask(number: int, **version: int) -> Any:
        return nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(handle, number, 0, **version)

    return list(offered(ask))


def members(ask: Callable[..., Any], handle: Any, profile_id: int, kind: Any) -> list[Any]:
    """Return the handles of the instances of one profile."""
    array, count = (kind * MOST_INSTANCES)(), nvml.c_uint(MOST_INSTANCES)
    ask(handle, profile_id, array, nvml.byref(count))
    return [array[number] for number in range(count.value)]


def instances(device: Any) -> list[Instance]:
    """Return the GPU instances of a GPU; none where its MIG mode is disabled."""

    def ask(number: int, **version: int) -> Any:
        return nvml.nvmlDeviceGetGpuInstanceProfileInfo(device, number, **version)

    if mode(device) != ENABLED:
        return []
    found = {}
    for profile in {info.id for info in offered(ask)}:
        handles = members(nvml.nvmlDeviceGetGpuInstances, device, profile, nvml.c_nvmlGpuInstance_t)
        for handle in handles:
            info = nvml.nvmlGpuInstanceGetInfo(handle)
            found[info.id] = Instance(
                info.id,
                info.profileId,
                info.placement.start,
                info.placement.size,
                handle,
                compute_instances(handle),
            )
    return [found[number] for number in sorted(found)]


def compute_instances(handle: Any) -> list[tuple[int, Any]]:
    """Return the slices and the handle of each compute instance."""
    slices = {info.id: info.sliceCount for info in compute_profiles(handle)}
    return [
        (slices[profile], each)
        for profile in sorted(slices)
        for each in members(
            nvml.nvmlGpuInstanceGetComputeInstances, handle, profile, nvml.c_nvmlComputeInstance_t
        )
    ]


def mode(device: Any, *, pending: bool = False) -> str | None:
    """Return a GPU's MIG mode, None for one without MIG; `pending`: the one after a reset."""
    try:
        return ENABLED if nvml.nvmlDeviceGetMigMode(device)[pending] else DISABLED
    except nvml.NVMLError_NotSupported:
        return None


def text_of(answer: Any) -> str:
    """Return a string of NVML's, which older versions of pynvml give as bytes."""
    return answer.decode() if isinstance(answer, bytes) else str(answer)


def form(address: str, device: Any) -> dict[str, Any]:
    """Return a GPU in the plan's form."""
    return {
        "pci_address": address,
        "uuid": text_of(nvml.nvmlDeviceGetUUID(device)),
        "mode": mode(device),
        "instances": sorted((each.form for each in instances(device)), key=order),
    }


def order(instance: dict[str, Any]) -> tuple[int, int]:
    """Return the order in which instances are created: the largest first, then by where they lie."""
    return -instance["size"], instance["start"]


def normal(gpu: dict[str, Any]) -> dict[str, Any]:
    """Return of a GPU in the plan's form what tells one geometry from another."""
    forms = [
        {
            "profile_id": each["profile_id"],
            "start": each["start"],
            "size": each["size"],
            "compute_instances": sorted(each["compute_instances"], reverse=True),
        }
        for each in gpu["instances"]
    ]
    return {"mode": gpu["mode"], "instances": sorted(forms, key=order)}


def told(gpu: dict[str, Any]) -> str:
    """Return a geometry in a few words: "enabled, 9@0 (3), 14@4 (1+1)"."""
    lines = [
        f"{each['profile_id']}@{each['start']} ({'+'.join(map(str, each['compute_instances'])) or 'none'})"
        for each in normal(gpu)["instances"]
    ]
    return ", ".join([f"MIG mode {gpu['mode'] or 'not supported'}", *lines])


def gpus_of(path: Path) -> list[dict[str, Any]]:
    """Return the GPUs of a file."""
    gpus: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["gpus"]
    return gpus


# ---- what has to change ----


@dataclass
class Work:
    """What brings one GPU to what is wanted: what goes, and whether its mode changes."""

    wanted: dict[str, Any]
    device: Any
    now: str | None
    there: list[Instance]

    @property
    def address(self) -> str:
        """Which GPU."""
        return str(self.wanted["pci_address"])

    @property
    def switches(self) -> bool:
        """Whether the MIG mode changes, or a change of it is still waiting for a reset."""
        later = mode(self.device, pending=True)
        if self.wanted.get("by_boot"):
            return bool(later != self.wanted["mode"])
        return self.wanted["mode"] not in (self.now, None) or later != self.now

    @property
    def waits(self) -> bool:
        """Whether the MIG mode is set, and only a boot makes it true."""
        return bool(self.wanted.get("by_boot")) and self.now != self.wanted["mode"] and not self.switches

    @property
    def goes(self) -> list[Instance]:
        """The GPU instances that have to go."""
        kept = {(each["profile_id"], each["start"]) for each in self.wanted["instances"]}
        return [each for each in self.there if self.wanted["mode"] != ENABLED or each.place not in kept]

    @property
    def recut(self) -> list[Instance]:
        """The GPU instances that stay and get other compute instances."""
        forms = {(each["profile_id"], each["start"]): each for each in self.wanted["instances"]}
        return [
            each
            for each in self.there
            if each not in self.goes
            and sorted(each.form["compute_instances"]) != sorted(forms[each.place]["compute_instances"])
        ]

    @property
    def done(self) -> bool:
        """Whether nothing has to change."""
        now = {"mode": self.now, "instances": [each.form for each in self.there]}
        return self.waits or (normal(now) == normal(self.wanted) and not self.switches)


def work_on(wanted: Iterable[dict[str, Any]]) -> list[Work]:
    """Return what has to change; one that is as wanted, or so far as it gets without a boot, is not."""
    return [work for work in looked_at(wanted) if not work.done]


def looked_at(wanted: Iterable[dict[str, Any]]) -> list[Work]:
    """Return what is there of what is wanted."""
    found = devices()
    works = []
    for gpu in wanted:
        device = found.get(gpu["pci_address"])
        if device is None or (gpu["uuid"] and text_of(nvml.nvmlDeviceGetUUID(device)) != gpu["uuid"]):
            raise MigError(f"{gpu['pci_address']}: the GPU {gpu['uuid'] or ''} is not there any more")
        if mode(device) is None and gpu["mode"]:
            raise MigError(f"{gpu['pci_address']}: this GPU has no MIG")
        works.append(Work(gpu, device, mode(device), instances(device)))
    return works


# ---- who holds a GPU ----


def running(device: Any) -> dict[int, int | None]:
    """Return the processes that NVML knows on a GPU, with the id of the GPU instance that each is in."""
    found: dict[int, int | None] = {}
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
            found[process.pid] = None if instance in (None, 0xFFFFFFFF) else instance
    return found


def opened(pattern: str) -> set[int]:
    """Return the processes that have a file open whose path ends as the pattern says."""
    wanted = re.compile(rf"(?:{pattern})(?: \(deleted\))?$")
    found = set()
    for folder in Path("/proc").glob("[0-9]*/fd"):
        try:
            links = [str(link.readlink()) for link in folder.iterdir()] if folder.exists() else []
        except OSError:
            continue  # the process, or its file, is gone
        if any(wanted.search(link) for link in links):
            found.add(int(folder.parent.name))
    return found - {os.getpid()}


def capabilities(minor: int, instance: Instance) -> set[int]:
    """Return the processes that have a GPU instance open by its capability file."""
    folder = Path(f"/proc/driver/nvidia/capabilities/gpu{minor}/mig/gi{instance.id}")
    texts = [file.read_text(encoding="ascii") for file in folder.glob("**/access")]
    minors = [found[1] for text in texts if (found := re.search(r"DeviceFileMinor:\s*(\d+)", text))]
    return opened("|".join(f"/dev/nvidia-caps/nvidia-cap{each}" for each in minors)) if minors else set()


def holders(work: Work) -> list[Holder]:
    """Return who has to let go of a GPU.

    All of them where its mode changes, else those in instances that go, and the containers of pods that watch
    the GPU without working on it: they see the new instances when they have started again.
    """
    at_work = running(work.device)
    minor = nvml.nvmlDeviceGetMinorNumber(work.device)
    watching = opened(f"/dev/nvidia{minor}")
    if work.switches:
        return sorted_holders({*at_work, *watching})
    leaving = [*work.goes, *work.recut]
    ids = {each.id for each in leaving}
    inside = {pid for pid, instance in at_work.items() if instance in ids}
    inside |= {pid for each in leaving for pid in capabilities(minor, each)}
    pods = [each for each in sorted_holders(watching - {*at_work}) if each.kind == "pod"]
    return sorted_holders(inside | {each.pid for each in pods})


def sorted_holders(pids: Iterable[int]) -> list[Holder]:
    """Return processes with what they belong to; those that have ended are left out."""
    return [found for pid in sorted(pids) if (found := holder(pid)) is not None]


def holder(pid: int) -> Holder | None:
    """Return what a process belongs to, by its control group; None where it has ended, or is in no way."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()
        if Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z":
            return None
    except OSError:
        return None
    paths = [line.split(":", 2)[2] for line in lines]
    if any("kubepods" in path for path in paths):
        return Holder(pid, "pod", "")
    for path in paths:
        unit = next((part for part in reversed(path.split("/")) if part.endswith(".service")), "")
        if unit == FABRIC_UNIT:
            return None
        if unit and "/user.slice/" not in path and not is_transient(unit):
            return Holder(pid, "unit", unit)
    return Holder(pid, "other", "")


def is_transient(unit: str) -> bool:
    """Say whether systemd-run has made a unit, and it is gone once it is stopped."""
    return unit.startswith("run-") or os.path.lexists(f"{TRANSIENT_UNITS}/{unit}")


def refuse_others(works: Iterable[Work], folder: Path) -> None:
    """Refuse while a GPU is held by what may not be ended.

    Those are a person's processes, and pods that no drain has asked to go. Raises OutdatedError for a unit
    that held no GPU when the node was looked at.
    """
    seen, named = may_stop(folder)
    for work in works:
        there = holders(work)
        units = {each.unit for each in there if each.unit} - named
        personal = {each for each in units if PERSONAL_UNITS.fullmatch(each)}
        others = [each for each in there if each.kind == "other" or each.unit in personal]
        if others:
            names = ", ".join(map(str, others))
            raise MigError(f"{work.address} is in use by {names}; end what is in use, and run again")
        pods = ", ".join(str(each) for each in there if each.kind == "pod")
        if pods and not DRAINED:
            raise MigError(
                f"{work.address} is in use by pods ({pods}), and the node was not drained for this; drain "
                "it, or end the pods, and run again"
            )
        if newer := ", ".join(sorted(units - seen)):
            raise OutdatedError(
                f"{work.address} is in use by {newer}, which held no GPU when the node was looked at; run "
                "again, stop it, or name it in mig.may_stop"
            )


def may_stop(folder: Path) -> tuple[set[str], set[str]]:
    """Return the units that were seen to hold a GPU, and those that the profile names."""
    words = [line.partition(" ")[::2] for line in lines_of(folder / "units")]
    seen = {unit for kind, unit in words if kind == "seen"}
    return seen, {unit for kind, unit in words if kind == "named"}


def release(works: list[Work], folder: Path) -> None:
    """Stop the units and end the containers of pods that hold what changes; units are noted before.

    Raises MigError for any other holder, as `refuse_others` does, and for one that does not let go.
    """
    begun = time.monotonic()
    while True:
        refuse_others(works, folder)
        found = {each for work in works for each in holders(work)}
        if not found:
            return
        if time.monotonic() > begun + HOLDER_SECONDS:
            names = ", ".join(sorted(str(each) for each in found))
            raise MigError(f"the GPUs are still in use after {HOLDER_SECONDS} s by {names}")
        stop_units({each.unit for each in found if each.unit}, folder)
        last = time.monotonic() > begun + TERM_SECONDS
        for each in found:
            if each.kind == "pod":
                end(each.pid, signal.SIGKILL if last else signal.SIGTERM)
        time.sleep(0.5)


def end(pid: int, number: int) -> None:
    """Signal a process that may have ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def stop_units(units: set[str], folder: Path) -> None:
    """Stop units; noted first are those of them, and of what systemd stops with them, that are active."""
    if not units:
        return
    noted = noted_units(folder)
    active = [
        each for each in sorted(bound(units)) if each in units or systemctl("is-active", each) == "active"
    ]
    if jobs := [each for each in active if is_transient(each)]:
        raise MigError(f"{', '.join(jobs)}, which nothing starts again, would stop with {', '.join(units)}")
    add_lines(folder / "stopped", [each for each in active if each not in noted])
    systemctl("stop", *sorted(units))


def noted_units(folder: Path) -> list[str]:
    """Return the units that were stopped."""
    return lines_of(folder / "stopped")


def add_lines(file: Path, lines: Iterable[str]) -> None:
    """Note lines before what they say is done."""
    with file.open("a", encoding="utf-8") as opened:
        opened.writelines(f"{each}\n" for each in lines)
        opened.flush()
        os.fsync(opened.fileno())


def lines_of(file: Path) -> list[str]:
    """Return what was noted, each line once; one that was cut short is none."""
    return list(dict.fromkeys(file.read_text(encoding="utf-8").split("\n")[:-1])) if file.exists() else []


def bound(units: set[str]) -> set[str]:
    """Return units with those that systemd stops with them, and with one of those (systemd.unit(5))."""
    found, more = set(units), sorted(units)
    properties = ("RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf", "PropagatesStopTo")
    options = [word for name in properties for word in ("-p", name)]
    while more:
        said = systemctl("show", *options, *more)
        more = [name for line in said.splitlines() for name in line.partition("=")[2].split()]
        more = sorted({*more} - found)
        found |= {*more}
    return found


def start_units(folder: Path) -> None:
    """Start again what was stopped. Nothing is waited for: a unit may come after the kubelet at a boot."""
    for unit in noted_units(folder):
        systemctl("reset-failed", unit)
        systemctl("start", "--no-block", unit)


def systemctl(*arguments: str) -> str:
    """Return what systemctl says; what came of a unit is asked of systemd later."""
    return output("systemctl", *arguments)[1].strip()


def output(*command: str) -> tuple[int, str]:
    """Run a command; return its exit status and what it said."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        return 127, f"{command[0]} is not installed"
    except subprocess.TimeoutExpired:
        return 124, f"{command[0]} did not end within {COMMAND_SECONDS} s"
    return done.returncode, done.stdout


# ---- the change ----


def patiently(what: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call NVML, again for a while where it says that something is in use.

    Raises MigError that begins with `what`.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return call(*arguments)
        except nvml.NVMLError as error:
            if error.value != nvml.NVML_ERROR_IN_USE or time.monotonic() > deadline:
                raise MigError(f"{what}: {reasoned(error)}") from error
        time.sleep(0.5)


def bring(wanted: list[dict[str, Any]], folder: Path | None) -> None:
    """Bring GPUs to what is wanted; what is so already is not touched.

    Without a folder, which is for a boot, no holder is stopped and nothing is destroyed. Raises MigError.
    """
    works = work_on(wanted)
    if folder is None:
        for work in works:
            if work.goes or work.recut:
                there = told(form(work.address, work.device))
                raise MigError(
                    f"{work.address} has {there}, and the plan {told(work.wanted)}: a boot destroys nothing"
                )
    else:
        release(works, folder)
    for work in works:
        clear(work)
    switch(works, folder)
    for work in work_on(wanted):
        create(work)
    for work in looked_at(wanted):
        if not work.waits:
            read_back(work.wanted)


def read_back(gpu: dict[str, Any]) -> None:
    """Compare a GPU with what is wanted.

    Raises MigError where it differs.
    """
    device = devices().get(gpu["pci_address"])
    if device is None:
        raise MigError(f"{gpu['pci_address']}: the GPU does not answer any more")
    there = form(gpu["pci_address"], device)
    if normal(there) != normal(gpu):
        raise MigError(f"{gpu['pci_address']}: wanted {told(gpu)}, and there is {told(there)}")


def clear(work: Work) -> None:
    """Destroy the instances that go."""
    for each in [*work.goes, *work.recut]:
        what = f"{work.address}: the GPU instance {each.id} cannot be destroyed"
        for _, handle in each.compute:
            patiently(what, nvml.nvmlComputeInstanceDestroy, handle)
        if each in work.goes:
            patiently(what, nvml.nvmlGpuInstanceDestroy, each.handle)


def switch(works: list[Work], folder: Path | None) -> None:
    """Set the MIG mode where it differs, and reset the GPUs, and only those, that need it and can be."""
    waiting = []
    for work in works:
        if not work.switches:
            continue
        what = f"{work.address}: the MIG mode cannot be set"
        patiently(what, nvml.nvmlDeviceSetMigMode, work.device, int(work.wanted["mode"] == ENABLED))
        if mode(work.device) != work.wanted["mode"] and not work.wanted.get("by_boot"):
            waiting.append(work)
    if not waiting:
        return
    if folder is None:
        names = ", ".join(work.address for work in waiting)
        raise MigError(f"{names}: the MIG mode waits for a reset, and a boot resets nothing")
    reset(waiting, folder)


def reset(works: list[Work], folder: Path) -> None:
    """Reset GPUs; those behind the same NVLinks as well, where that is demanded and all of them are idle."""
    addresses = [work.address for work in works]
    stop_persistence(addresses, folder)
    linked = [
        address for address, device in devices().items() if address not in addresses and has_links(device)
    ]
    nvml.nvmlShutdown()  # this process holds them, too
    status, said = output("nvidia-smi", "-r", "-i", ",".join(addresses))
    connect(DRIVER_SECONDS)
    if status and linked and has_links(devices().get(addresses[0])):
        said = f"{said}\n{reset_linked(addresses, linked, folder)}"
    start_persistence(folder)
    for work in works:
        device = devices().get(work.address)
        if device is None or mode(device) != work.wanted["mode"]:
            raise MigError(f"{work.address}: the MIG mode needs a reset: {' '.join(said.split())}{hints()}")


def reset_linked(addresses: list[str], linked: list[str], folder: Path) -> str:
    """Reset all GPUs that NVLink connects; return what was said."""
    found = devices()
    for address in linked:
        device = found[address]
        busy = [str(each) for each in sorted_holders({*running(device)})]
        if busy or instances(device):
            why = ", ".join(busy) or "its GPU instances"
            return f"They are reset together with {address}, which is in use by {why}."
    wanted = [{**form(address, found[address]), "mode": None} for address in linked]
    release([Linked(gpu, found[gpu["pci_address"]], None, []) for gpu in wanted], folder)
    stop_persistence(linked, folder)
    nvml.nvmlShutdown()
    _, said = output("nvidia-smi", "-r", "-i", ",".join(sorted([*addresses, *linked])))
    connect(DRIVER_SECONDS)
    return said


class Linked(Work):
    """A GPU that is reset because another one is: every holder has to let go."""

    @property
    def switches(self) -> bool:
        """Always, as far as its holders are concerned."""
        return True


def has_links(device: Any) -> bool:
    """Say whether NVLink connects a GPU to anything."""
    for link in range(MOST_LINKS if device is not None else 0):
        try:
            if nvml.nvmlDeviceGetNvLinkState(device, link):
                return True
        except nvml.NVMLError:
            break  # there are no more
    return False


def stop_persistence(addresses: Iterable[str], folder: Path) -> None:
    """Turn off the persistence mode that GPUs have without the daemon: it holds them; noted before."""
    held = [address for address in addresses if persistence(address)]
    add_lines(folder / "persistent", held)
    for address in held:
        persist(address, on=False)


def start_persistence(folder: Path) -> None:
    """Turn on again what was turned off."""
    for address in lines_of(folder / "persistent"):
        persist(address, on=True)


def persistence(address: str) -> bool:
    """Say whether a GPU has persistence mode."""
    try:
        return bool(nvml.nvmlDeviceGetPersistenceMode(devices()[address]))
    except nvml.NVMLError:
        return False


def persist(address: str, *, on: bool) -> None:
    """Set persistence mode. One that cannot be set is no reason to fail: the reset says what it lacks."""
    try:
        device = devices().get(address)
        if device is not None:
            nvml.nvmlDeviceSetPersistenceMode(device, int(on))
    except nvml.NVMLError as error:
        print(f"{address}: persistence mode cannot be set: {reasoned(error)}", file=sys.stderr)


def hints() -> str:
    """Return what may hold a GPU without being a process, and what to do where a reset is impossible."""
    drm = (
        "; nvidia_drm is loaded and may hold it: unload it" if Path("/sys/module/nvidia_drm").exists() else ""
    )
    return f"{drm}. Where a GPU cannot be reset, as in a virtual machine, a reboot of the node does it"


def create(work: Work) -> None:
    """Create what is missing, each instance where it is wanted."""
    for wanted in sorted(work.wanted["instances"], key=order):
        place = wanted["profile_id"], wanted["start"]
        name = f"{work.address}: the GPU instance {wanted.get('profile') or place[0]} at {place[1]}"
        there = [each for each in work.there if each.place == place]
        if there:
            handle, has = there[0].handle, [slices for slices, _ in there[0].compute]
        else:
            placement = nvml.c_nvmlGpuInstancePlacement_t(wanted["start"], wanted["size"])
            handle, has = (
                patiently(
                    f"{name} cannot be created",
                    nvml.nvmlDeviceCreateGpuInstanceWithPlacement,
                    work.device,
                    wanted["profile_id"],
                    nvml.byref(placement),
                ),
                [],
            )
        if has:
            continue
        profiles = {info.sliceCount: info.id for info in reversed(compute_profiles(handle))}
        for slices in sorted(wanted["compute_instances"], reverse=True):
            what = f"{name} cannot get a compute instance of {slices} slices"
            if slices not in profiles:
                raise MigError(f"{what}: it offers {sorted(profiles)}")
            patiently(what, nvml.nvmlGpuInstanceCreateComputeInstance, handle, profiles[slices])


def refresh_cdi(folder: Path | None) -> None:
    """Have the CDI specification written again, where the node has one; a failure is said, no more."""
    if systemctl("show", "-p", "LoadState", "--value", CDI_UNIT) == "loaded":
        systemctl("restart", "--no-block", CDI_UNIT)  # what came of it is asked for in the proof
        return
    for file in CDI_FILES if shutil.which("nvidia-ctk") else ():
        if Path(file).exists():
            status, said = output("nvidia-ctk", "cdi", "generate", f"--output={file}")
            if status:
                note(folder, f"{file} {STALE}: {' '.join(said.split())[-200:]}")


def note(folder: Path | None, text: str) -> None:
    """Say what a reader of the transaction's result has to know; without a folder, of the journal."""
    if folder is None:
        print(text, file=sys.stderr)
    else:
        (folder / "notes").write_text(f"{text}\n", encoding="utf-8")


# ---- the verbs ----


def keep(folder: Path) -> None:
    """Note what is there, and refuse where that is not what was planned on or is held by a person."""
    wanted = gpus_of(folder / "planned.json")
    found = {gpu["pci_address"]: gpu for gpu in gpus_of(folder / "found.json")}
    refuse_others(work_on(wanted), folder)
    there = [
        {**form(work.address, work.device), "by_boot": bool(work.wanted.get("by_boot"))}
        for work in looked_at(wanted)
    ]
    for gpu in there:
        planned_on = found[gpu["pci_address"]]
        if normal(gpu) != normal(planned_on):
            raise MigError(
                f"{gpu['pci_address']} has {told(gpu)}; when it was looked at it had {told(planned_on)}"
            )
    with (folder / "earlier.json").open("w", encoding="utf-8") as file:
        json.dump({"gpus": there}, file)
        file.flush()
        os.fsync(file.fileno())


def apply(folder: Path) -> None:
    """Bring the GPUs to the plan; what was stopped for that is started again, whatever comes of it."""
    try:
        bring(gpus_of(folder / "planned.json"), folder)
    finally:
        start_persistence(folder)
        start_units(folder)
    refresh_cdi(folder)


def undo(folder: Path) -> None:
    """Bring the GPUs to what was kept, also after a boot that has destroyed every instance."""
    try:
        bring_each(gpus_of(folder / "earlier.json"), folder)
    finally:
        start_persistence(folder)
        start_units(folder)
        refresh_cdi(folder)


def bring_each(wanted: list[dict[str, Any]], folder: Path | None) -> None:
    """Bring GPUs to what is wanted, one after another: one that fails keeps no other from it."""
    failed = []
    for gpu in wanted:
        try:
            bring([gpu], folder)
        except MigError as error:
            failed.append(str(error))
    if failed:
        raise MigError("; ".join(failed))


def prove(folder: Path) -> None:
    """Read the GPUs back, and wait for what was stopped: also for what a boot in between has not started."""
    for gpu in gpus_of(folder / "planned.json"):
        read_back(gpu)
    start_units(folder)
    settled(folder)


def settled(folder: Path) -> None:
    """Wait until the units that were stopped are active again.

    Raises MigError for one that is not.
    """
    deadline = time.monotonic() + UNIT_SECONDS
    while systemctl("is-active", CDI_UNIT) == "activating" and time.monotonic() < deadline:
        time.sleep(0.5)
    while down := [each for each in noted_units(folder) if systemctl("is-active", each) != "active"]:
        if time.monotonic() > deadline:
            raise MigError(f"{', '.join(down)}, which held a GPU, is not active again after {UNIT_SECONDS} s")
        time.sleep(0.5)
    if systemctl("is-failed", CDI_UNIT) == "failed":
        note(folder, f"{CDI_UNIT} has failed: the CDI specification {STALE}")


def pending(path: Path) -> None:
    """Print the GPUs whose mode only a boot makes as a file has it."""
    for work in looked_at(gpus_of(path)):
        if work.waits:
            print(work.address)


def by_hand(folder: Path) -> None:
    """Print the commands that bring the GPUs to what was kept."""
    try:
        connect(0)
        there = devices()
    except MigError:
        there = {}
    for gpu in gpus_of(folder / "earlier.json"):
        gpu_by_hand(gpu, there.get(gpu["pci_address"]), folder)
    for address in lines_of(folder / "persistent"):
        print(f"nvidia-smi -i {address} -pm 1", end="; ")
    for unit in noted_units(folder):
        print(f"systemctl start '{unit}'", end="; ")


def gpu_by_hand(gpu: dict[str, Any], device: Any, folder: Path) -> None:
    """Print what brings one GPU to what was kept, where it is not; `device` is None where NVML is silent."""
    address = gpu["pci_address"]
    if device is not None and normal(form(address, device)) == normal(gpu):
        return
    whole = all(len(each["compute_instances"]) == 1 for each in gpu["instances"])
    places = ",".join(f"{each['profile_id']}:{each['start']}" for each in sorted(gpu["instances"], key=order))
    lines = []
    if device is None or instances(device):
        lines += [f"nvidia-smi mig -i {address} -dci", f"nvidia-smi mig -i {address} -dgi"]
    if device is None or mode(device) != gpu["mode"]:
        lines += [f"nvidia-smi -i {address} -mig {int(gpu['mode'] == ENABLED)}"]
        lines += ["systemctl reboot"] if gpu.get("by_boot") else []
    if places:
        lines += [f"nvidia-smi mig -i {address} -cgi {places}{' -C' if whole else ''}"]
    if not whole:  # nvidia-smi takes the ids of the instances that it has just created
        lines += [f"python3 -BEs '{folder}/worker.py' undo '{folder}'"]
    print("; ".join(lines), end="; ")


def boot(plan: Path) -> None:
    """Bring the GPUs of a plan to it after a boot: only their mode, where the DRA driver cuts them."""
    mig = json.loads(plan.read_text(encoding="utf-8"))["mig"]
    gpus, found = mig["gpus"], devices()
    if mig.get("managed_by") == "dra-driver":
        gpus = [
            gpu
            for gpu in gpus
            if not (gpu["pci_address"] in found and mode(found[gpu["pci_address"]]) == gpu["mode"])
        ]
    try:
        bring_each(gpus, None)
    finally:
        refresh_cdi(None)


def show() -> None:
    """Print a line for each GPU."""
    for address, device in sorted(devices().items()):
        print(f"{address}\t{json.dumps(form(address, device))}")


def main(verb: str, *arguments: str) -> None:
    """Do one thing, alone, with NVML open."""
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
    with Path(LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if verb not in ("by-hand", "settled"):  # which have an answer without the driver, too
            connect(5 if verb in ("keep", "prove", "show") else DRIVER_SECONDS)
        verbs[verb](*map(Path, arguments))


def run(*words: str) -> None:
    """Do one thing; end with 1 and what is amiss."""
    try:
        main(*words)
    except OutdatedError as error:
        print(error, file=sys.stderr)
        sys.exit(OUTDATED_STATUS if words[0] == "keep" else 1)
    except MigError as error:
        sys.exit(str(error))
    except nvml.NVMLError as error:
        sys.exit(f"NVML: {reasoned(error)}")


if __name__ == "__main__":
    run(*sys.argv[1:])
