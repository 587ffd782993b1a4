"""Change one host where it is: a node whose pods stay, or a host that is no Node; no cordon, drain or record.

The host carries the change out, and undoes it where it fails or does not answer over a new connection;
afterwards a Node must still be Ready.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from numaforge.change.transaction import Result, Transaction
from numaforge.lib.errors import NumaforgeError
from numaforge.rollout.cluster import Cluster
from numaforge.rollout.labels import to_set
from numaforge.rollout.machine import Machine
from numaforge.rollout.node import obstacles
from numaforge.rollout.outcome import NodeSettings, Outcome, Progress
from numaforge.rollout.record import Ending, labels_set, lease_name, read_ended, unfinished
from numaforge.rollout.slots import holds_slot
from numaforge.rollout.steps import Clock, Steps
from numaforge.rollout.transacting import ASKING, MOST_VOID, HostChange, RefusedError

CHANGING = "changes"  # the phase from which on something may have been changed on the host
UNPROTECTED = (
    "it reboots, and no budget of the cluster protects it, as it is not a Node: set with --max-unavailable, "
    "or as max_unavailable in the inventory, how many such hosts may change together"
)

_POLL_SECONDS = 2.0


class NodeOfHost(NamedTuple):
    """A host's Node in its cluster."""

    cluster: Cluster
    name: str


class _DrainError(Exception):
    """Pods have to leave the node, or have left it."""


