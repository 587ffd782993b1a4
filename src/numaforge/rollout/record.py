"""The record of each node's roll-out: who works on it, its phase, and how it ended.

Each node has a Lease for it, in the namespace of the slots, where a kubelet cannot write. A kubelet may
annotate its own Node, so the annotation that a roll-out leaves there is for people, and decides nothing.

Record and cordon are two objects, so their order counts: the record is written before the cordon, and ended
after the uncordon. A runner that resumes in between knows its cordon by a mark, a random text in the record.
The request for the cordon writes it on the Node, too: where it is there, the cordon was made.
"""

import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Annotated

from pydantic import Field, TypeAdapter

from numaforge.lib.given import parse_json
from numaforge.rollout.cluster import Cluster, ClusterError, ClusterNode, ConflictError, Lease
from numaforge.rollout.labels import OURS, Labels, SetLabels, noted, settled
from numaforge.rollout.names import DEFAULT_NAME, ENDED, LEASE_NAMESPACE, NODE, NODE_UID
from numaforge.rollout.other_tools import foreign
from numaforge.rollout.patience import retried
from numaforge.rollout.shards import is_part_of

RECORD = "numaforge.io/record"  # the annotation of a node's Lease that has the record
ABORT = "numaforge.io/abort"
"""The annotation of a node's Lease that asks its runner to abort, and says who asks."""
MARK = "numaforge.io/rollout"
"""The annotation of a cordoned Node: the name of its Lease, and the mark of the cordon."""
NODE_LEASE = "numaforge-node-"
VERSION = 1  # the version of a record. A new key keeps it; a changed meaning of a key increments it
_VERSION = "version"
_LONGEST_NAME = 253
_TRANSACTION_ID = "^[A-Za-z0-9][A-Za-z0-9-]*$"  # it becomes part of a script for root


class Phase(StrEnum):
    """The phase of a node: what its name says has happened, and the next step has not."""

    CLAIMED = "claimed"  # the record is written; whether the node is cordoned, its mark says
    CORDONED = "cordoned"
    DRAINED = "drained"
    APPLYING = "applying"  # the node's transaction may have begun
    APPLIED = "applied"
    UNDOING = "undoing"  # the node's transaction is to be reverted
    VERIFIED = "verified"
    HELD = "held"  # a person is needed


class Ending(StrEnum):
    """How a node's roll-out ended."""

    DONE = "done"
    UNCHANGED = "unchanged"
    BLOCKED = "blocked"  # nothing was changed
    REFUSED_BY_KUBELET = "refused-by-kubelet"  # in a rehearsal: nothing was changed, and it is a failure
    ABORTED = "aborted"  # the node is as it was, because an abort was requested
    ROLLED_BACK = "rolled-back"
    HELD = "held"


def new_mark() -> str:
    """Return a new mark of a cordon, which cannot be guessed."""
    return secrets.token_hex(8)


@dataclass(frozen=True)
class Record:
    """A roll-out of one node, in progress or ended.

    `runner` is the process that works on it. `offered` is what the node offered pods before, as quantities,
    and `memory` its capacity then, "" where it reported none. `reason` is why it is undone or held, or how it
    ended. `left_to` is the maintenance for which an earlier roll-out left the node cordoned; once this one
    has ended, for which this one did. `rollout` is the roll-out's name. `labels` are the previous values of
    the labels it changed, None where there was no label; `set_labels` are all labels that numaforge has set
    on the node. `mark` is that of the cordon. `ending` is None until it is decided, after which only the
    uncordon is left. `lease` is the node's Lease as read or written last.
    """

    runner: str
    phase: Phase
    was_unschedulable: bool
    offered: Mapping[str, str] = field(default_factory=dict)
    memory: str = ""
    transaction: Annotated[str, Field(pattern=_TRANSACTION_ID)] | None = None
    reason: str = ""
    left_to: str | None = None
    rollout: str = DEFAULT_NAME
    labels: Labels = field(default_factory=dict)
    set_labels: SetLabels = field(default_factory=dict)
    mark: str = field(default_factory=new_mark, compare=False)
    ending: Ending | None = None
    lease: Lease = field(default_factory=lambda: Lease(""), compare=False, repr=False)

    @property
    def node(self) -> str:
        """The node's name."""
        return self.lease.annotations[NODE]

    @property
    def uid(self) -> str:
        """The UID of the Node object, which differs once the node is registered anew."""
        return self.lease.annotations.get(NODE_UID, "")

    @property
    def touched(self) -> bool:
        """Whether something may have been changed on the node itself."""
        return self.phase not in (Phase.CLAIMED, Phase.CORDONED, Phase.DRAINED)

    @property
    def is_decided(self) -> bool:
        """Whether only the uncordon is left."""
        return self.phase is Phase.VERIFIED or self.ending is not None

    def belongs_to(self, rollout: str) -> bool:
        """Whether the node is in the roll-out of that name, or in a shard of it."""
        return is_part_of(self.rollout, rollout)

    def has_marked(self, node: ClusterNode) -> bool:
        """Whether the node's cordon was made for this record, whether or not it is still there."""
        return node.uid == self.uid and node.annotations.get(MARK) == _mark(self)


