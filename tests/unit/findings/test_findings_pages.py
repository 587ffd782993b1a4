"""The pages of findings have every rule, field and answer, and what they show is real."""

from __future__ import annotations

import json
import re

import pytest

from docs.rule_tables import AUDIT_PAGE, GPU_FINDINGS, GPUDIRECT_PAGE, PAGES, page
from numaforge.cli import run
from numaforge.findings.engine import Verdict
from numaforge.findings.gpudirect.pairs import Works
from numaforge.report.audit_documents import STATES

TEXTS = {path: path.read_text(encoding="utf-8") for path in PAGES}
WITH_ANSWERS = (GPU_FINDINGS, GPUDIRECT_PAGE, AUDIT_PAGE)
EXAMPLES = [
    pytest.param(*example, id=f"{path.name}: {example[0]}")
    for path in WITH_ANSWERS
    for example in re.findall(
        r"^```console\n\$ numaforge ([^\n]+)\n(.*?)^```$", TEXTS[path], re.DOTALL | re.MULTILINE
    )
]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_table_of_rules_is_current(path):
    assert page(path, TEXTS[path]) == TEXTS[path]


@pytest.mark.parametrize("path", WITH_ANSWERS, ids=lambda path: path.name)
def test_the_page_has_an_answer(path):
    assert any(path.name in str(example.id) for example in EXAMPLES)


@pytest.mark.parametrize(("command", "expected"), EXAMPLES)
def test_the_page_shows_the_real_answer(capsys, command, expected):
    assert run(command.split()) == 1
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    ("path", "command", "answers"),
    [
        pytest.param(GPU_FINDINGS, "gpus check hgx-h100-fabric", Verdict, id="gpu-findings.md"),
        pytest.param(GPUDIRECT_PAGE, "gpudirect dgx-h100-acs", Works, id="gpudirect.md"),
        pytest.param(AUDIT_PAGE, "audit dgx-h100 dgx-h100-busy", STATES, id="audit.md"),
    ],
)
def test_the_page_names_every_field_and_answer(capsys, path, command, answers):
    run([*command.split(), "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    rows = (value[0] for value in document.values() if isinstance(value, list) and value)
    names = {*document, *answers, *(name for row in rows for name in row)}
    assert [name for name in sorted(names) if f"`{name}`" not in TEXTS[path]] == []


def test_every_gpu_and_nic_is_in_the_matrix(capsys):
    run(["gpudirect", "dgx-h100-acs", "-v"])
    blocks = capsys.readouterr().out.split("\n\n")
    [matrix] = [block.splitlines() for block in blocks if "mlx5_0" in block.splitlines()[0]]
    assert len(matrix) == 9
    assert matrix[1].split()[:5] == ["GPU0", "PIX", "no", "NODE", "no"]


@pytest.mark.parametrize("columns", [80, 100, 200])
@pytest.mark.parametrize("machine", ["dgx-h100", "dgx-h100-acs", "gb200", "mi300x"])
def test_no_line_of_the_table_of_rails_is_wider_than_the_screen(monkeypatch, capsys, machine, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    run(["gpudirect", machine])
    table, reasons = capsys.readouterr().out.split("\n\n")[:2]
    assert max(map(len, table.splitlines())) <= columns
    if table.endswith("unknown"):
        assert reasons.startswith("GPU[0-")
        assert max(map(len, reasons.splitlines())) <= columns
