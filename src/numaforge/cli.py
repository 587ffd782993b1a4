"""The command line: every error as one message and an exit code, and a JSON twin of everything it prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from numaforge import __version__
from numaforge.commands.admit import admit
from numaforge.commands.capture import capture
from numaforge.commands.check import check
from numaforge.commands.device_plugin import device_plugin
from numaforge.commands.draw import draw
from numaforge.commands.fit import fit
from numaforge.commands.gpus import gpus
from numaforge.commands.init import init
from numaforge.commands.mig import mig
from numaforge.commands.plan import plan
from numaforge.commands.rollout import rollout
from numaforge.commands.schema import schema
from numaforge.commands.topology import topology
from numaforge.commands.verify import verify
from numaforge.errors import ExitCode, NumaforgeError
from numaforge.report.terminal import plain

# A command imports what takes time when it runs: `--help` answers at once.
COMMANDS: tuple[click.Command, ...] = (
    init,
    capture,
    topology,
    plan,
    draw,
    check,
    admit,
    fit,
    gpus,
    mig,
    device_plugin,
    rollout,
    verify,
    schema,
)

_INTERRUPTED = 130  # as a shell reports SIGINT
_BROKEN_PIPE = 141  # as a shell reports SIGPIPE
_FAULT = 70  # EX_SOFTWARE of sysexits.h: a fault of numaforge itself, never an answer


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 yes, 1 the answer is no, 2 bad input."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; the one place where errors are printed."""
    try:
        # Group.main() would answer a broken pipe and an interrupt in its own way.
        given = list(sys.argv[1:] if arguments is None else arguments)
        with numaforge.make_context("numaforge", given) as context:
            result = numaforge.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code
    except NumaforgeError as error:
        return _complain(str(error), error.exit_code)
    except click.ClickException as error:
        error.show()
        return ExitCode.BAD_INPUT
    except KeyboardInterrupt:
        return _complain("interrupted", _INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output closed it; without this Python complains again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except (OSError, UnicodeDecodeError) as error:
        return _complain(_in_words(error), ExitCode.BAD_INPUT)
    except Exception as fault:
        if os.environ.get("NUMAFORGE_TRACEBACK"):
            raise
        return _complain(
            f"this is a fault of numaforge itself: {type(fault).__name__}: {fault}\n"
            "  please report it with the snapshot; NUMAFORGE_TRACEBACK=1 shows where it happened",
            _FAULT,
        )
    return result if isinstance(result, int) else ExitCode.YES


def _complain(message: str, exit_code: int) -> int:
    click.echo(f"numaforge: {plain(message)}", err=True)
    return exit_code


def _in_words(error: OSError | UnicodeDecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"a file is not UTF-8 text: {error.reason} at byte {error.start}"
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def numaforge() -> None:
    """Turn a GPU server into a topology-aligned Kubernetes worker.

    SNAPSHOT is a file saved by `numaforge capture`; without one, every command looks at this machine.
    """


for _command in COMMANDS:
    numaforge.add_command(_command)


if __name__ == "__main__":
    main()
