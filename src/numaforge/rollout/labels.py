"""Labels that a plan gives to its Node: which are to be set, and how they are put back.

What a label was before a roll-out first set it stands on the Node from then on, until it is that again.
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
"""The annotation of a Node that says which labels numaforge has set, and what they were before."""

OF_GPUS = frozenset({CONFIG_LABEL, OPERATOR_LABEL, STRATEGY_LABEL})
"""By these labels the device plugin is told what to advertise."""

OURS = OF_GPUS | {MIG_LABEL, POOLS_LABEL, PROFILE_LABEL}
"""Every label that a plan may have. A kubelet can write the annotation, and may name no other label by it."""

MANAGER_STATES = {OPERATOR_LABEL: OPERATOR_STATE_LABEL, PROFILE_LABEL: STATE_LABEL}
"""By a label that a manager of GPUs obeys, the one that says how far it is: an old one says nothing."""

_OF_NFD = "nfd.node.kubernetes.io/feature-labels"  # the labels that node-feature-discovery sets and removes

Labels = Mapping[str, str | None]
"""Values by label; None removes one."""


@dataclass(frozen=True)
class SetLabel:
    """The value that numaforge has given to a label, and the one before that; None where there was none."""

    value: str
    before: str | None


_SET_LABELS = TypeAdapter(dict[str, SetLabel])


def to_set(node: ClusterNode, wanted: Labels | None) -> dict[str, str | None]:
    """Return what has to be changed for a node to have these labels, and none of ours beside them.

    None wants nothing, and leaves all as they are. Those that node-feature-discovery sets are left to it:
    the proof waits until they are as wanted. What the MIG manager said of an earlier configuration is removed
    with a new one.
    """
    others = node.annotations.get(_OF_NFD, "").split(",")
    changes = {
        name: value
        for name, value in {**retired(node, wanted), **(wanted or {})}.items()
        if node.labels.get(name) != value and name not in others
    }
    return _with_state(changes)


def retired(node: ClusterNode, wanted: Labels | None) -> dict[str, str | None]:
    """Return what those labels were before that numaforge has set and that are not wanted any more.

    One that has another value by now is another's, and stays.
    """
    if wanted is None:
        return {}
    return {
        name: label.before
        for name, label in read_set(node).items()
        if name not in wanted and node.labels.get(name) == label.value
    }


def returned(node: ClusterNode, changed: Iterable[str], wanted: Labels) -> dict[str, str | None]:
    """Return what those of the `changed` labels were put back to that are not wanted any more."""
    known = read_set(node)
    names = (name for name in changed if name in known and name not in wanted)
    return {name: known[name].before for name in names if known[name].before is not None}


def follows(resource: str, labels: Collection[str]) -> bool:
    """Say whether a resource is advertised as one of these labels says."""
    return bool(GPU_RESOURCE.fullmatch(resource)) and not OF_GPUS.isdisjoint(labels)


def kept(node: ClusterNode, changes: Labels) -> dict[str, str | None]:
    """Return what these labels are before they are changed."""
    return {name: node.labels.get(name) for name in changes if name not in MANAGER_STATES.values()}


def to_put_back(node: ClusterNode, before: Labels) -> dict[str, str | None]:
    """Return what has to be changed for a node to have the labels of before."""
    return _with_state({name: value for name, value in before.items() if node.labels.get(name) != value})


def read_set(node: ClusterNode) -> dict[str, SetLabel]:
    """Return the labels that numaforge has set on a node; none where the annotation cannot be read."""
    try:
        document = parse_json(node.annotations.get(BEFORE, "{}"))
        found = _SET_LABELS.validate_json(json.dumps(document), strict=True)
    except (NotJsonError, ValueError):  # not our words; pydantic's is a ValueError
        return {}
    return {name: label for name, label in found.items() if name in OURS}


def noted(node: ClusterNode, changes: Labels) -> dict[str, str | None]:
    """Return the annotation that goes with a change of labels.

    One that is put back stays in it until the roll-out ends: the roll-out may be undone.
    """
    known = read_set(node)
    for name, value in changes.items():
        now, label = node.labels.get(name), known.get(name)
        before = label.before if label and label.value == now else now
        if name in OURS and value is not None and value != before:
            known[name] = SetLabel(value, before)
    return _annotation(node, known)


def settled(node: ClusterNode) -> dict[str, str | None]:
    """Return the annotation once a roll-out has ended: of the labels that have the values which it gave."""
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
