"""RDMA: what the host needs, the pools for pods, what libraries are told."""

from numaforge.roles.role import role

__all__ = ["rdma"]

rdma = role(__name__, "RDMA")
