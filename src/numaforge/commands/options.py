"""Options that many commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def output_option(*formats: str, more: str = "") -> Callable[[Command], Command]:
    """Offer `-o`; the first format is the default, and `more` is added to its help."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help=f"What to print{more}.",
    )
