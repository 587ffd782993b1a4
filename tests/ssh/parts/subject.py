"""What the contract of parts is tried with: a node, a change of it, how the node looks before and after."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from numaforge.change.transaction import Transaction
from tests.ssh.conftest import StartSandbox
from tests.ssh.sandbox import Sandbox


def nothing(_node: Sandbox) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Subject:
    """The change of one part, or of some that belong together.

    `forwards` and `back` are the events of the change and of its undoing at which it is broken off; `make
    test` tries the first of each, `make test-all` all of them. `at_boot` does what the sandbox's boot leaves
    out before the kubelet's start, `before_kubelet` holds what the kubelet then finds, `after_boot` does what
    the boot leaves out after it. `cuts` are the ways to end a boot that are tried at every event.
    """

    name: str
    start_node: Callable[[StartSandbox, int], Sandbox]
    change: Callable[[int], Transaction]
    assert_old: Callable[[Sandbox], None]
    assert_new: Callable[[Sandbox], None]
    forwards: Sequence[str]
    back: Sequence[str]
    at_boot: Callable[[Sandbox], None] = nothing
    after_boot: Callable[[Sandbox], None] = nothing
    before_kubelet: Callable[[Sandbox], None] = nothing
    cuts: Sequence[str] = ("power",)


def end_services(node: Sandbox) -> None:
    """End the services with the power, which a sandbox's boot does not."""
    node.run("for pid in $(cat /run/active/*); do kill -KILL $pid; done; rm -f /run/active/*")


def start_service(node: Sandbox, unit: str) -> None:
    """Start a service that is enabled as a boot does."""
    node.run(f"rm -f /run/stopping; systemctl start {unit}")


def start_unless_stopped(node: Sandbox, unit: str, part: str) -> None:
    """Start a service with a boot, but for one that a part has stopped: that is for the part to start."""
    if not any(node.path("/var/lib/numaforge/txn/T1").glob(f"{part}*/stopped")):
        node.run(f"systemctl start {unit}")