@dataclass
class InPlaceChange(HostChange):
    """The change of a host in place; without a `node` it is no Node, and reboots only if it `may_reboot`."""

    host: str
    machine: Machine
    node: NodeOfHost | None
    settings: NodeSettings
    clock: Clock
    tell: Callable[[Progress], object]
    may_reboot: bool = True
    veto: Callable[[], str | None] = lambda: None
    name: str = field(init=False)
    _begun: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.name = self.node.name if self.node else self.host

    def run(self) -> Steps[Outcome | None]:
        """Change the host; None where that needs a drain; raises NumaforgeError before any change."""
        try:
            outcome = yield from self._run()
        except _DrainError:
            return None
        except RefusedError as refused:
            outcome = refused.outcome
        except NumaforgeError as error:
            if not self._begun:
                raise
            outcome = Outcome(Ending.HELD, f"{error}; what the host has begun ends by itself: resume later")
        self._say(outcome.ending, (outcome.reason,) if outcome.reason else ())
        return outcome

    def _run(self) -> Steps[Outcome]:
        cluster = self.node.cluster if self.node else None
        for _ in range(MOST_VOID):
            if cluster is not None:
                yield from self._require_own_node(cluster)
            transaction = yield from self._ask(self.machine.change)
            if cluster is not None:
                yield from self._require_stays(cluster, transaction)
            if transaction is None:
                return Outcome(Ending.UNCHANGED, "it is as planned")
            if cluster is not None:
                yield from self._require_in_order(cluster)
            if reason := self._why_not(transaction) or self.veto():
                return Outcome(Ending.BLOCKED, reason)
            if reason := (yield from self._ask(partial(self.machine.rehearse, transaction))):
                return Outcome(Ending.REFUSED_BY_KUBELET, reason)
            result = yield from self._carry_out(transaction)
            if result.outcome == "unknown":
                result = yield from self._find_out(result, transaction)
            if result.outcome != "void":
                return (yield from self._judge(result))
            self._begun = False
            self._say(ASKING, (result.reason,))
        return Outcome(Ending.BLOCKED, f"{MOST_VOID} times in a row {result.reason}")

    def _why_not(self, transaction: Transaction) -> str:
        """Return why the change must not be made, "" where it may; only Nodes have a drain and a budget."""
        if transaction.failed_before:
            return transaction.failed_before
        if self.node is None and transaction.disturbs and transaction.pods.may_run:
            return f"pods are alive on it, and no cluster knows it as a Node: {transaction.pods.evidence}"
        if transaction.ended_work:
            return transaction.ended_work
        if self.node is None and transaction.reboots and not self.may_reboot:
            return UNPROTECTED
        return ""

    def _require_own_node(self, cluster: Cluster) -> Steps[None]:
        """Refuse a Node of another machine; leave one with a record or a slot to its roll-out."""
        node = yield from self._ask(lambda: cluster.node(self.name))
        leases = yield from self._ask(cluster.leases)
        if node.name in unfinished(leases) or holds_slot(leases, node):
            raise _DrainError
        if reason := (yield from self._other_machine(cluster, node)):
            raise RefusedError(reason)

    def _require_stays(self, cluster: Cluster, transaction: Transaction | None) -> Steps[None]:
        """Refuse a change that needs a drain; so do label changes, which device plugins follow."""
        expected = yield from self._ask(self.machine.expected)
        node = yield from self._ask(lambda: cluster.node(self.name))
        lease = yield from self._ask(lambda: cluster.lease(lease_name(self.name)))
        if to_set(node, expected.labels, labels_set(lease, node)) or (
            transaction is not None and transaction.drains
        ):
            raise _DrainError

    def _require_in_order(self, cluster: Cluster) -> Steps[None]:
        node = yield from self._ask(lambda: cluster.node(self.name))
        node = yield from self._unmaintained(cluster, node)
        lease = yield from self._ask(lambda: cluster.lease(lease_name(self.name)))
        if reasons := obstacles(node, read_ended(lease, node), include_cordoned=True):
            raise RefusedError(reasons[0])
        if trouble := (yield from self._control_plane_trouble(cluster)):
            raise RefusedError(trouble)

    def _carry_out(self, transaction: Transaction) -> Steps[Result]:
        """Hand the transaction to the host, once, and return how it ended."""
        self._begun = True
        self._say(CHANGING)
        if refused := (yield from self._begin(transaction)):
            raise RefusedError(refused)
        return (yield from self._result(transaction.id))

    def _find_out(self, result: Result, planned: Transaction) -> Steps[Result]:
        """Inspect the host itself, whose records do not show the transaction's outcome."""
        change = yield from self._ask(self.machine.change)
        if change is None:
            return result._replace(outcome="applied")
        if change.begins_like(planned):
            return result._replace(outcome="void")
        return result

    def _judge(self, result: Result) -> Steps[Outcome]:
        match result.outcome:
            case "applied":
                return (yield from self._prove(result))
            case "refused":
                return Outcome(Ending.BLOCKED, result.reason)
            case "rolled-back":
                return Outcome(Ending.ROLLED_BACK, result.reason, result.journal[-5:])
            case _:
                return Outcome(Ending.HELD, result.reason, result.journal[-5:])

    def _prove(self, result: Result) -> Steps[Outcome]:
        """Wait for the changed host's Node to be Ready; otherwise undo the change."""
        self._say("proves")
        if (wrong := (yield from self._not_ready())) is None:
            return Outcome(Ending.DONE, result.reason or "it is as planned")
        reason = f"it was changed, and {wrong}"
        self._say("undoing", (reason,))
        undone = yield from self._result(
            result.id, undo=lambda: self._ask(lambda: self.machine.revert(result.id, reason))
        )
        if undone.outcome != "rolled-back":
            return Outcome(Ending.HELD, f"{reason}; {undone.reason}", undone.journal[-5:])
        if still := (yield from self._not_ready()):
            return Outcome(Ending.HELD, f"{reason}; as it was before, {still}")
        return Outcome(Ending.ROLLED_BACK, reason)

    def _not_ready(self) -> Steps[str | None]:
        """Return why the Node is not Ready; None once it is, by a heartbeat newer than the first seen."""
        if self.node is None:
            return None
        cluster, first, waited = self.node.cluster, None, 0.0
        while True:
            node = yield from self._ask(lambda: cluster.node(self.name))
            heartbeat = yield from self._ask(lambda: cluster.node_heartbeat(self.name))
            first = heartbeat if first is None else first
            if node.ready and heartbeat != first:
                return None
            why = f"is not Ready: {node.ready_message or 'no reason given'}"
            why = "has sent no heartbeat since" if node.ready else why
            if waited >= self.settings.gate.ready_timeout:
                return f"its Node {why}, for {self.settings.gate.ready_timeout:.0f} s"
            self._say("proves", (f"its Node {why}",))
            yield _POLL_SECONDS
            waited += _POLL_SECONDS
