"""The stages of a roll-out: which changes come first, and which share a limit.

A change is made first where no pod runs: on nodes that are drained for it. Next come nodes whose pods stay,
then hosts that are no Node of the cluster, which no budget of the cluster protects. Control-plane nodes come
last: a failed change costs a worker's pods, but the whole cluster on a control-plane node.
"""

from enum import StrEnum


class Stage(StrEnum):
    """What a change requires of a host's pods, in the order of the stages."""

    DRAINED = "drained"  # pods leave the node: it takes a slot of the budget
    IN_PLACE = "in-place"  # a node of the cluster whose pods stay
    OUTSIDE = "outside"  # a host that is no Node of the cluster
    CONTROL_PLANE = "control-plane"  # a node of the control plane, drained or not: one at a time

    @property
    def turn(self) -> int:
        """The stage's place in the order."""
        return list(Stage).index(self)