class TakenError(ClusterError):
    """The node is no longer this runner's."""


class OvertakenError(TakenError):
    """Another runner has taken the node over, and reports on it."""


class UncordonedError(ClusterError):
    """The node was uncordoned, and is still this runner's."""


class UnreadableError(ClusterError):
    """The annotation of the node's Lease is no record that this release can read."""


_RECORD = TypeAdapter(Record)
_FIELDS = {field.name for field in fields(Record)} - {"lease"}


def lease_name(node: str) -> str:
    """Return the name of a node's Lease; a long name of a node is cut, and ends with its digest."""
    name = f"{NODE_LEASE}{node}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(node.encode()).hexdigest()[:16]
    return f"{name[: _LONGEST_NAME - len(digest) - 1].rstrip('.-')}-{digest}"


def node_leases(leases: Iterable[Lease]) -> dict[str, Lease]:
    """Return the Leases with a record by the names of their nodes."""
    return {
        lease.annotations[NODE]: lease
        for lease in leases
        if lease.name.startswith(NODE_LEASE) and NODE in lease.annotations and RECORD in lease.annotations
    }


def unfinished(leases: Iterable[Lease]) -> dict[str, Lease]:
    """Return the Leases of nodes in a roll-out by the names of the nodes; their records may be unreadable."""
    return {name: lease for name, lease in node_leases(leases).items() if ENDED not in lease.labels}


def read_record(lease: Lease) -> Record | None:
    """Return the record on a node's Lease, None without one; raises UnreadableError for any other text."""
    text = lease.annotations.get(RECORD)
    return None if text is None else replace(_read(text, lease), lease=lease)


def read_unfinished(lease: Lease | None) -> Record | None:
    """Return the record on a node's Lease while its roll-out is in progress; raises UnreadableError."""
    return None if lease is None or ENDED in lease.labels else read_record(lease)


def read_ended(lease: Lease | None, node: ClusterNode) -> Record | None:
    """Return the record of this Node's last roll-out once it has ended; None also where it is unreadable."""
    record = _of_node(lease, node)
    return record if record is not None and ENDED in record.lease.labels else None


def labels_set(lease: Lease | None, node: ClusterNode) -> SetLabels:
    """Return the labels that numaforge has set on a Node, by its record; {} where that cannot be read."""
    record = _of_node(lease, node)
    return record.set_labels if record is not None else {}


def _of_node(lease: Lease | None, node: ClusterNode) -> Record | None:
    try:
        record = None if lease is None else read_record(lease)
    except UnreadableError:
        return None
    return record if record is not None and record.uid == node.uid else None


def unreadable(lease: Lease) -> str | None:
    """Return why the record on a node's Lease cannot be read, and what to do; None where it can."""
    try:
        read_record(lease)
    except UnreadableError as error:
        return str(error)
    return None


def _read(text: str, lease: Lease) -> Record:
    try:
        document = parse_json(text)
        version = document.pop(_VERSION, VERSION)
        if type(version) is not int or version < 1:
            raise ValueError(_VERSION)
        if version > VERSION:
            raise UnreadableError(
                f"a newer release wrote the record: version {version}, and this is {VERSION}",
                where=f"Lease {lease.name}",
                remedy="go on with that release",
            )
        fields = {name: document.pop(name) for name in _FIELDS & document.keys()}
        if document:
            raise ValueError(f"no key of a record: {', '.join(document)}")
        record = _RECORD.validate_json(json.dumps(fields), strict=True)
        if NODE not in lease.annotations or not record.labels.keys() | record.set_labels.keys() <= OURS:
            raise ValueError("a label that no plan has, or no node")
        return record
    except (ValueError, TypeError, AttributeError) as error:  # pydantic's is a ValueError too
        namespace = lease.document.get("metadata", {}).get("namespace", LEASE_NAMESPACE)
        raise UnreadableError(
            f"the annotation {RECORD} cannot be read",
            where=f"Lease {lease.name}",
            remedy="look at it and at the node, and delete it: "
            f"kubectl -n {namespace} delete lease {lease.name}",
        ) from error


