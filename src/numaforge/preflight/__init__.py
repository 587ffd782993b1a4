"""What a run needs before it changes anything: of this machine, of the cluster, of each host."""

from numaforge.preflight.checks import Check, errors

__all__ = ["Check", "errors"]
