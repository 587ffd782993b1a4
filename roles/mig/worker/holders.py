"""Who holds a GPU, who may be made to let go, and the units that are stopped for it."""

from __future__ import annotations

import os
import pwd
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pynvml as nvml

from numaforge.roles.mig.worker.geometry import Existing, MigError, OutdatedError, Work

if TYPE_CHECKING:
    from collections.abc import Iterable

HOLDER_SECONDS = 40
TERM_SECONDS = 10
COMMAND_SECONDS = 120
DRAINED = os.environ.get("NUMAFORGE_DRAINED") == "yes"

# What runs in these units is a person's, unless the profile names one. The fabric manager stays: a reset of
# GPUs with NVSwitches needs it.
PERSONAL_UNITS = re.compile(
    r"(sshd?(@.*)?|crond?|atd|anacron|containerd|crio|docker|podman|slurmd|pbs|k3s(-agent)?|rke2-.*|kubelet)\.service"
)
TRANSIENT_UNITS = (
    "/run/systemd/transient"  # those that systemd-run has made: a job, which nothing starts again
)
FABRIC_UNIT = "nvidia-fabricmanager.service"


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


def capabilities(minor: int, instance: Existing) -> set[int]:
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
