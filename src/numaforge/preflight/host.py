"""What a maintenance needs of a host: asked by a script, judged here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numaforge import shell
from numaforge.errors import HostError
from numaforge.findings import Severity
from numaforge.preflight.checks import Check, errors
from numaforge.quantity import format_bytes

_COREUTILS = (
    "base64 cat chmod chown cp cut date df dirname env head id ln ls mkdir mv od paste readlink rm rmdir "
    "sha256sum sleep sort stat sync tail tee timeout touch tr uname uniq wc"
)

PACKAGES: Mapping[str, tuple[str, ...]] = {
    "coreutils": tuple(_COREUTILS.split()),
    "awk": ("awk",),
    "findutils": ("find", "xargs"),
    "grep": ("grep",),
    "sed": ("sed",),
    "util-linux": ("flock", "mount"),
    "systemd": ("systemctl", "systemd-run"),
}
"""The programs that a capture and a transaction use on every host, by the package that brings them."""

FREE_KIB: Mapping[str, int] = {"/var/lib/numaforge": 32 * 1024, "/etc": 4 * 1024}
"""How much room a maintenance wants where it writes: its transactions, with old files, and files."""

SKEW_SECONDS = 30
"""A clock that differs more is named: certificates and Leases are judged by it."""

_BEGIN, _END = "numaforge-preflight", "asked"
_WITH_SYSTEMD = "systemd"  # its programs are asked for where it runs


def script() -> str:
    """Return the sh script that tells what `split` and `checks` read."""
    programs = [name for package, names in PACKAGES.items() if package != _WITH_SYSTEMD for name in names]
    asked = shell.call("tell_preflight", [*FREE_KIB], "".join(f"{name}\n" for name in programs))
    return shell.library("preflight/host") + asked


def split(output: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what a host printed before the script's answer, and the answer; none where it was cut off."""
    lines = [*output]
    while lines and not lines[-1].strip():
        lines.pop()
    if _BEGIN not in lines or lines[-1] != _END:
        return lines, []
    begin = len(lines) - 1 - lines[::-1].index(_BEGIN)
    return lines[:begin], lines[begin + 1 : -1]


def is_joined(answer: Sequence[str]) -> bool:
    """Say whether the host's kubelet has a login to a cluster, by the files that kubeadm and others leave."""
    return "joined yes" in answer


def checks(answer: Sequence[str], asked_at: float, answered_at: float) -> tuple[Check, ...]:
    """Return what a host's answer says; what it does not say is left out, or is unknown.

    The times are those of this machine, in seconds since 1970.
    """
    if not answer:
        return (Check("programs", "unknown: the answer was cut off", Severity.WARNING, "ask again"),)
    told = [line.partition(" ")[::2] for line in answer]
    missing = [rest for kind, rest in told if kind == "missing"]
    read_only = {rest for kind, rest in told if kind == "read-only"}
    found = [_programs(missing)]
    for kind, rest in told:
        if kind == "systemd":
            found.append(_systemd(rest))
        elif kind == "space":
            folder, _, free = rest.partition(" ")
            found.append(_room(folder, int(free) * 1024, folder in read_only))
        elif kind == "clock" and rest.isdigit():
            found.append(_clock(int(rest), asked_at, answered_at))
    return tuple(found)


def refuse_unfit(answer: Sequence[str]) -> None:
    """Raise HostError with everything that a maintenance would lack on the host."""
    lacking = errors(checks(answer, 0, 0))
    if lacking:
        raise HostError(
            "nothing was changed, the host lacks what a maintenance needs:\n  "
            + "\n  ".join(map(str, lacking)),
            remedy="`numaforge doctor INVENTORY` shows it for all hosts",
        )


def _programs(missing: Sequence[str]) -> Check:
    if not missing:
        return Check("programs", "all that are used are there")
    packages = [name for name, programs in PACKAGES.items() if {*programs} & {*missing}]
    return Check(
        "programs", f"there is no {', '.join(missing)}", Severity.ERROR, f"install {', '.join(packages)}"
    )


def _systemd(state: str) -> Check:
    if state == "-":
        return Check(
            "systemd",
            "does not run",
            Severity.WARNING,
            "units act from the next boot on, and a change is not continued where the connection breaks",
        )
    return Check("systemd", state)


def _room(folder: str, free_bytes: int, read_only: bool) -> Check:
    if read_only:
        return Check(folder, "is on a read-only file system", Severity.ERROR, "mount it writable")
    wanted = FREE_KIB[folder] * 1024
    if free_bytes < wanted:
        return Check(
            folder, f"{_mebibytes(free_bytes)} free", Severity.ERROR, f"free {format_bytes(wanted)} there"
        )
    return Check(folder, f"writable, {_mebibytes(free_bytes)} free")


def _mebibytes(count: int) -> str:
    return format_bytes(count >> 20 << 20)


def _clock(theirs: int, asked_at: float, answered_at: float) -> Check:
    """Compare clocks: the host read its own somewhere between the two times, to the second."""
    ahead = theirs - answered_at if theirs > answered_at else min(0.0, theirs + 1 - asked_at)
    if abs(ahead) <= SKEW_SECONDS:
        return Check("clock", "as here")
    way = "ahead of" if ahead > 0 else "behind"
    return Check(
        "clock",
        f"{abs(ahead):.0f} s {way} the one here",
        Severity.WARNING,
        "let chrony or timesyncd set both",
    )
