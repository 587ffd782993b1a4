"""What a kubelet reports of CPUs and memory once the plan is carried out, its devices apart."""

from numaforge.roles.role import role

__all__ = ["capacity"]

capacity = role(__name__, "Capacity")
