"""The common form of all findings."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """An error keeps the node from its work; a warning marks what works but should be changed."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Rule:
    """A kind of finding. `id` never changes its meaning; `title` is one clause."""

    id: str
    severity: Severity
    title: str


@dataclass(frozen=True)
class Finding:
    """One fault: `evidence` in one sentence, `remedy` the way out.

    `where` is a setting (`reservedMemory[0].limits.memory`), a flag (`--reserved-cpus`), a file or a device;
    `file` and `line` (from 1) locate a setting. `source` is the authority, `text` its own words where they
    are more than the evidence.
    """

    id: str
    severity: Severity
    evidence: str
    remedy: str
    where: str | None = None
    source: str | None = None
    text: str | None = None
    file: str | None = None
    line: int | None = None
