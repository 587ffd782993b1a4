"""docs/check.md shows what `check` says today, and its examples run as they are printed."""

import re
import runpy
from pathlib import Path

import pytest

from numaforge import cli

DOCS = Path(__file__).parents[3] / "docs"
TEXT = (DOCS / "check.md").read_text()
SCRIPT = runpy.run_path(str(DOCS / "check_examples.py"))
EXAMPLES = re.findall(r"^```yaml ([\d.]+)\n(.*?)```\n\n```text\n(.*?)\n```", TEXT, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("version", "config", "answer"), EXAMPLES, ids=[*SCRIPT["examples"](TEXT)])
def test_documented_examples_print_the_documented_output(
    version, config, answer, tmp_path, monkeypatch, capsys
):
    (tmp_path / "kubelet.yaml").write_text(config)
    monkeypatch.chdir(tmp_path)
    command, *_ = re.findall(
        r"^    numaforge (kubelet check kubelet\.yaml --machine small-vm --kubelet-version .*)$",
        TEXT,
        re.MULTILINE,
    )
    code = cli.run([*command.rpartition(" ")[0].split(), version])
    said = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out)
    assert said.rstrip("\n") == answer
    assert code == int("does not start" in answer)
