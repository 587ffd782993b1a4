"""AMD partitions: the compute and memory modes of Instinct GPUs, now and after every boot."""

from numaforge.roles.role import role

__all__ = ["amd_partitions"]

amd_partitions = role(__name__)
