"""Labels of a plan for its Node: which to set, and how to restore those from before the first roll-out."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

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

OF_GPUS = frozenset({CONFIG_LABEL, OPERATOR_LABEL, STRATEGY_LABEL})
"""The labels that decide what the device plugin advertises."""

OURS = OF_GPUS | {MIG_LABEL, POOLS_LABEL, PROFILE_LABEL}
"""Every label that a plan may have, and that a record may restore."""

MANAGER_STATES = {OPERATOR_LABEL: OPERATOR_STATE_LABEL, PROFILE_LABEL: STATE_LABEL}
"""A GPU manager's state label, by the label that it obeys; a state from before a change means nothing."""

WRITTEN = OURS | frozenset(MANAGER_STATES.values())  # every label of a Node that a roll-out may set or remove
_OF_NFD = "nfd.node.kubernetes.io/feature-labels"  # the labels that node-feature-discovery sets and removes

Labels = Mapping[str, str | None]
"""Values by label; None removes one."""


@dataclass(frozen=True)
class SetLabel:
    """A label's value as set by numaforge, and its value before; None where there was no label."""

    value: str
    before: str | None


SetLabels = Mapping[str, SetLabel]
"""The labels that numaforge has set on a node, by name."""


def to_set(node: ClusterNode, planned: Labels | None, set_labels: SetLabels) -> dict[str, str | None]:
    """Return the changes that give a node the planned labels, and no others of ours; None changes nothing.

    Labels that node-feature-discovery sets are left to it: the proof waits for them. A new configuration also
    removes the MIG manager's state of the earlier one.
    """
    of_nfd = node.annotations.get(_OF_NFD, "").split(",")
    changes = {
        name: value
        for name, value in {**retired(node, planned, set_labels), **(planned or {})}.items()
        if node.labels.get(name) != value and name not in of_nfd
    }
    return _with_state(changes)


def retired(node: ClusterNode, planned: Labels | None, set_labels: SetLabels) -> dict[str, str | None]:
    """Return the previous values of our labels that are no longer planned; changed ones belong to others."""
    if planned is None:
        return {}
    return {
        name: label.before
        for name, label in set_labels.items()
        if name not in planned and node.labels.get(name) == label.value
    }


def returned(set_labels: SetLabels, changed: Iterable[str], planned: Labels) -> dict[str, str | None]:
    """Return the restored values of those `changed` labels that are no longer wanted."""
    names = (name for name in changed if name in set_labels and name not in planned)
    return {name: set_labels[name].before for name in names if set_labels[name].before is not None}


def follows(resource: str, labels: Collection[str]) -> bool:
    """Whether one of these labels decides how a resource is advertised."""
    return bool(GPU_RESOURCE.fullmatch(resource)) and not OF_GPUS.isdisjoint(labels)


def kept(node: ClusterNode, changes: Labels) -> dict[str, str | None]:
    """Return the values of these labels before the change, without those of the managers' states."""
    return {name: node.labels.get(name) for name in changes if name not in MANAGER_STATES.values()}


def to_put_back(node: ClusterNode, previous: Labels) -> dict[str, str | None]:
    """Return the changes that restore a node's labels."""
    return _with_state({name: value for name, value in previous.items() if node.labels.get(name) != value})


def noted(node: ClusterNode, changes: Labels, set_labels: SetLabels) -> dict[str, SetLabel]:
    """Return our labels after these changes; restored ones stay: the roll-out may be undone."""
    following = dict(set_labels)
    for name, value in changes.items():
        current, label = node.labels.get(name), following.get(name)
        previous = label.before if label and label.value == current else current
        if name in OURS and value is not None and value != previous:
            following[name] = SetLabel(value, previous)
    return following


def settled(node: ClusterNode, set_labels: SetLabels) -> dict[str, SetLabel]:
    """Return the labels that numaforge has set and that still have its values, as after a roll-out."""
    return {name: label for name, label in set_labels.items() if node.labels.get(name) == label.value}


def _with_state(changes: dict[str, str | None]) -> dict[str, str | None]:
    return {**changes, **{state: None for label, state in MANAGER_STATES.items() if label in changes}}
