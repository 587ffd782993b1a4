"""The program `numaforge`, and `python -m numaforge`: an interrupt prints one line, even during imports."""

import gc
import sys


def main() -> None:
    """Run the command line and exit."""
    gc.set_threshold(100_000)  # what imports make stays: looking through it again is a tenth of `plan`
    try:
        from numaforge.cli import main as run_command_line
    except KeyboardInterrupt:
        print("numaforge: interrupted", file=sys.stderr)
        sys.exit(130)
    run_command_line()


if __name__ == "__main__":
    main()
