"""What the templates of roles are given, and how the text of a file is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import yaml

from numaforge.lib.file_content import PlannedFile

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan

Values = Callable[["NodePlan", PlannedFile], Mapping[str, Any]]
"""What a template gets besides the plan, the header and the file's path."""


class Lines(str):
    """A text of several lines for a template, such as a program; every other value is one line."""


def constant(**values: str) -> Values:
    """Return the values of a template that are the same for each plan."""
    return lambda _plan, _file: values


def program_values(source: Callable[[], str]) -> Values:
    """Return the values of a program that a boot runs: the same source that a part sends."""
    return lambda _plan, _file: {"program": Lines(source().rstrip("\n"))}


def header(plan: NodePlan) -> str:
    """Return the line that every written file begins with, as a comment."""
    return f"Written by numaforge from the profile {plan.profile}. Do not edit: change that and run again."


def xml_comment(plan: NodePlan) -> str:
    """Return the header as a comment of XML can hold it."""
    return header(plan).replace("--", "- -")  # which would end the comment


def as_yaml(value: Any) -> str:
    """Return YAML with sorted keys, the same for a plan read back from the host."""
    return Lines(yaml.safe_dump(plain(value), sort_keys=True, default_flow_style=False))


def plain(value: Any) -> Any:
    """Return a value as dictionaries and lists."""
    if isinstance(value, Mapping):
        return {key: plain(member) for key, member in value.items()}
    return [plain(member) for member in value] if isinstance(value, list | tuple) else value


def lines(text: str) -> list[str]:
    """Return the lines of a text without comments and empty ones."""
    return [line for line in text.splitlines() if line and not line.startswith("#")]
