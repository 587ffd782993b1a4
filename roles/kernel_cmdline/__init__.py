"""The kernel's command line, which only a boot changes."""

from numaforge.roles.role import role

__all__ = ["kernel_cmdline"]

kernel_cmdline = role(__name__, "tuning")
