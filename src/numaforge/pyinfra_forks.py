"""The program that forks runs of pyinfra, each as `numaforge.pyinfra_cli` has it."""

from __future__ import annotations

from numaforge import pyinfra_cli
from numaforge.rollout.forks import serve

if __name__ == "__main__":
    pyinfra_cli.prepare()
    serve(pyinfra_cli.run)
