"""The command line: each error is one message and an exit code, and all output has a JSON twin.

What few runs need is imported where they need it: `--version` and `--help` answer at once.
"""

import codecs
import errno
import io
import os
import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import NoReturn, TextIO

import click

from numaforge import __version__
from numaforge.commands.options import COMPLETE, LazyGroup
from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.report.terminal import complain, echo_lines

COMMANDS = {
    "Look": ("topology", "draw", "capture", "diff", "audit", "measure"),
    "Plan": ("plan", "render", "convert"),
    "Change nodes": ("init", "doctor", "rehearse", "apply", "verify", "rollout"),
    "Ask without a node": ("kubelet", "admit", "fit", "cluster", "mig", "device-plugin", "rdma"),
    "Write for other tools": ("generate", "image", "completion"),
}
"""The commands of `--help` by heading; each is in the module of `numaforge.commands` with its name."""

PLUMBING = ("boot", "schema")
"""Commands for units and editors, which `--help` does not show."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BROKEN_PIPE = 141  # as a shell reports SIGPIPE
_ESCAPED = "numaforge.escaped"
_WRITTEN = ("-o", "--output", "--to")  # where - is standard output
_NAMED_BY = {"--machine": "a machine", "--host": "a host", "--deploy": "a deploy"}
_EMPTY_OPTION = re.compile(r"--[a-z-]+=")
_FAULT = 70  # EX_SOFTWARE of sysexits.h: a bug in numaforge, never an answer


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 yes, 1 the answer is no, 2 bad input."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; the one place where errors are printed."""
    _prepare_streams()
    try:
        result = _invoke(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code
    except NumaforgeError as error:
        return _complain(str(error), error.exit_code)
    except click.ClickException as error:
        try:
            _show(_located(error))
        except OSError:
            _discard(sys.stderr)
        return ExitCode.BAD_INPUT
    except (KeyboardInterrupt, click.Abort):  # click's own, at a question
        return _complain("interrupted", ExitCode.INTERRUPTED)
    except BrokenPipeError:  # the reader of our output closed it
        _discard(sys.stdout)
        return _BROKEN_PIPE
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
            _discard(sys.stdout)
        return _complain(_in_words(error), ExitCode.BAD_INPUT)
    except Exception as fault:
        return _of_fault(fault)
    return result if isinstance(result, int) else ExitCode.YES


def _of_fault(fault: Exception) -> int:
    """Report a bug in numaforge, or the interrupt that Python wrapped in an error during class creation."""
    if isinstance(fault.__cause__, KeyboardInterrupt):
        return _complain("interrupted", ExitCode.INTERRUPTED)
    if os.environ.get("NUMAFORGE_TRACEBACK"):
        raise fault
    return _complain(
        f"internal error: {type(fault).__name__}: {fault}\n"
        "  please report it with the snapshot; NUMAFORGE_TRACEBACK=1 shows where it happened",
        _FAULT,
    )


def _invoke(arguments: list[str]) -> object:
    """Run the command, or complete one for a shell."""
    if (instruction := os.environ.get(COMPLETE)) is not None:
        from numaforge.commands.completion import complete

        return complete(numaforge, instruction)
    _refuse(arguments)
    # Group.main() would handle a broken pipe and an interrupt itself.
    with numaforge.make_context("numaforge", arguments) as context:
        return numaforge.invoke(context)


def _prepare_streams() -> None:
    """Make any text printable: escape what an encoding lacks, and open /dev/null for a closed stream."""
    codecs.register_error(_ESCAPED, _escape)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            if stream is sys.__stdout__ and isinstance(stream.buffer, io.RawIOBase):
                # PYTHONUNBUFFERED: a short write would end unnoticed
                buffer = io.BufferedWriter(stream.detach())
                stream = sys.stdout = io.TextIOWrapper(buffer, stream.encoding, write_through=True)
            stream.reconfigure(errors=_ESCAPED)


def _located(error: click.ClickException) -> click.ClickException:
    """Return the error with a hint: which options take an argument, or that options follow the command."""
    if isinstance(error, click.NoSuchOption) and error.ctx and isinstance(error.ctx.command, click.Group):
        path, option = error.ctx.command_path, error.option_name
        hint = f"No such option {option!r}; options follow the command: {path} COMMAND {option}"
        return error if error.possibilities else click.UsageError(hint, ctx=error.ctx)
    if "unexpected extra argument" not in error.message or not isinstance(error, click.UsageError):
        return error
    offered = {name for parameter in error.ctx.command.params for name in parameter.opts} if error.ctx else {}
    hints = [f"{option} names {noun}" for option, noun in _NAMED_BY.items() if option in offered]
    return click.UsageError("; ".join([error.message, *hints]), ctx=error.ctx)


def _show(error: click.ClickException) -> None:
    """Print a click error as click does, wrapped to the width of the terminal."""
    shown = io.StringIO()
    error.show(shown)
    echo_lines(shown.getvalue().rstrip("\n").split("\n"), err=True)


def _escape(error: UnicodeError) -> tuple[str, int]:
    r"""Return characters as escapes such as `\u2026`, which JSON reads back and people can look up."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    import json  # for characters that the terminal lacks alone

    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def _discard(stream: TextIO) -> None:
    """Redirect standard output or error to /dev/null, so that flushing it at exit cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _complain(message: str, exit_code: int) -> int:
    try:
        complain(f"numaforge: {message}")
    except OSError:  # where standard error is full or gone, the exit code still says it
        _discard(sys.stderr)
    return exit_code


def _in_words(error: OSError | UnicodeDecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"a file is not UTF-8 text: {error.reason} at byte {error.start}"
    reason = error.strerror or str(error)
    where = error.filename or (error.errno in _FULL and "standard output")
    return f"{where}: {reason}" if where else reason


@click.group(
    cls=LazyGroup,
    package="numaforge.commands",
    groups=COMMANDS,
    hidden_names=PLUMBING,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def numaforge() -> None:
    """Turn a GPU server into a topology-aligned Kubernetes worker.

    MACHINE is a file saved by `numaforge capture`, the folder of a captured root, a ready machine such as
    dgx-h100, or a host; without one, every command looks at this machine.
    """


def _refuse(arguments: Sequence[str]) -> None:
    """Refuse an empty argument, and standard input for two files: the second would be empty."""
    for preceding, argument in pairwise(["numaforge", *arguments]):
        if not argument or _EMPTY_OPTION.fullmatch(argument):
            empty = repr(argument) if argument else f"what follows {preceding!r}"
            raise click.UsageError(f"{empty} is empty; is a variable of your shell unset?")
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    pairs = pairwise(["numaforge", *options])
    if sum(argument == "-" and preceding not in _WRITTEN for preceding, argument in pairs) > 1:
        raise click.UsageError("standard input (-) can be read only once: name a file for the other")
