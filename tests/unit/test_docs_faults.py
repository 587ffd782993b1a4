"""The tables of docs/faults.md: every row has a test that exists, and no page for admins names one."""

import re

import pytest

from lab.paths import REPOSITORY

DOCS = REPOSITORY / "docs"
PAGE = (DOCS / "faults.md").read_text()
ROWS = [
    line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ") and "---" not in line
]
PROOFS = re.findall(r"`(tests/[\w/.]+)::(\w+)`", PAGE)
FOR_CONTRIBUTORS = {"add-a-role.md", "faults.md", "lab.md", "oracle.md"}


def test_every_row_names_the_outcome_and_its_test() -> None:
    rows = [row for row in ROWS if row[0] != "fault"]
    assert len(rows) >= 60
    assert [row[0] for row in rows if len(row) != 3 or not re.search(r"tests/|the same", row[2])] == []


@pytest.mark.parametrize(("file", "name"), PROOFS, ids=[name for _, name in PROOFS])
def test_every_cited_test_exists(file: str, name: str) -> None:
    assert re.search(rf"(def|class) {name}\b", (REPOSITORY / file).read_text())


def test_admin_pages_name_no_test_path() -> None:
    pages = [
        REPOSITORY / "README.md",
        *(page for page in DOCS.glob("*.md") if page.name not in FOR_CONTRIBUTORS),
    ]
    assert [page.name for page in pages if re.search(r"(?<![\w-])tests/\w", page.read_text())] == []
