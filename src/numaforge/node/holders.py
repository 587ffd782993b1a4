"""The holders of a device, those that may be ended, and the units that are stopped for it.

Nodes run this: a role's worker has it before its own modules.
"""

from __future__ import annotations

import os
import pwd
import re
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from numaforge.node.processes import owners

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Held = Iterable[tuple[str, Sequence["Holder"]]]

HOLDER_SECONDS = 40
TERM_SECONDS = 10
COMMAND_SECONDS = 120
UNIT_SECONDS = 60
LEASE = os.environ.get("NUMAFORGE_LEASE", "")  # the file of the pods that were left by the drain: see pods.sh

# What runs in these units is a person's, unless the profile names one. The fabric manager stays: a reset of
# GPUs with NVSwitches needs it.
PERSONAL_UNITS = re.compile(
    r"(sshd?(@.*)?|crond?|atd|anacron|containerd|crio|docker|podman|slurmd|pbs|k3s(-agent)?|rke2-.*|kubelet"
    r"|systemd-(logind|nspawn@.*)|(snap\.)?(lxc|lxd|incus)([.@-].*)?|libvirtd|virt.*d|gdm3?|sddm|lightdm)\.service"
)
TRANSIENT_UNITS = "/run/systemd/transient"  # made by systemd-run: a job, which nothing starts again
FABRIC_UNIT = "nvidia-fabricmanager.service"


class NotDoneError(Exception):
    """What went wrong, in a sentence."""


class OutdatedError(NotDoneError):
    """What has appeared since the look at the node."""


@dataclass(frozen=True)
class Holder:
    """A process that has a GPU open: "unit" (of systemd), "pod" (its UID as of `uid_in`), or "other"."""

    pid: int
    kind: str
    unit: str
    pod: str = ""

    def __str__(self) -> str:
        """Return its program and what that runs, as a person knows it; any other argument may be a secret."""
        try:
            words = Path(f"/proc/{self.pid}/cmdline").read_text("utf-8", "replace").split("\0")[:2]
            owner = Path(f"/proc/{self.pid}").stat().st_uid
        except OSError:
            return f"pid {self.pid}, which has ended"
        command = " ".join(takewhile(re.compile(r"(?!-)[^\x00-\x20\x7f=]+").fullmatch, words))[:80]
        try:
            user = pwd.getpwuid(owner).pw_name
        except KeyError:
            user = f"uid {owner}"
        return f"pid {self.pid} ({command or '?'}) of {user}"


def sorted_holders(pids: Iterable[int]) -> list[Holder]:
    """Return the holder of each process, without those that have ended or hold nothing up."""
    holders = []
    for pid, owner in owners(pids).items():
        if owner.pod:
            holders.append(Holder(pid, "pod", "", uid_in(owner.pod)))
        elif owner.service and owner.unit != FABRIC_UNIT and not is_transient(owner.service):
            holders.append(Holder(pid, "unit", owner.service))
        elif owner.unit != FABRIC_UNIT:
            holders.append(Holder(pid, "other", ""))
    return holders


def uid_in(path: str) -> str:
    """Return the UID of the outermost pod in a control group's path, with "_" for "-"; "" without a pod."""
    groups = path.partition("kubepods")[2].split("/")
    matches = (re.fullmatch(r"pod(.+)|.*-pod([^-]+)\.slice", group) for group in groups)
    return next((match[1] or match[2] for match in matches if match), "").replace("-", "_")


def is_transient(unit: str) -> bool:
    """Say whether systemd-run made a unit, which disappears once it is stopped."""
    return unit.startswith("run-") or os.path.lexists(f"{TRANSIENT_UNITS}/{unit}")


def refuse_others(holders_by_device: Held, folder: Path, option: str) -> None:
    """Refuse while a device has a holder that may not be ended.

    Those are a person's processes, and pods that the lease does not allow. Raises OutdatedError for a unit
    that held none at the look; `option` is the profile's key for naming further units.
    """
    seen_units, named_units = may_stop(folder)
    # The UIDs of the pods that were left by the drain, as `uid_in` returns them; none without one.
    allowed = {line.replace("-", "_") for line in lines_of(Path(LEASE))} if LEASE else set()
    for device, holders in holders_by_device:
        units = {holder.unit for holder in holders if holder.unit} - named_units
        personal = {unit for unit in units if PERSONAL_UNITS.fullmatch(unit)}
        foreign = [holder for holder in holders if holder.kind == "other" or holder.unit in personal]
        if foreign:
            names = ", ".join(map(str, foreign))
            raise NotDoneError(f"{device} in use by {names}; end what is in use, and run again")
        pods = [str(holder) for holder in holders if holder.kind == "pod" and holder.pod not in allowed]
        if pods:
            raise NotDoneError(
                f"{device} in use by pods ({', '.join(pods)}), and the node was not drained of them; drain "
                "it, or end the pods, and run again"
            )
        if newer := ", ".join(sorted(units - seen_units)):
            raise OutdatedError(
                f"{device} in use by {newer}, which held no GPU when the node was looked at; run "
                f"again, stop it, or name it in {option}"
            )


