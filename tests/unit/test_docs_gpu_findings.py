"""docs/gpu-findings.md names every rule and every field, and its answer is a real one."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from docs.rule_tables import GPU_FINDINGS as PAGE
from docs.rule_tables import page
from numaforge.cli import run
from numaforge.findings import Verdict
from numaforge.topology import to_document
from numaforge.topology.model import FabricState
from tests.fixtures.gpu_machines import KINDS

TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```console\n\$ numaforge ([^\n]+)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Save the page's machine: an HGX H100 of which two GPUs wait for their fabric."""
    sound = KINDS["hgx-h100"]()
    gpus = list(sound.gpus)
    waiting = FabricState("in-progress", None, ())
    gpus[1] = replace(gpus[1], fabric_state=waiting, persistence=False)
    gpus[3] = replace(gpus[3], fabric_state=waiting)
    document = to_document(replace(sound, gpus=tuple(gpus)))
    (tmp_path / "gpu-1.json").write_text(json.dumps(document))
    monkeypatch.chdir(tmp_path)


def test_the_table_of_rules_is_current():
    assert page(PAGE, TEXT) == TEXT


@pytest.mark.parametrize(("command", "expected"), EXAMPLES)
@pytest.mark.usefixtures("machine")
def test_the_page_shows_the_real_answer(capsys, command, expected):
    assert run(command.split()) == 1
    assert capsys.readouterr().out == expected


@pytest.mark.usefixtures("machine")
def test_the_page_names_every_field_and_verdict(capsys):
    run(["gpus", "check", "gpu-1.json", "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    names = {*document, *document["findings"][0], *document["rules"][0], *Verdict}
    assert [name for name in sorted(names) if f"`{name}`" not in TEXT] == []
