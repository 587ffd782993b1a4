"""pyinfra reads this first: a folder means its inventory.py, and a failed host does not stop the others."""

from numaforge.run.pyinfra_cli import adapt as _adapt

_adapt()
