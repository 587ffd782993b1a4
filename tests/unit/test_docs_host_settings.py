"""docs/host-settings.md names every key of `tuning` and `kernel`, and every row of the sets."""

from __future__ import annotations

import pytest

from docs.host_settings import PAGE, page
from numaforge.roles.kernel_cmdline.section import Kernel
from numaforge.roles.kernel_values.record import RECORD
from numaforge.roles.kernel_values.section import Tuning

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_table_of_sets_is_what_the_code_says():
    assert page(TEXT) == TEXT, "run: python -m docs.host_settings"


@pytest.mark.parametrize("key", sorted({*Tuning.model_fields, *Kernel.model_fields} - {"state"}))
def test_every_key_has_its_row(key):
    assert f"| `{key}" in TEXT


def test_the_record_is_where_it_is_said_to_be():
    assert RECORD in TEXT
