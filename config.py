"""pyinfra reads this first: a folder stands for its inventory.py, and a host that fails, fails alone."""

from numaforge.pyinfra_cli import adapt as _adapt

_adapt()
