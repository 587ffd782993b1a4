"""Which RDMA devices pods get together: the pools of the shared device plugin."""

from numaforge.roles.role import role

__all__ = ["rdma_pools"]

rdma_pools = role(__name__, "RDMA", "rdma")
