"""docs/python.md names all of numaforge.api, and its examples run as they are printed."""

import re

import pytest

from lab.paths import REPOSITORY
from numaforge import api

TEXT = (REPOSITORY / "docs" / "python.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_page_has_examples():
    assert len(EXAMPLES) == 4


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_runs_as_printed(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done: dict[str, object] = {}
    exec(example, done)  # noqa: S102 (the document's own text)
    assert {"plan", "plans", "report"} & done.keys()


def test_pod_example_prints_the_documented_output(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (example,) = (each for each in EXAMPLES if "fit(" in each)
    exec(example, {})  # noqa: S102 (the document's own text)
    count, *answers = capsys.readouterr().out.splitlines()
    assert f"print(fit(machine, pod, plan=plan).configured.pods)  # {count} on" in example
    assert [answer.split()[0] for answer in answers] == ["True"] * int(count) + ["False"] * (8 - int(count))
    assert (tmp_path / "node.svg").read_text().startswith("<?xml")


def test_every_described_name_is_exported():
    described = re.findall(r"^\| (`.*?`) \|", TEXT, re.MULTILINE)
    names = {name for cell in described for name in re.findall(r"`(\w+)`", cell)}
    assert names
    assert names <= {*api.__all__}
