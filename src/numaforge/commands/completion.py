"""`numaforge completion`: complete commands, options, profiles and files in a shell."""

import os

import click
from click.shell_completion import get_completion_class, shell_complete

from numaforge.commands.options import COMPLETE
from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.report.terminal import print_data

_PLACES = {
    "bash": "~/.local/share/bash-completion/completions/numaforge",
    "zsh": "a file named _numaforge in a folder of $fpath",
    "fish": "~/.config/fish/completions/numaforge.fish",
}


@click.command(epilog="\b\n" + "\n".join(f"{shell:6}{file}" for shell, file in _PLACES.items()))
@click.argument("shell", type=click.Choice([*_PLACES]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    Save it where the shell looks for such scripts:
    """
    context = click.get_current_context()
    source = get_completion_class(shell)
    if source is None:
        raise NumaforgeError(f"no completion is known for {shell}", remedy=f"choose {', '.join(_PLACES)}")
    text = source(context.find_root().command, {}, "numaforge", COMPLETE).source()
    print_data(f"{text}\n")


def complete(program: click.Command, instruction: str) -> int:
    """Print completions for the words in the shell script's variables; return the exit code."""
    if instruction.endswith("_complete") and not os.environ.keys() >= {"COMP_WORDS", "COMP_CWORD"}:
        raise NumaforgeError(
            "there are no words to complete: COMP_WORDS and COMP_CWORD are not set",
            where=COMPLETE,
            remedy="leave it to the script that `numaforge completion` prints",
        )
    return ExitCode.NO if shell_complete(program, {}, "numaforge", COMPLETE, instruction) else ExitCode.YES
