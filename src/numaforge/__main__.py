"""`python -m numaforge`: the command line, where its script is not on the PATH."""

from numaforge.cli import main

main()
