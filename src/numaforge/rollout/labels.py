"""Labels that a plan gives to its Node: which are to be set, and how they are put back."""

from __future__ import annotations

from collections.abc import Mapping

from numaforge.planning.device_plugin.labels import OPERATOR_LABEL, OPERATOR_STATE_LABEL
from numaforge.rollout.cluster import ClusterNode

_OF_NFD = "nfd.node.kubernetes.io/feature-labels"  # the labels that node-feature-discovery sets and removes

Labels = Mapping[str, str | None]
"""Values by label; None removes one."""


def to_set(node: ClusterNode, wanted: Mapping[str, str]) -> dict[str, str | None]:
    """Return what has to be changed for a node to have these labels.

    Those that node-feature-discovery sets are left to it: the proof waits until they are as wanted. What the
    MIG manager said of an earlier configuration is removed with a new one.
    """
    others = node.annotations.get(_OF_NFD, "").split(",")
    changes: dict[str, str | None] = {
        name: value for name, value in wanted.items() if node.labels.get(name) != value and name not in others
    }
    return _with_state(changes)


def kept(node: ClusterNode, changes: Labels) -> dict[str, str | None]:
    """Return what these labels are before they are changed."""
    return {name: node.labels.get(name) for name in changes if name != OPERATOR_STATE_LABEL}


def to_put_back(node: ClusterNode, before: Labels) -> dict[str, str | None]:
    """Return what has to be changed for a node to have the labels of before."""
    return _with_state({name: value for name, value in before.items() if node.labels.get(name) != value})


def _with_state(changes: dict[str, str | None]) -> dict[str, str | None]:
    return {**changes, OPERATOR_STATE_LABEL: None} if OPERATOR_LABEL in changes else changes
