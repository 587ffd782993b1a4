"""docs/links.md shows a real answer, and explains every mark."""

from __future__ import annotations

import json
import re

import pytest

from lab.paths import REPOSITORY
from numaforge.cli import run
from numaforge.topology import to_document
from numaforge.topology.links import LEGEND
from tests.fixtures.machines import hgx_a100

PAGE = (REPOSITORY / "docs" / "links.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```console\n\$ numaforge ([^\n]+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with the snapshot that the page names."""
    (tmp_path / "gpu-1.json").write_text(json.dumps(to_document(hgx_a100())))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


@pytest.mark.parametrize(("command", "expected"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_the_page_shows_the_real_answer(folder, capsys, command, expected):
    assert run(command.split()) == 0
    answer = "".join(f"{line.rstrip()}\n" for line in capsys.readouterr().out.splitlines())
    assert answer == expected


def test_the_page_explains_every_mark():
    assert re.findall(r"^\| `(\S+)` \|", PAGE, re.MULTILINE) == [
        *[mark for mark in LEGEND if mark != "X"],
        "?",
    ]


def test_the_data_is_json_with_every_device(folder, capsys):
    assert run(["topology", "--matrix", "gpu-1.json", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document["links"]) == [device["name"] for device in document["devices"]]
    assert len(document["devices"]) == 18
