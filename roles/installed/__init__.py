"""The kubelet that is there: its version, and what it is told already."""

from numaforge.roles.role import role

__all__ = ["installed"]

installed = role(__name__, "Installed")
