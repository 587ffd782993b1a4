"""MIG: how the GPUs are cut, now and after each boot."""

from numaforge.roles.role import role

__all__ = ["mig"]

mig = role(__name__)
