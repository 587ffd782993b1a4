"""A file that numaforge writes to a host."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

PLAN_PATH = "/etc/numaforge/plan.json"
PROGRAMS = "/var/lib/numaforge/lib"
"""The folder of the programs that units start: /usr is read-only in image-based systems.

Units name the interpreter (`/bin/sh FILE`), which only reads the file: it needs no right to execute, no
SELinux type of its own, and a mount with noexec does.
"""
WRITTEN_BELOW = (
    "/etc/numaforge",
    "/etc/systemd/system",
    "/etc/sysctl.d",
    "/etc/tmpfiles.d",
    "/etc/modprobe.d",
    "/etc/modules-load.d",
    "/etc/udev/rules.d",
    "/etc/security/limits.d",
    "/etc/apt/apt.conf.d",
    "/etc/default/grub.d",
    "/etc/crio/crio.conf.d",
    "/etc/kubernetes",
    "/var/lib/kubelet",
    PROGRAMS,
)
"""The folders that plans write to, besides /etc itself; each may be a mount of its own."""
_UNITS = PurePosixPath("/etc/systemd/system")


@dataclass(frozen=True)
class PlannedFile:
    """A file that numaforge writes on the host: its role, its template and its mode (octal).

    One that `waits` takes effect only at a reboot, which the profile does not allow: only its lines that need
    no reboot are written.
    """

    path: str
    role: str  # the role that writes it: "topology", "tuning", "host"
    template: str | None  # below templates/, "kubelet/drop-in.conf.j2"; None: written from the plan
    mode: str = "0644"
    owner: str = "root"
    group: str = "root"
    waits: bool = False


@dataclass(frozen=True)
class FileContent:
    """The target state of a file: text, mode in octal digits, owner and group by name."""

    path: str
    text: str
    mode: str = "0644"
    owner: str = "root"
    group: str = "root"


def everywhere(*paths: str) -> Callable[[object, object], tuple[str, ...]]:
    """Return the `paths` of a role with the same files on every host."""
    return lambda _plan, _machine: paths


def boot_link(unit_path: str) -> str:
    """Return the link that makes systemd start one of our units, a service or a timer, at boot."""
    unit = PurePosixPath(unit_path)
    target = "timers" if unit.suffix == ".timer" else "multi-user"
    return f"/etc/systemd/system/{target}.target.wants/{unit.name}"


def boot_units(files: Iterable[PlannedFile]) -> tuple[PurePosixPath, ...]:
    """Return the units among the files that start at boot; a service with a timer is started by that one."""
    units = [unit for file in files if (unit := PurePosixPath(file.path)).parent == _UNITS]
    timed = {unit.stem for unit in units if unit.suffix == ".timer"}
    return tuple(
        unit
        for unit in units
        if unit.suffix == ".timer" or (unit.suffix == ".service" and unit.stem not in timed)
    )
