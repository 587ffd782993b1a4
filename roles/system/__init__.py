"""The role that deploys call system: the CPUs of the system's own daemons."""

from numaforge.roles.role import Called

__all__ = ["system"]

system = Called("system", "System")
