"""pyinfra's command line as numaforge starts it: `python -m numaforge.run ARGUMENTS`."""

import gc
import sys

if __name__ == "__main__":
    gc.set_threshold(200_000)  # as numaforge's own program: what imports make stays
    from numaforge.run.pyinfra_cli import run

    code = run()
    gc.freeze()
    sys.exit(code)
