"""The MIG mode of GPUs that change it only at a boot."""

from numaforge.roles.role import role

__all__ = ["mig_mode"]

mig_mode = role(__name__, "mig")
