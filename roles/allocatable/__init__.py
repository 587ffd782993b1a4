"""What the node will offer: its predicted Allocatable, and the largest pods."""

from numaforge.roles.role import role

__all__ = ["allocatable"]

allocatable = role(__name__, "Allocatable", goes_with=("kubelet",))
