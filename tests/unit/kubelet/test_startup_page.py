"""docs/check.md shows what `check` says today."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_is_current() -> None:
    text = (DOCS / "check.md").read_text()
    assert runpy.run_path(str(DOCS / "check_examples.py"))["page"](text) == text
