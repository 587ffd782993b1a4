"""The result of one check before a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from numaforge.findings import Severity


@dataclass(frozen=True)
class Check:
    """The result for one thing that a run needs; `severity` is None where it suffices.

    With an error, the run cannot succeed; with a warning, it can. `remedy` says what to do.
    """

    name: str
    evidence: str
    severity: Severity | None = None
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.evidence}" + (f"; {self.remedy}" if self.remedy else "")


def errors(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return the checks with which a run cannot succeed."""
    return tuple(check for check in checks if check.severity is Severity.ERROR)
