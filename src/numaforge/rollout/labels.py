"""Labels that a plan gives to its Node: which to set, and how to restore them.

The Node keeps the value that a label had before a roll-out first set it, until that value is restored.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass

from pydantic import TypeAdapter

from numaforge.given import NotJsonError, parse_json
from numaforge.kubelet.admission.nvidia_resources import GPU_RESOURCE
from numaforge.roles.amd_partitions.config_manager import PROFILE_LABEL, STATE_LABEL
from numaforge.roles.device_plugin.labels import (
    CONFIG_LABEL,
    MIG_LABEL,
    OPERATOR_LABEL,
    OPERATOR_STATE_LABEL,
    STRATEGY_LABEL,
)
from numaforge.roles.rdma.manifests import POOLS_LABEL
from numaforge.rollout.cluster import ClusterNode

BEFORE = "numaforge.io/labels-before"
"""The Node annotation with the labels that numaforge has set, and their previous values."""

OF_GPUS = frozenset({CONFIG_LABEL, OPERATOR_LABEL, STRATEGY_LABEL})
"""The labels that decide what the device plugin advertises."""

OURS = OF_GPUS | {MIG_LABEL, POOLS_LABEL, PROFILE_LABEL}
"""Every label that a plan may have. A kubelet can write the annotation, and may name no other label by it."""

MANAGER_STATES = {OPERATOR_LABEL: OPERATOR_STATE_LABEL, PROFILE_LABEL: STATE_LABEL}
"""A GPU manager's state label, by the label that it obeys; a state from before a change means nothing."""

_OF_NFD = "nfd.node.kubernetes.io/feature-labels"  # the labels that node-feature-discovery sets and removes

Labels = Mapping[str, str | None]
"""Values by label; None removes one."""


@dataclass(frozen=True)
class SetLabel:
    """A label's value as set by numaforge, and its value before; None where there was no label."""

    value: str
    before: str | None


_SET_LABELS = TypeAdapter(dict[str, SetLabel])


def to_set(node: ClusterNode, wanted: Labels | None) -> dict[str, str | None]:
    """Return the changes that give a node these labels, and no others of ours.

    None changes nothing. Labels that node-feature-discovery sets are left to it: the proof waits until they
    are as wanted. A new configuration also removes the MIG manager's state of the earlier one.
    """
    others = node.annotations.get(_OF_NFD, "").split(",")
    changes = {
        name: value
        for name, value in {**retired(node, wanted), **(wanted or {})}.items()
        if node.labels.get(name) != value and name not in others
    }
    return _with_state(changes)


def retired(node: ClusterNode, wanted: Labels | None) -> dict[str, str | None]:
    """Return the previous values of labels that numaforge has set and that are no longer wanted.

    A label whose value has changed since belongs to another tool, and stays.
    """
    if wanted is None:
        return {}
    return {
        name: label.before
        for name, label in read_set(node).items()
        if name not in wanted and node.labels.get(name) == label.value
    }


def returned(node: ClusterNode, changed: Iterable[str], wanted: Labels) -> dict[str, str | None]:
    """Return the restored values of those `changed` labels that are no longer wanted."""
    known = read_set(node)
    names = (name for name in changed if name in known and name not in wanted)
    return {name: known[name].before for name in names if known[name].before is not None}


def follows(resource: str, labels: Collection[str]) -> bool:
    """Whether one of these labels decides how a resource is advertised."""
    return bool(GPU_RESOURCE.fullmatch(resource)) and not OF_GPUS.isdisjoint(labels)


def kept(node: ClusterNode, changes: Labels) -> dict[str, str | None]:
    """Return the values of these labels before the change, without those of the managers' states."""
    return {name: node.labels.get(name) for name in changes if name not in MANAGER_STATES.values()}


def to_put_back(node: ClusterNode, before: Labels) -> dict[str, str | None]:
    """Return the changes that restore a node's labels."""
    return _with_state({name: value for name, value in before.items() if node.labels.get(name) != value})


def read_set(node: ClusterNode) -> dict[str, SetLabel]:
    """Return the labels that numaforge has set on a node; empty where the annotation cannot be read."""
    try:
        document = parse_json(node.annotations.get(BEFORE, "{}"))
        found = _SET_LABELS.validate_json(json.dumps(document), strict=True)
    except (NotJsonError, ValueError):  # not written by us; pydantic's error is a ValueError
        return {}
    return {name: label for name, label in found.items() if name in OURS}


def noted(node: ClusterNode, changes: Labels) -> dict[str, str | None]:
    """Return the annotation that accompanies a change of labels.

    A restored label stays in it until the roll-out ends: the roll-out may be undone.
    """
    known = read_set(node)
    for name, value in changes.items():
        now, label = node.labels.get(name), known.get(name)
        before = label.before if label and label.value == now else now
        if name in OURS and value is not None and value != before:
            known[name] = SetLabel(value, before)
    return _annotation(node, known)


def settled(node: ClusterNode) -> dict[str, str | None]:
    """Return the annotation for after a roll-out: only labels that still have the values that we set."""
    known = read_set(node)
    return _annotation(
        node, {name: known[name] for name in known if node.labels.get(name) == known[name].value}
    )


def _annotation(node: ClusterNode, labels: Mapping[str, SetLabel]) -> dict[str, str | None]:
    said = {name: asdict(label) for name, label in sorted(labels.items())}
    text = json.dumps(said, separators=(",", ":")) if said else None
    return {} if node.annotations.get(BEFORE) == text else {BEFORE: text}


def _with_state(changes: dict[str, str | None]) -> dict[str, str | None]:
    return {**changes, **{state: None for label, state in MANAGER_STATES.items() if label in changes}}
