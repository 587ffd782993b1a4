"""The labels that a roll-out sets on the Node."""

from numaforge.roles.role import role

__all__ = ["labels"]

labels = role(__name__, "Labels")
