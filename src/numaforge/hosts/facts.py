"""Facts of a host: what it is, and what a script prints on it."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paramiko import SSHException
from pyinfra.api import FactBase, Host

from numaforge.bounded import TooMuchOutputError, unpacked
from numaforge.errors import HostError, HostUnreachableError, SnapshotError
from numaforge.hosts import connection
from numaforge.preflight import host as preflight
from numaforge.snapshot import Snapshot, parse_output, script

_SHELL = Path(__file__).parent
_AS_ROOT = (_SHELL / "as_root.sh").read_text("ascii")

_RIGHT = "numaforge-right "
_PACKED = "packed"
_NO_ROOT = {
    "nosudo": "is not root and there is no sudo",
    "password": "is not root and sudo asks for a password",
}


@dataclass(frozen=True)
class RightedOutput:
    """What a host answered: by which right the script ran ("root", "sudo", or why not), and its output."""

    right: str
    output: tuple[str, ...]


class Detection(FactBase[RightedOutput | None]):
    """Everything there is to know about a host, in one round trip; `parse_output` reads the output.

    Takes the script through `_stdin`. None where the host did not answer.
    """

    def command(self) -> str:
        """Run the script as root where that is possible."""
        return _AS_ROOT

    def process(self, output: list[str]) -> RightedOutput | None:
        """Split the line that names the right from the script's output; a login banner may come first."""
        for number, line in enumerate(output):
            if line.startswith(_RIGHT):
                right, _, form = line.removeprefix(_RIGHT).partition(" ")
                said = output[number + 1 :]
                return RightedOutput(right, tuple(_unpacked("".join(said)) if form == _PACKED else said))
        return None


def _unpacked(text: str) -> list[str]:
    """Return the lines that a host packed; of a text that is cut off, those that can be read."""
    try:
        raw = unpacked(base64.b64decode(text[: len(text) // 4 * 4]))
    except (ValueError, zlib.error) as error:
        raise SnapshotError(
            f"the host's answer cannot be unpacked: {error}", remedy="capture the host again"
        ) from error
    return raw.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n")


class ScriptOutput(FactBase["list[str] | None"]):
    """The output lines of a script given through `_stdin`; None where it printed nothing or failed."""

    def command(self) -> str:
        """Run the script."""
        return "exec sh -s"

    def process(self, output: list[str]) -> list[str]:
        """Return the lines as they are."""
        return output


def detect(host: Host) -> Snapshot:
    """Take the host's snapshot in one round trip, and learn whether its commands need sudo.

    Raises HostError for a host without root rights, HostUnreachableError for one that does not answer,
    SnapshotError for an answer that cannot be read.
    """
    return parse_output(as_root(host, script()).output)


def detect_for_change(host: Host) -> Snapshot:
    """Take the host's snapshot as `detect` does, and in the same round trip see to it that it can be changed.

    Raises HostError, too, for a host that lacks what a maintenance needs.
    """
    captured, told = preflight.split(as_root(host, script() + preflight.script()).output)
    preflight.refuse_unfit(told)
    return parse_output(captured)


def as_root(host: Host, script_text: str) -> RightedOutput:
    """Run a script that changes nothing as root, and learn whether the host's commands need sudo.

    Raises HostError for a host without root rights, HostUnreachableError for one that does not answer.
    """
    connection.send_at_once(host)
    answer: RightedOutput | None = _asked(host, Detection, script_text, _sudo=False)
    if answer is None:
        raise HostUnreachableError(
            "did not run the detection script", remedy="see the messages above; the host needs a POSIX sh"
        )
    if answer.right == "noid":
        raise HostError(
            "the host lacks id, which tells who logs in", remedy="install coreutils or busybox there"
        )
    if answer.right in _NO_ROOT:
        raise HostError(
            f"the login user {_NO_ROOT[answer.right]}",
            where="ssh_user",
            remedy="log in as root, or give this user a sudoers rule with NOPASSWD: ALL",
        )
    host.data._sudo = answer.right == "sudo"
    return answer


def script_output(host: Host, script_text: str) -> list[str]:
    """Run a script that changes nothing and return the lines it prints, at least one.

    Raises HostUnreachableError when it fails or prints nothing.
    """
    output: list[str] | None = _asked(host, ScriptOutput, script_text)
    if not output:
        raise HostUnreachableError(
            "did not answer", remedy="see the messages above; run again when the host is reachable"
        )
    return output


def _asked(host: Host, fact: type[FactBase[Any]], script_text: str, **how: bool) -> Any:
    """Return a fact of a host; a connection that breaks meanwhile breaks in one of many ways."""
    try:
        with connection.within(host, connection.LOOK_SECONDS):
            return host.get_fact(fact, _stdin=script_text, _ignore_errors=True, **how)
    except TooMuchOutputError as error:
        raise error if error.where else error.at(host.name) from error
    except (SSHException, OSError, EOFError) as error:
        connection.hang_up(host)
        raise HostUnreachableError(f"did not answer: {str(error) or connection.CUT}") from error
