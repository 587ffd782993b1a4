"""CPUs that are taken offline."""

from numaforge.roles.role import role

__all__ = ["offline"]

offline = role(__name__, "Tuning", "tuning")
