"""What deploys call tuning: the values of the running kernel, its command line, CPUs offline."""

from numaforge.roles.role import Called

__all__ = ["tuning"]

tuning = Called("tuning", "Tuning")
