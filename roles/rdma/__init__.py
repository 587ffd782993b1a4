"""RDMA: settings of the host, pools for pods, settings of libraries."""

from numaforge.roles.role import role

__all__ = ["rdma"]

rdma = role(__name__)
