"""What cluster.md shows is what `numaforge cluster explain` prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from lab.paths import REPOSITORY
from numaforge.cli import run

PAGE = (REPOSITORY / "docs/cluster.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```yaml (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
SHOWN = re.findall(r"^```console\n\$ numaforge ([^\n]*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("command", "answer"), SHOWN, ids=[command for command, _ in SHOWN])
def test_the_page_shows_what_the_command_prints(
    command: str, answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    run(shlex.split(command))
    assert capsys.readouterr().out == answer
