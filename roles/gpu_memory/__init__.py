"""Who manages the memory of GPUs beside Grace and Vera after a boot."""

from numaforge.roles.role import role

__all__ = ["gpu_memory"]

gpu_memory = role(__name__, "GPU memory", "modules")
