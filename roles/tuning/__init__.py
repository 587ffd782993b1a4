"""The role that deploys call tuning: values of the running kernel, its command line, offline CPUs."""

from numaforge.roles.role import Called

__all__ = ["tuning"]

tuning = Called("tuning", "Tuning")
