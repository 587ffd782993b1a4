"""The program `numaforge`, and `python -m numaforge`: an interrupt prints one line, even during imports."""

import gc
import sys


def main() -> None:
    """Run the command line and exit."""
    gc.set_threshold(200_000)  # what imports make stays: looking through it again is a tenth of `plan`
    try:
        from numaforge.cli import run
    except KeyboardInterrupt:
        print("numaforge: interrupted", file=sys.stderr)
        sys.exit(130)
    code = run()
    gc.freeze()  # the interpreter would look through all of it three times before it ends
    sys.exit(code)


if __name__ == "__main__":
    main()