def claim(cluster: Cluster, node: ClusterNode, record: Record) -> Record:
    """Write the record of a roll-out that begins on a node, before anything else; nothing is cordoned yet.

    Keeps of the node's earlier record which labels were set, and for whom the node was left cordoned; the
    mark where this claim is made again. Raises OvertakenError where another runner's roll-out of the node is
    in progress, ConflictError where another process writes the Lease now, UnreadableError for an earlier
    record that cannot be read.
    """
    lease = cluster.lease(lease_name(node.name))
    earlier = read_record(lease)
    if earlier is not None and earlier.uid == node.uid:
        tool = left_to(earlier, node) if ENDED in lease.labels else earlier.left_to
        record = replace(record, set_labels=earlier.set_labels, left_to=tool)
    if earlier is not None and ENDED not in lease.labels:
        if earlier.runner != record.runner:
            raise OvertakenError(f"{earlier.runner} has taken the node over", where=node.name)
        record = replace(record, mark=earlier.mark)
    of_node = {NODE: node.name, NODE_UID: node.uid}
    return _put(cluster, replace(record, lease=replace(lease, annotations=of_node)))


def cordon(cluster: Cluster, node: ClusterNode, record: Record) -> None:
    """Cordon a node as it was read, with this record's mark, in one request; raises ConflictError."""
    cluster.patch_node(node, unschedulable=True, annotations={MARK: _mark(record)})


def cordon_again(cluster: Cluster, record: Record) -> Record:
    """Cordon again, with a new mark; a cordon made meanwhile stays its maker's; raises TakenError."""

    def change() -> Record:
        node = cluster.node(record.node)
        record_now = require_ours(cluster.lease(record.lease.name), record)
        _require_same_object(node, record)
        if node.unschedulable:
            return _put(cluster, replace(record_now, was_unschedulable=not record.has_marked(node)))
        record_now = _put(cluster, replace(record_now, was_unschedulable=False))
        cordon(cluster, node, record_now)
        return record_now

    return retried(change, where=record.node)


def withdraw(cluster: Cluster, record: Record, ending: Ending, reason: str) -> Record:
    """End a roll-out without touching its node, which this record did not cordon, or which is gone."""

    def change() -> Record:
        record_now = require_ours(cluster.lease(record.lease.name), record)
        return _end(cluster, replace(record_now, ending=ending, reason=reason))

    return retried(change, where=record.node)


def take_over(cluster: Cluster, node: ClusterNode, runner: str) -> Record:
    """Take over a record, also of a node registered anew; raises TakenError where no roll-out goes on."""

    def change() -> Record:
        lease = cluster.lease(lease_name(node.name))
        record = read_unfinished(lease)
        if record is None:
            raise TakenError("is not in a roll-out any more", where=node.name)
        if record.uid != node.uid:  # its cordon and its labels have gone with the earlier object
            of_node = {**lease.annotations, NODE_UID: node.uid}
            record = replace(
                record,
                phase=record.phase if record.touched else Phase.CLAIMED,
                was_unschedulable=node.unschedulable,
                labels={},
                set_labels={},
                lease=replace(lease, annotations=of_node),
            )
        return _put(cluster, replace(record, runner=runner))

    return retried(change, where=node.name)


def write(cluster: Cluster, record: Record) -> Record:
    """Write the record; raises TakenError where the node is no longer ours."""

    def change() -> Record:
        nonlocal record
        try:
            return _put(cluster, record)
        except ConflictError:  # an abort was requested, or an earlier answer was lost
            record = require_ours(cluster.lease(record.lease.name), record)
            raise

    return retried(change, where=record.node)


def advance(cluster: Cluster, record: Record) -> Record:
    """Write the record; raises TakenError where it is no longer ours, UncordonedError if uncordoned."""
    require_cordoned(cluster.node(record.node), record)
    return write(cluster, record)


def look(cluster: Cluster, record: Record) -> tuple[ClusterNode, Record]:
    """Return the node and the record as they are now; raises TakenError, UncordonedError."""
    node = cluster.node(record.node)
    record = require_ours(cluster.lease(record.lease.name), record)
    require_cordoned(node, record)
    return node, record


def change_labels(cluster: Cluster, record: Record, changes: Callable[[ClusterNode], Labels]) -> Record:
    """Change the node's labels, once their previous values are recorded; raises as `look` does."""

    def change() -> Record:
        nonlocal record
        node, record = look(cluster, record)
        labels = changes(node)
        record = _put(cluster, replace(record, set_labels=noted(node, labels, record.set_labels)))
        if labels:
            cluster.patch_node(node, annotations={}, labels=labels)
        return record

    return retried(change, where=record.node)


