"""NIC settings that are lost at a boot: queues, read requests, flow control."""

from numaforge.roles.role import role

__all__ = ["nics"]

nics = role(__name__, "rdma")
