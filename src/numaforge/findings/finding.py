"""The common form of all findings."""

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any


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


class Catalogue:
    """The findings in a file by id: the texts of a Finding's fields, where `{name}` stands for a value."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @cached_property
    def rows(self) -> dict[str, dict[str, str]]:
        """The texts by id; the file is read at the first finding."""
        rows: dict[str, dict[str, str]] = json.loads(self._file.read_text(encoding="utf-8"))
        return rows

    def finding(self, rule: str, **values: Any) -> Finding:
        texts: dict[str, Any] = {field: text.format(**values) for field, text in self.rows[rule].items()}
        return Finding(rule, Severity(texts.pop("severity")), **texts)