def require_ours(lease: Lease, record: Record) -> Record:
    """Return the record with its Lease as read now; raise TakenError unless it is still its runner's."""
    current = read_record(lease)
    if current is None:
        raise TakenError(
            f"the record of its roll-out was deleted (Lease {record.lease.name}): see whether the node is "
            "cordoned",
            where=record.node,
        )
    if ENDED in lease.labels:
        raise OvertakenError("another process has ended the node's roll-out", where=record.node)
    if current.runner != record.runner:
        raise OvertakenError(f"{current.runner} has taken the node over", where=record.node)
    return replace(record, lease=lease)


def require_cordoned(node: ClusterNode, record: Record) -> None:
    """Raise UncordonedError unless the node is cordoned, TakenError where it was registered anew."""
    _require_same_object(node, record)
    if not node.unschedulable:
        raise UncordonedError("the node was uncordoned in the middle of its roll-out", where=node.name)


def _require_same_object(node: ClusterNode, record: Record) -> None:
    if node.uid != record.uid:
        raise TakenError("the node was registered again during its roll-out", where=node.name)


def uncordon(cluster: Cluster, record: Record, ending: Ending, reason: str) -> tuple[ClusterNode, Record]:
    """Uncordon the node unless others need its cordon, and end its record; return both; raises TakenError."""

    def change() -> tuple[ClusterNode, Record]:
        node = cluster.node(record.node)
        lease = cluster.lease(record.lease.name)
        ended = read_ended(lease, node)
        how = (ended.runner, ended.ending, ended.reason) if ended is not None else None
        if ended is not None and how == (record.runner, ending, reason):
            return node, ended  # done already: only the answer was lost
        record_now = require_ours(lease, record)
        if node.uid != record.uid:
            return node, _end(cluster, replace(record_now, ending=ending, reason=reason))
        tool = foreign(node)
        cordon_is_ours = node.unschedulable and not record.was_unschedulable and tool is None
        if cordon_is_ours or MARK in node.annotations:
            unschedulable = False if cordon_is_ours else None
            node = cluster.patch_node(node, unschedulable=unschedulable, annotations={MARK: None})
        left_to_tool = record.left_to if record.was_unschedulable else tool
        labels = settled(node, record_now.set_labels)
        record_now = replace(
            record_now, ending=ending, reason=reason, left_to=left_to_tool, set_labels=labels, labels={}
        )
        return node, _end(cluster, record_now)

    return retried(change, where=record.node)


def ask_to_abort(cluster: Cluster, node: str, rollout: str, requester: str) -> Record | None:
    """Request a node's undo; return its record, None outside that roll-out; raises UnreadableError."""

    def change() -> Record | None:
        lease = cluster.lease(lease_name(node))
        record = read_unfinished(lease)
        if record is None or not record.belongs_to(rollout):
            return None
        cluster.put_lease(replace(lease, annotations={**lease.annotations, ABORT: requester}))
        return record

    return retried(change, where=node)


def left_to(ended: Record | None, node: ClusterNode) -> str | None:
    """Return for whom an ended roll-out has left its cordon; None once the node was uncordoned."""
    return ended.left_to if ended is not None and node.unschedulable else None


def left_cordoned(ended: Record | None, node: ClusterNode) -> str | None:
    """Return why an ended roll-out has left its cordon on the node, None where it has not."""
    tool = left_to(ended, node)
    return f"left cordoned, because another maintenance was in progress: {tool}" if tool else None


def _mark(record: Record) -> str:
    return f"{record.lease.name} {record.mark}"


def _put(cluster: Cluster, record: Record) -> Record:
    """Write a record of a roll-out in progress to its Lease as it was read; raises ConflictError."""
    labels = {name: value for name, value in record.lease.labels.items() if name != ENDED}
    annotations = {**record.lease.annotations, RECORD: _dump(record)}
    lease = replace(record.lease, holder=record.runner, labels=labels, annotations=annotations)
    return replace(record, lease=cluster.put_lease(lease))


def _end(cluster: Cluster, record: Record) -> Record:
    annotations = {name: value for name, value in record.lease.annotations.items() if name != ABORT}
    lease = replace(
        record.lease,
        holder="",
        labels={**record.lease.labels, ENDED: str(record.ending)},
        annotations={**annotations, RECORD: _dump(record)},
    )
    return replace(record, lease=cluster.put_lease(lease))


def _dump(record: Record) -> str:
    fields = {name: getattr(record, name) for name in sorted(_FIELDS)}
    set_labels = {name: asdict(label) for name, label in record.set_labels.items()}
    plain = {"offered": dict(record.offered), "labels": dict(record.labels), "set_labels": set_labels}
    return json.dumps({_VERSION: VERSION, **fields, **plain}, separators=(",", ":"))
