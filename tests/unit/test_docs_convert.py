"""docs/convert.md has a row for each field."""

from __future__ import annotations

import json
import re

import pytest

from docs.convert_tables import PAGE, page
from numaforge.cli import run
from numaforge.planning.convert.forms import FORM_NAMES
from numaforge.planning.convert.rows import Fate

TEXT = PAGE.read_text(encoding="utf-8")
FILES = re.findall(r"^```yaml (\S+)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


@pytest.fixture
def files(tmp_path, monkeypatch):
    for name, text in FILES:
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)


def test_the_tables_are_current():
    assert page(TEXT) == TEXT


def test_every_kind_is_named():
    assert [kind for kind in FORM_NAMES if f"numaforge convert {kind} FILE" not in TEXT] == []


@pytest.mark.usefixtures("files")
def test_the_page_names_every_field_of_the_document_and_every_fate(capsys):
    run(["convert", "kubelet.yaml", "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    names = {*document, *document["notes"][0], *Fate}
    assert [name for name in sorted(names) if f"`{name}`" not in TEXT] == []
