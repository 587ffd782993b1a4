"""What a roll-out writes on a Node: who has cordoned it, its phase, and how it ended.

The record is on the Node from the cordon to the uncordon, and is written and removed in the same requests. So
the record alone shows whose cordon it is.

A kubelet may write the annotations of its own Node, and so may another release: they are untrusted input, and
a record that cannot be read affects only that node.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from numaforge.given import NotJsonError, parse_json
from numaforge.rollout.cluster import Cluster, ClusterError, ClusterNode
from numaforge.rollout.labels import Labels, noted, settled
from numaforge.rollout.maintenance import foreign
from numaforge.rollout.names import DEFAULT_NAME
from numaforge.rollout.patience import retried
from numaforge.rollout.shards import is_part_of

RECORD = "numaforge.io/rollout"
RESULT = "numaforge.io/rollout-result"
ABORT = "numaforge.io/rollout-abort"
VERSION = 1
"""The version of a record. A new key keeps it; a changed meaning of a key increments it."""

_VERSION = "version"
_OTHERS = "others"
_LEFT_TO = "cordon left to"
_TRANSACTION_ID = "^[A-Za-z0-9][A-Za-z0-9-]*$"  # it becomes part of a script for root


class Phase(StrEnum):
    """The phase of a node: what its name says has happened, and the next step has not."""

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
    ABORTED = "aborted"  # the node is as it was, because an abort was requested
    ROLLED_BACK = "rolled-back"
    HELD = "held"


@dataclass(frozen=True)
class Record:
    """A roll-out of one node.

    `runner` is the process that works on it. `offered` are the extended resources that the node offered
    before, as quantities. `reason` is why it is undone or held. `left_to` is the maintenance for which an
    earlier roll-out left the node cordoned. `rollout` is the roll-out's name, "" in records of a release that
    stored none. `labels` are the previous values of the labels it changed, None where there was no label.
    `others` are keys of a newer release, which are kept.
    """

    runner: str
    phase: Phase
    was_unschedulable: bool
    offered: Mapping[str, str] = field(default_factory=dict)
    transaction: Annotated[str, Field(pattern=_TRANSACTION_ID)] | None = None
    reason: str = ""
    left_to: str | None = None
    rollout: str = DEFAULT_NAME
    labels: Labels = field(default_factory=dict)
    others: Mapping[str, Any] = field(default_factory=dict)

    def belongs_to(self, rollout: str) -> bool:
        """Whether the node is in the roll-out of that name, or in a shard of it.

        A record without a name may belong to any.
        """
        return not self.rollout or is_part_of(self.rollout, rollout)


class TakenError(ClusterError):
    """The node is no longer this runner's."""


class OvertakenError(TakenError):
    """Another runner has taken the node over, and reports on it."""


class UncordonedError(ClusterError):
    """The node was uncordoned, and is still this runner's."""


class UnreadableError(ClusterError):
    """The node's annotation is no record that this release can read."""


_RECORD = TypeAdapter(Record)
_FIELDS = {each.name for each in fields(Record)} - {_OTHERS}


def read_record(node: ClusterNode) -> Record | None:
    """Return the record on a node, or None.

    Raises UnreadableError for an annotation that is not ours, or has a newer version.
    """
    text = node.annotations.get(RECORD)
    return None if text is None else _read_record(text, node.name)


def unreadable(node: ClusterNode) -> str | None:
    """Return why the record on a node cannot be read, and what to do; None where it can."""
    try:
        read_record(node)
    except UnreadableError as error:
        return str(error)
    return None


def _read_record(text: str, where: str) -> Record:
    try:
        document = parse_json(text)
        version = document.pop(_VERSION, VERSION)
        if type(version) is not int or version < 1:
            raise ValueError(_VERSION)
        if version > VERSION:
            raise UnreadableError(
                f"a newer release wrote the annotation {RECORD}: version {version}, and this is {VERSION}",
                where=where,
                remedy="go on with that release",
            )
        ours = {name: document.pop(name) for name in _FIELDS & document.keys()}
        return _RECORD.validate_json(json.dumps({"rollout": "", **ours, _OTHERS: document}), strict=True)
    except (ValueError, TypeError, AttributeError) as error:  # pydantic's is a ValueError too
        raise UnreadableError(
            f"the annotation {RECORD} cannot be read",
            where=where,
            remedy=f"look at it and at the node, and remove it: kubectl annotate node {where} {RECORD}-",
        ) from error


def claim(cluster: Cluster, node: ClusterNode, record: Record) -> ClusterNode:
    """Cordon a node as it was read, and write the record that names the runner, in one request.

    Removes an earlier request to abort, which was for another roll-out. Raises ConflictError where the node
    has changed since.
    """
    return cluster.patch_node(
        node, unschedulable=True, annotations={RECORD: _dump(record), RESULT: None, ABORT: None}
    )


