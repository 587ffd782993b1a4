"""Facts of a host: its snapshot, and the output of a script."""

from __future__ import annotations

from pathlib import Path

from paramiko import SSHException
from pyinfra.api import FactBase, Host

from numaforge import shell
from numaforge.bounded import TooMuchOutputError
from numaforge.errors import HostError, HostUnreachableError
from numaforge.framing import Answer
from numaforge.hosts.connection import CUT, hang_up, within
from numaforge.hosts.host_data import datum
from numaforge.preflight import host as preflight
from numaforge.rollout.names import ANSWER_SECONDS
from numaforge.snapshot import Snapshot, parse_output, script

_AS_LOGGED_IN = "sh -s | dd obs=64k 2> /dev/null"
"""In few messages: a shell writes line by line, and to receive a message costs more than to read the line."""
_AS_ROOT = (Path(__file__).parent / "as_root.sh").read_text("ascii")
_NO_ROOT = {
    "nosudo": "is not root and there is no sudo",
    "password": "is not root and sudo asks for a password",
}


class ScriptOutput(FactBase["list[str] | None"]):
    """The output lines of a script given through `_stdin`; None where it printed nothing or failed."""

    def command(self, *, as_root: bool = False) -> str:
        """Run the script, as root where that is possible."""
        return _AS_ROOT if as_root else _AS_LOGGED_IN

    def process(self, output: list[str]) -> list[str]:
        """Return the lines as they are."""
        return output


def detect(host: Host) -> Snapshot:
    """Take the host's snapshot in one round trip, and learn whether its commands need sudo.

    Raises HostError for a host without root rights, HostUnreachableError for one that does not answer,
    SnapshotError for an answer that cannot be read.
    """
    return parse_output(as_root(host, script()))


def detect_for_change(host: Host) -> Snapshot:
    """Take the host's snapshot as `detect` does, and in the same round trip see to it that it can be changed.

    Raises HostError, too, for a host that lacks what a maintenance needs.
    """
    answer = as_root(host, script() + preflight.script())
    preflight.refuse_unfit(preflight.told(answer))
    return parse_output(answer)


def as_root(host: Host, script_text: str, seconds: int | None = None) -> Answer:
    """Run a script that changes nothing as root, and learn whether the host's commands need sudo.

    It may take `seconds`, else the limit in the host's data.

    Raises HostError for a host without root rights, HostUnreachableError for one that does not answer.
    """
    remedy = "see the messages above; the host needs a POSIX sh"
    answer = _ask(host, script_text, remedy, as_root=True, seconds=seconds)
    found = right(answer)
    if found == "noid":
        raise HostError(
            "the host lacks id, which tells who logs in", remedy="install coreutils or busybox there"
        )
    if found in _NO_ROOT:
        raise HostError(
            f"the login user {_NO_ROOT[found]}",
            where="ssh_user",
            remedy="log in as root, or give this user a sudoers rule with NOPASSWD: ALL",
        )
    host.data._sudo = found == "sudo"
    return answer


def right(answer: Answer) -> str:
    """Return how a script got root rights: "root", "sudo", or why it did not get them."""
    return "".join(answer.part("right"))


def script_output(host: Host, script_text: str) -> Answer:
    """Run a script that changes nothing and return its answer.

    Raises HostUnreachableError when it fails or is cut off.
    """
    return _ask(host, script_text, "see the messages above; run again when the host is reachable")


def _ask(
    host: Host,
    script_text: str,
    remedy: str,
    *,
    as_root: bool = False,
    seconds: int | None = None,
) -> Answer:
    """Ask a host; a connection that breaks meanwhile breaks in one of many ways."""
    how = {"as_root": True, "_sudo": False} if as_root else {}
    try:
        with within(host, seconds or datum(host, ANSWER_SECONDS)):
            output = host.get_fact(
                ScriptOutput, _stdin=shell.on_stdin(script_text), _ignore_errors=True, **how
            )
        answer = Answer.of(output) if output else None
        if answer and (as_root or not answer.status):  # a capture that ends badly has its answer all the same
            return answer
    except TooMuchOutputError as error:
        raise error if error.where else error.at(host.name) from error
    except (SSHException, OSError, EOFError) as error:
        hang_up(host)
        raise HostUnreachableError(f"did not answer: {str(error) or CUT}") from error
    raise HostUnreachableError("did not answer", remedy=remedy)
