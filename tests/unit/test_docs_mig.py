"""Each command in the table of docs/mig.md answers, and every field of its answer is explained there."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from lab.paths import REPOSITORY
from numaforge.cli import run

PAGE = (REPOSITORY / "docs" / "mig.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"\| `numaforge ([^`]+)` \|", PAGE)


(POD,) = re.findall(r"^```yaml\n# pod.yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with the files that the page names."""
    shutil.copy(REPOSITORY / "docs" / "mig-config.yaml", tmp_path)
    (tmp_path / "pod.yaml").write_text(POD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_page_answers(folder, capsys, command):
    assert run(command.split()) in (0, 1)
    assert capsys.readouterr().out


def keys(document: object) -> set[str]:
    """Return the keys of a document and of everything in it."""
    if isinstance(document, dict):
        return {*document, *(key for value in document.values() for key in keys(value))}
    if isinstance(document, list):
        return {key for value in document for key in keys(value)}
    return set()


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("mig ")])
def test_the_page_explains_every_field(folder, capsys, command):
    run([*command.split(), "-o", "json"])
    found = keys(json.loads(capsys.readouterr().out)) - {"schema"}
    assert [key for key in sorted(found) if f"`{key}`" not in PAGE] == []
