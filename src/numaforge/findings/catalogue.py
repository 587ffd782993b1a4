"""Findings whose words are data: a JSON file beside the checks has them by id."""

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from numaforge.findings.finding import Finding, Severity


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
