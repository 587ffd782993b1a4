"""What a run needs before it changes anything: on this machine, from the cluster, on each host."""

from numaforge.preflight.checks import Check, errors

__all__ = ["Check", "errors"]