def may_stop(folder: Path) -> tuple[set[str], set[str]]:
    """Return the units that were seen to hold a GPU, and those that the profile names."""
    words = [line.partition(" ")[::2] for line in lines_of(folder / "units")]
    seen, named = ({unit for kind, unit in words if kind == wanted} for wanted in ("seen", "named"))
    return seen, named


def release(held: Callable[[], Held], folder: Path, option: str) -> None:
    """Stop units, noted first, and end pods' containers on changing devices; raises NotDoneError."""
    begun = time.monotonic()
    while True:
        by_device = [*held()]
        refuse_others(by_device, folder, option)
        holders = {holder for _, on_device in by_device for holder in on_device}
        if not holders:
            return
        if time.monotonic() > begun + HOLDER_SECONDS:
            names = ", ".join(sorted(str(holder) for holder in holders))
            raise NotDoneError(f"the GPUs are still in use after {HOLDER_SECONDS} s by {names}")
        stop_units({holder.unit for holder in holders if holder.unit}, folder)
        last = time.monotonic() > begun + TERM_SECONDS
        for holder in holders:
            if holder.kind == "pod":
                end(holder.pid, signal.SIGKILL if last else signal.SIGTERM)
        time.sleep(0.5)


def end(pid: int, number: int) -> None:
    """Signal a process, which may have ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def stop_units(units: set[str], folder: Path) -> None:
    """Stop units, after noting the active ones among them and among those that systemd stops with them."""
    if not units:
        return
    noted = noted_units(folder)
    active = [
        unit for unit in sorted(bound(units)) if unit in units or systemctl("is-active", unit) == "active"
    ]
    if jobs := ", ".join(unit for unit in active if is_transient(unit)):
        raise NotDoneError(f"{jobs}, which nothing starts again, would stop with {', '.join(units)}")
    add_lines(folder / "stopped", [unit for unit in active if unit not in noted])
    systemctl("stop", *sorted(units))


def noted_units(folder: Path) -> list[str]:
    return lines_of(folder / "stopped")


def add_lines(file: Path, lines: Iterable[str]) -> None:
    """Note lines before doing what they say."""
    with file.open("a", encoding="utf-8") as opened:
        opened.writelines(f"{line}\n" for line in lines)
        opened.flush()
        os.fsync(opened.fileno())


def lines_of(file: Path) -> list[str]:
    """Return the noted lines, each once, without a truncated one."""
    return list(dict.fromkeys(file.read_text(encoding="utf-8").split("\n")[:-1])) if file.exists() else []


def bound(units: set[str]) -> set[str]:
    """Return units with all that systemd stops with them, directly or indirectly (systemd.unit(5))."""
    bound_units, more = set(units), sorted(units)
    properties = ("RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf", "PropagatesStopTo")
    options = [word for name in properties for word in ("-p", name)]
    while more:
        shown = systemctl("show", *options, *more)
        more = [name for line in shown.splitlines() for name in line.partition("=")[2].split()]
        more = sorted({*more} - bound_units)
        bound_units |= {*more}
    return bound_units


def start_units(folder: Path) -> None:
    """Start the stopped units again without waiting: at a boot a unit may be ordered after the kubelet."""
    for unit in noted_units(folder):
        systemctl("reset-failed", unit)
        systemctl("start", "--no-block", unit)


def systemctl(*arguments: str) -> str:
    """Return systemctl's output; the units' states are queried later."""
    return output("systemctl", *arguments)[1].strip()


def await_units(folder: Path) -> None:
    """Wait until the stopped units are active again; raises NotDoneError for one that is not."""
    deadline = time.monotonic() + UNIT_SECONDS
    while down := [unit for unit in noted_units(folder) if systemctl("is-active", unit) != "active"]:
        if time.monotonic() > deadline:
            names = ", ".join(down)
            raise NotDoneError(f"{names}, which held a GPU, is not active again after {UNIT_SECONDS} s")
        time.sleep(0.5)


def output(*command: str, text: str = "", seconds: float = COMMAND_SECONDS) -> tuple[int, str]:
    """Return a command's exit status and output; a late one is killed, not awaited: a driver may hold it."""
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout:
        stdin.write(text.encode())
        stdin.seek(0)
        try:
            environment = {**os.environ, "LC_ALL": "C"}
            process = subprocess.Popen(
                command, stdin=stdin, stdout=stdout, stderr=subprocess.STDOUT, env=environment
            )
        except FileNotFoundError:
            return 127, f"{command[0]} is not installed"
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return 124, f"{command[0]} did not end within {seconds:g} s"
        stdout.seek(0)
        return status, stdout.read().decode("utf-8", "replace")
