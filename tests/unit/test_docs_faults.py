"""The tables of faults in docs/rollout.md and docs/maintenance.md: the tests that they name exist."""

import re

import pytest

from lab.paths import REPOSITORY

PAGE = (REPOSITORY / "docs" / "rollout.md").read_text()
TABLE = PAGE.partition("<!-- begin faults -->")[2].partition("<!-- end faults -->")[0]
ROWS = [line.strip("| ").split(" | ") for line in TABLE.strip().splitlines()[2:]]
MAINTENANCE = (REPOSITORY / "docs" / "maintenance.md").read_text()
PROOFS = re.findall(r"`(tests/[\w/.]+)::(\w+)`", TABLE + MAINTENANCE)


def test_every_row_says_what_happens_and_which_test_proves_it() -> None:
    assert len(ROWS) >= 20
    assert [row[0] for row in ROWS if len(row) != 3 or "::" not in row[2]] == []


@pytest.mark.parametrize(("file", "name"), PROOFS, ids=[name for _, name in PROOFS])
def test_the_test_exists(file: str, name: str) -> None:
    assert re.search(rf"(def|class) {name}\b", (REPOSITORY / file).read_text())
