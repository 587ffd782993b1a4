"""The kubelet's configuration; the kubelet restarts only where its effective settings change."""

from numaforge.roles.role import role

__all__ = ["kubelet"]

kubelet = role(__name__)
