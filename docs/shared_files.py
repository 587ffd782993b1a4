"""Write the man page and the completion of shells for wheels: `python -m docs.shared_files`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from numaforge import __version__
from numaforge.cli import numaforge
from numaforge.commands.completion import COMPLETE
from numaforge.commands.options import OF_EVERY_COMMAND

FOLDER = Path(__file__).parents[1] / "packaging/share"
COMPLETIONS = {
    "bash": "bash-completion/completions/numaforge",
    "fish": "fish/vendor_completions.d/numaforge.fish",
    "zsh": "zsh/site-functions/_numaforge",
}
_EXIT_CODES = (
    ("0", "yes"),
    ("1", "the answer is no"),
    ("2", "bad input"),
    ("3, 4, 5", "of a roll-out: blocked, rolled back, held for a person"),
    ("6", "hosts are unreachable, and nothing else is wrong"),
    ("70", "a bug in numaforge"),
    ("130", "interrupted"),
)
_FILES = (
    ("/etc/numaforge/plan.json", "on a node: the plan that it was brought to"),
    ("~/.ssh/config", "how hosts are reached, as by ssh"),
)


def texts() -> dict[str, str]:
    """Return each file below share/ by its path."""
    classes = {"bash": BashComplete, "fish": FishComplete, "zsh": ZshComplete}
    made = {"man/man1/numaforge.1": man_page()}
    for shell, path in COMPLETIONS.items():
        made[path] = f"{classes[shell](numaforge, {}, 'numaforge', COMPLETE).source()}\n"
    return made


def man_page() -> str:
    """Return the man page of the command line, with every command that `--help` lists."""
    context = click.Context(numaforge, info_name="numaforge")
    commands = [*_commands(numaforge, context)]
    title = numaforge.get_short_help_str(200).rstrip(".")
    first = commands[0][1]
    of_all = [option for option in _options(first) if _heading(option) == OF_EVERY_COMMAND]
    lines = [
        f'.TH NUMAFORGE 1 "" "numaforge {__version__}" "User commands"',
        ".SH NAME",
        f"numaforge \\- {_escaped(title[0].lower() + title[1:])}",
        ".SH SYNOPSIS",
        ".B numaforge",
        ".I COMMAND",
        "[OPTIONS] [ARGS]...",
        ".SH DESCRIPTION",
        *_paragraphs(numaforge.help or ""),
        ".SH OPTIONS",
        "Every command has these options:",
        *_rows(option.get_help_record(first) for option in of_all),
        ".SH COMMANDS",
    ]
    for command, its in commands:
        lines += [f'.SS "{_escaped(" ".join([its.command_path, *command.collect_usage_pieces(its)]))}"']
        lines += _paragraphs(command.help or "")
        own = [option for option in _options(its) if _heading(option) != OF_EVERY_COMMAND]
        lines += _rows(option.get_help_record(its) for option in own)
    lines += [".SH EXIT STATUS", *_rows(_EXIT_CODES), ".SH FILES", *_rows(_FILES)]
    lines += [".SH SEE ALSO", ".BR pyinfra (1),", ".BR kubectl (1),", ".BR ssh_config (5)"]
    return "\n".join(lines) + "\n"


def _commands(group: click.Group, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        its = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _commands(command, its)
        else:
            yield command, its


def _options(context: click.Context) -> list[click.Option]:
    return [
        option
        for option in context.command.get_params(context)
        if isinstance(option, click.Option) and not option.hidden
    ]


def _heading(option: click.Option) -> str:
    return getattr(option, "heading", OF_EVERY_COMMAND if "--help" in option.opts else "")


def _paragraphs(text: str) -> list[str]:
    r"""Return a command's help; a paragraph below \b keeps its lines."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.partition("\f")[0].strip()):
        kept = paragraph.lstrip().startswith("\b")
        content = [_escaped(line) for line in paragraph.replace("\b", "").strip("\n").splitlines()]
        lines += [".nf", *content, ".fi"] if kept else content
        lines.append(".PP")
    return lines[:-1]


def _rows(rows: Iterable[tuple[str, str] | None]) -> list[str]:
    lines = []
    for row in rows:
        if row is not None:
            lines += [".TP", f".B {_escaped(row[0])}", _escaped(row[1])]
    return lines


def _escaped(text: str) -> str:
    """Return a line of text as roff shows it."""
    text = text.strip().replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    for path, text in texts().items():
        (FOLDER / path).write_text(text, encoding="utf-8")
