"""The program that forks runs of pyinfra, each as `numaforge.run.pyinfra_cli` has it."""

from numaforge.rollout.forks import serve
from numaforge.run import pyinfra_cli

if __name__ == "__main__":
    pyinfra_cli.prepare()
    serve(pyinfra_cli.run)
