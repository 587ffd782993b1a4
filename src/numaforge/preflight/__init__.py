"""What a run needs before it changes anything: on this machine, from the cluster, on each host."""

from collections.abc import Iterable
from dataclasses import dataclass

from numaforge.findings import Severity


@dataclass(frozen=True)
class Check:
    """The result for a prerequisite; `severity` None: it is met. An error stops the run."""

    name: str
    evidence: str
    severity: Severity | None = None
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.evidence}" + (f"; {self.remedy}" if self.remedy else "")


def errors(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return the checks that stop a run."""
    return tuple(check for check in checks if check.severity is Severity.ERROR)
