"""The MIG mode of GPUs, which some change at a boot only."""

from numaforge.roles.role import role

__all__ = ["mig_mode"]

mig_mode = role(__name__, "MIG", "mig")