def take_over(cluster: Cluster, name: str, runner: str) -> tuple[ClusterNode, Record]:
    """Take over a record that another process has left.

    Raises TakenError where there is no record any more.
    """

    def change(node: ClusterNode) -> ClusterNode:
        record = read_record(node)
        if record is None:
            raise TakenError("is not in a roll-out any more", where=name)
        return cluster.patch_node(node, annotations={RECORD: _dump(replace(record, runner=runner))})

    node = _retried(cluster, name, change)
    record = read_record(node)
    if record is None:  # the API server answers with the written object
        raise ClusterError("the API server lost what was written", where=name)
    return node, record


def advance(
    cluster: Cluster, name: str, record: Record, labels: Callable[[ClusterNode], Labels] = lambda _: {}
) -> Record:
    """Write the record, and in the same request make the label changes that `labels` returns for the node.

    The labels' values before numaforge go into an annotation in that request, too.

    Raises TakenError where the node is no longer ours.
    """

    def change(node: ClusterNode) -> ClusterNode:
        require_ours(node, record)
        changes = labels(node)
        annotations = {RECORD: _dump(record), **noted(node, changes)}
        return cluster.patch_node(node, annotations=annotations, labels=changes)

    _retried(cluster, name, change)
    return record


def require_ours(node: ClusterNode, record: Record) -> None:
    """Raise TakenError unless the node is still the record's runner's, UncordonedError unless cordoned."""
    _require_record(node, record)
    if not node.unschedulable:
        raise UncordonedError("the node was uncordoned in the middle of its roll-out", where=node.name)


def hand_back(cluster: Cluster, name: str, record: Record, ending: Ending, reason: str) -> ClusterNode:
    """Replace the record by the result, uncordon the node, and return it.

    A node that was cordoned before stays cordoned, as does a node in another maintenance by now. Raises
    TakenError where the record is no longer this runner's.
    """
    result = {"ending": ending.value, "reason": reason, "runner": record.runner}

    def change(node: ClusterNode) -> ClusterNode:
        if RECORD not in node.annotations and result.items() <= read_result(node).items():
            return node  # done already: only the answer was lost
        _require_record(node, record)
        other = foreign(node)
        stays = record.was_unschedulable or other is not None
        left = record.left_to if record.was_unschedulable else other
        return cluster.patch_node(
            node,
            unschedulable=None if stays else False,
            annotations={
                **settled(node),
                RECORD: None,
                ABORT: None,
                RESULT: json.dumps({**result, _LEFT_TO: left}),
            },
        )

    return _retried(cluster, name, change)


def ask_to_abort(cluster: Cluster, name: str, rollout: str, who: str) -> Record | None:
    """Request the undo of a node's roll-out; return its record, None where it is not in that roll-out.

    Raises UnreadableError where its record cannot be read, NotFoundError where the node is gone.
    """

    def change(node: ClusterNode) -> Record | None:
        record = read_record(node)
        if record is None or not record.belongs_to(rollout):
            return None
        cluster.patch_node(node, annotations={ABORT: who})
        return record

    return retried(lambda: change(cluster.node(name)), where=name)


def left_to(node: ClusterNode) -> str | None:
    """Return for whom a roll-out that has ended has left its cordon on the node, if it is so.

    It may have been removed since, and the cordon be another one, which is then not taken for a roll-out's.
    """
    return read_result(node).get(_LEFT_TO) if node.unschedulable and RECORD not in node.annotations else None


def left_cordoned(node: ClusterNode) -> str | None:
    """Return why an ended roll-out has left its cordon on the node, None where it has not."""
    other = left_to(node)
    return f"left cordoned, because another maintenance was in progress: {other}" if other else None


def read_result(node: ClusterNode) -> dict[str, str | None]:
    """Return the result of the last roll-out on a node: its "ending", "reason" and "runner".

    Empty where there is none, or none that can be read.
    """
    try:
        document = parse_json(node.annotations.get(RESULT, "{}"))
    except NotJsonError:  # not written by us
        return {}
    if not isinstance(document, dict):
        return {}
    return {name: value for name, value in document.items() if value is None or isinstance(value, str)}


def _require_record(node: ClusterNode, record: Record) -> None:
    found = read_record(node)
    if found is None and RESULT in node.annotations:  # the claim removed an older one
        raise OvertakenError("another process has ended the node's roll-out", where=node.name)
    if found is None:
        cordoned = ", which stays cordoned" if node.unschedulable else ""
        raise TakenError(f"the roll-out's record was removed from the node{cordoned}", where=node.name)
    if found.runner != record.runner:
        raise OvertakenError(f"{found.runner} has taken the node over", where=node.name)


def _retried(cluster: Cluster, name: str, change: Callable[[ClusterNode], ClusterNode]) -> ClusterNode:
    """Change a node in its current version, with retries: its kubelet writes to it, too."""
    return retried(lambda: change(cluster.node(name)), where=name)


def _dump(record: Record) -> str:
    ours = {name: getattr(record, name) for name in sorted(_FIELDS)}
    plain = {"offered": dict(record.offered), "labels": dict(record.labels)}
    document = {**record.others, _VERSION: VERSION, **ours, **plain}
    return json.dumps(document, separators=(",", ":"))
