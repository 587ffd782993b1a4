"""docs/convert.md has a row for each field."""

from docs.convert_tables import PAGE
from numaforge.planning.convert.forms import FORM_NAMES

TEXT = PAGE.read_text(encoding="utf-8")


def test_every_convert_kind_is_documented():
    assert [kind for kind in FORM_NAMES if f"numaforge convert {kind} FILE" not in TEXT] == []
