"""How every role's texts are written and read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from numaforge.lib.file_content import PlannedFile

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan

Both = tuple[Any, Any]
"""The values in a text and in the plan, both as plain data."""


def _nothing(_plan: NodePlan, _file: PlannedFile) -> Mapping[str, Any]:
    return {}


class Template(NamedTuple):
    """A template's values besides the plan, and how its text is compared with the plan."""

    read_back: Callable[[NodePlan, PlannedFile, str], Both]
    values: Callable[[NodePlan, PlannedFile], Mapping[str, Any]] = _nothing


def program_template(source: Callable[[PlannedFile], str]) -> Template:
    """Return how a program is written that a boot runs: the header, and the same source that a part sends."""
    return Template(
        lambda _plan, file, text: (program(text), source(file).rstrip("\n")),
        lambda _plan, file: {"program": source(file).rstrip("\n")},
    )


def unit_template(command: Callable[[NodePlan], str], **values: str) -> Template:
    """Return how a unit is written that starts one program; `values` are others that its template takes."""
    return Template(
        lambda plan, _file, text: (starts(text), [f"ExecStart={command(plan)}"]),
        lambda plan, _file: {"command": command(plan), **values},
    )


def header(plan: NodePlan) -> str:
    """Return the line that every written file begins with, as a comment."""
    return f"Written by numaforge from the profile {plan.profile}. Do not edit: change that and run again."


def xml_comment(plan: NodePlan) -> str:
    """Return the header as a comment of XML can hold it."""
    return header(plan).replace("--", "- -")  # which would end the comment


def as_yaml(value: Any) -> str:
    """Return YAML with sorted keys, the same for a plan read back from the host."""
    text: str = yaml.safe_dump(plain(value), sort_keys=True, default_flow_style=False)
    return text


def plain(value: Any) -> Any:
    """Return a value as dictionaries and lists."""
    if isinstance(value, Mapping):
        return {key: plain(member) for key, member in value.items()}
    return [plain(member) for member in value] if isinstance(value, list | tuple) else value


def lines(text: str) -> list[str]:
    """Return the lines of a text without comments and empty ones."""
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def starts(text: str) -> list[str]:
    """Return the lines of a unit that start a program."""
    return [line for line in lines(text) if line.startswith("ExecStart=")]


def program(text: str) -> str:
    """Return the text after the header."""
    return text.split("\n", 1)[1].rstrip("\n")


def written_values(text: str) -> dict[str, str]:
    """Read tmpfiles.d(5) `w` lines back: path -> value."""
    values: dict[str, str] = {}
    for line in lines(text):
        match line.split(maxsplit=6):
            case ["w", path, "-", "-", "-", "-", value]:
                values[path] = value.replace("%%", "%")
    return values
