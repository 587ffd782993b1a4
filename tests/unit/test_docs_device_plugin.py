"""docs/device-plugin.md shows real answers, and names every finding and every label."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from numaforge.cli import run
from numaforge.roles.device_plugin import labels

PAGE = (REPOSITORY / "docs" / "device-plugin.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```console\n\$ numaforge ([^\n]+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
FILES = re.findall(r"^```yaml\n# (\S+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
CHECKS = REPOSITORY / "roles" / "device_plugin" / "checks.py"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the files that the page shows."""
    for name, text in FILES:
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("command", "expected"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_the_page_shows_the_real_answer(folder, capsys, command, expected):
    run(command.split())
    assert capsys.readouterr().out == expected


def test_the_page_names_every_finding():
    found = set(re.findall(r'^ +"([a-z]+(?:-[a-z]+)+)",$', CHECKS.read_text(), re.MULTILINE))
    assert len(found) >= 10
    assert [name for name in sorted(found) if f"`{name}`" not in PAGE] == []


def test_the_page_names_every_label():
    named = [value for name, value in vars(labels).items() if name.endswith("_LABEL")]
    assert [label for label in named if f"`{label}`" not in PAGE] == []
