"""Reserved CPUs: whole cores that workloads never get, on every NUMA node that they use."""

from numaforge.roles.role import role

__all__ = ["cpus"]

cpus = role(__name__)
