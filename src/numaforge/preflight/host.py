"""What a maintenance needs on a host: read by a script, judged here."""

from collections.abc import Mapping, Sequence

from numaforge.findings import Severity
from numaforge.lib import shell
from numaforge.lib.errors import HostError
from numaforge.lib.file_content import WRITTEN_BELOW
from numaforge.lib.framing import Answer, asking
from numaforge.lib.programs import CHANGED_WITH, SYSTEMD, missing
from numaforge.lib.quantity import format_bytes
from numaforge.lib.unfinished import LIBRARY, TRANSACTIONS, read_unfinished
from numaforge.preflight import Check, errors

FREE_KIB: Mapping[str, int] = {"/var/lib/numaforge": 32 * 1024, "/etc": 4 * 1024}
"""The free space that a maintenance needs where it writes: transactions, with old files, and files."""

SKEW_SECONDS = 30  # the greatest clock difference without a warning: certificates and Leases depend on clocks
_FOLDERS = (*FREE_KIB, *WRITTEN_BELOW)
_PART = "preflight"
_UNFINISHED = "unfinished"


def script() -> str:
    """Return the sh script for `answer_lines` and `checks`."""
    programs = " ".join(name for names in CHANGED_WITH.values() for name in names)
    call = shell.call("tell_part", [_PART, "tell_preflight", programs, " ".join(SYSTEMD), *_FOLDERS])
    unfinished = shell.call("tell_part", [_UNFINISHED, "tell_unfinished", TRANSACTIONS])
    return asking(shell.library("lib/programs", "preflight/host", LIBRARY) + call + unfinished)


def answer_lines(answer: Answer) -> tuple[str, ...]:
    return (*answer.part(_PART), *answer.part(_UNFINISHED))


def is_joined(answer: Sequence[str]) -> bool:
    """Whether the host's kubelet has a login to a cluster, by the files that kubeadm and others create."""
    return "joined yes" in answer


def checks(answer: Sequence[str], asked_at: float, answered_at: float) -> tuple[Check, ...]:
    """Return the checks of an answer; the times are this machine's, in seconds since 1970."""
    words = [line.partition(" ")[::2] for line in answer]
    read_only = [rest for kind, rest in words if kind == "read-only"]
    listed = [
        _programs(missing(answer)),
        *(
            Check(folder, "is on a read-only file system", Severity.ERROR, "mount it writable")
            for folder in read_only
        ),
    ]
    for kind, rest in words:
        if kind == "systemd":
            listed.append(_systemd(rest))
        elif kind == "space":
            folder, _, free = rest.partition(" ")
            if folder in FREE_KIB and folder not in read_only:
                listed.append(_room(folder, int(free) * 1024))
        elif kind == "clock" and rest.isdigit():
            listed.append(_clock(int(rest), asked_at, answered_at))
    if (change := read_unfinished(answer)) is not None:
        listed.append(Check("change", str(change), Severity.WARNING))
    return tuple(listed)


def refuse_unfit(answer: Sequence[str]) -> None:
    """Raise HostError with everything that the host lacks for a maintenance."""
    lacking = errors(checks(answer, 0, 0))
    if lacking:
        raise HostError(
            "nothing was changed, the host lacks what a maintenance needs:\n  "
            + "\n  ".join(map(str, lacking)),
            remedy="`numaforge doctor INVENTORY` shows it for all hosts",
        )


def _programs(lacks: Sequence[str]) -> Check:
    if not lacks:
        return Check("programs", "all that are used are there")
    brought = {**CHANGED_WITH, "systemd": SYSTEMD}
    packages = [name for name, programs in brought.items() if {*programs} & {*lacks}]
    return Check(
        "programs", f"there is no {', '.join(lacks)}", Severity.ERROR, f"install {', '.join(packages)}"
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


def _room(folder: str, free_bytes: int) -> Check:
    needed = FREE_KIB[folder] * 1024
    if free_bytes < needed:
        return Check(
            folder, f"{_in_mebibytes(free_bytes)} free", Severity.ERROR, f"free {format_bytes(needed)} there"
        )
    return Check(folder, f"writable, {_in_mebibytes(free_bytes)} free")


def _in_mebibytes(count: int) -> str:
    return format_bytes(count >> 20 << 20)


def _clock(host_time: int, asked_at: float, answered_at: float) -> Check:
    """Compare clocks: the host read its own between the two times, to the second."""
    ahead = host_time - answered_at if host_time > answered_at else min(0.0, host_time + 1 - asked_at)
    if abs(ahead) <= SKEW_SECONDS:
        return Check("clock", "as here")
    way = "ahead of" if ahead > 0 else "behind"
    return Check(
        "clock",
        f"{abs(ahead):.0f} s {way} the one here",
        Severity.WARNING,
        "let chrony or timesyncd set both",
    )
