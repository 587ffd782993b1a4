"""The kubelet's configuration, restarted only where that changes what it runs with."""

from numaforge.roles.role import role

__all__ = ["kubelet"]

kubelet = role(__name__, "Kubelet")
