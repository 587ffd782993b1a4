"""One thing that was looked at before a run, and whether the run can do with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from numaforge.findings import Severity


@dataclass(frozen=True)
class Check:
    """What was found of one thing that a run needs; `severity` is None where it will do.

    An error keeps the run from its end, a warning does not. `remedy` is the way out.
    """

    name: str
    found: str
    severity: Severity | None = None
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.found}" + (f"; {self.remedy}" if self.remedy else "")


def errors(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return the checks that keep a run from its end."""
    return tuple(check for check in checks if check.severity is Severity.ERROR)
