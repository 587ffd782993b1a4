"""Text from hosts, kubelets and files as a terminal or a page may show it."""

import re


def plain(text: object) -> str:
    """Return a text without control characters, except newlines and tabs."""
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(
        char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in shown
    )


def in_one_line(text: object) -> str:
    """Return a text in one line: a newline within a name is replaced, indented lines are joined."""
    return re.sub(r"\n +|\t", " ", plain(text)).replace("\n", "\N{REPLACEMENT CHARACTER}")


_COMMAND = re.compile("`[^`]*`")
_JOINT = "\ue000"  # for private use: stands for a space at which no line ends


def with_whole_commands(text: str) -> str:
    """Return a text to be wrapped in which commands between backticks have no spaces; see `spaced`."""
    return _COMMAND.sub(lambda command: command[0].replace(" ", _JOINT), text)


def spaced(text: str) -> str:
    """Return a text of `with_whole_commands` with its spaces."""
    return text.replace(_JOINT, " ")
