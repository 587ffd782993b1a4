"""docs/mig.md shows real answers: each command on the page is run, and its output compared."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from lab.paths import REPOSITORY
from numaforge.cli import run
from numaforge.roles.mig.models import models

PAGE = (REPOSITORY / "docs" / "mig.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```console\n\$ numaforge ([^\n]+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
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


@pytest.mark.parametrize(("command", "expected"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_the_page_shows_the_real_answer(folder, capsys, command, expected):
    run(command.split())
    answer = "".join(f"{line.rstrip()}\n" for line in capsys.readouterr().out.splitlines())
    assert answer == expected


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_page_answers(folder, capsys, command):
    assert run(command.split()) in (0, 1)
    assert capsys.readouterr().out


def test_the_page_names_every_model():
    assert [model.key for model in models() if f"`{model.key}`" not in PAGE] == []


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
