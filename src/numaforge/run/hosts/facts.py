"""A host's snapshot, and how it lets us become root."""

from pathlib import Path

from pyinfra.api import Host

from numaforge.lib.errors import HostError
from numaforge.lib.framing import Answer
from numaforge.machine.snapshot.capture import parse_output, script
from numaforge.machine.snapshot.model import Snapshot
from numaforge.preflight import host as preflight
from numaforge.rollout.names import ANSWER_SECONDS
from numaforge.run.hosts.host_data import datum
from numaforge.run.hosts.scripts import answer_of

AS_ROOT = (Path(__file__).parent / "as_root.sh").read_text("ascii")
_NO_ROOT = {
    "nosudo": "is not root and there is no sudo",
    "password": "is not root and sudo asks for a password",
}


def detect(host: Host) -> Snapshot:
    """Take the host's snapshot; raises HostError without root, HostUnreachableError, SnapshotError."""
    return parse_output(as_root(host, script()))


def detect_for_change(host: Host) -> Snapshot:
    """Detect a host; raises HostError also where it lacks a prerequisite of a maintenance."""
    answer = as_root(host, script() + preflight.script())
    preflight.refuse_unfit(preflight.answer_lines(answer))
    return parse_output(answer)


def as_root(host: Host, script_text: str, seconds: int | None = None) -> Answer:
    """Run a read-only script as root, and learn if commands need sudo; raises HostError without root."""
    answer = answer_of(host, script_text, seconds or datum(host, ANSWER_SECONDS), command=AS_ROOT)
    right_to_root = right(answer)
    if right_to_root == "noid":
        raise HostError(
            "the host lacks `id`, which names the user who logs in",
            remedy="install coreutils or busybox there",
        )
    if right_to_root in _NO_ROOT:
        raise HostError(
            f"the login user {_NO_ROOT[right_to_root]}",
            where="ssh_user",
            remedy="log in as root, or give this user a sudoers rule with NOPASSWD: ALL",
        )
    host.data._sudo = right_to_root == "sudo"
    return answer


def right(answer: Answer) -> str:
    """Return how a script got root rights: "root", "sudo", or why it did not get them."""
    return "".join(answer.part("right"))
