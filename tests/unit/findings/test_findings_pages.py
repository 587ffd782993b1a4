"""The pages of findings have every rule, field and answer, and what they show is real."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from docs.rule_tables import GPU_FINDINGS, GPUDIRECT_PAGE, PAGES, page
from numaforge.cli import run
from numaforge.findings.engine import Verdict
from numaforge.findings.gpudirect.pairs import Works
from numaforge.topology import to_document
from numaforge.topology.model import (
    AccessControl,
    FabricState,
    NodeTopology,
    NvidiaInstall,
    PciFunction,
    PciLink,
)
from tests.fixtures.gpu_machines import KINDS
from tests.fixtures.machines import GIB, dgx_h100

TEXTS = {path: path.read_text(encoding="utf-8") for path in PAGES}
WITH_ANSWERS = (GPU_FINDINGS, GPUDIRECT_PAGE)
EXAMPLES = [
    pytest.param(*example, id=f"{path.name}: {example[0]}")
    for path in WITH_ANSWERS
    for example in re.findall(
        r"^```console\n\$ numaforge ([^\n]+)\n(.*?)^```$", TEXTS[path], re.DOTALL | re.MULTILINE
    )
]
REDIRECTING = ("0000:17:00.0", "0000:17:02.0", "0000:4e:00.0", "0000:4e:02.0")
X16 = PciLink(32.0, 16, 32.0, 16)


def waiting_for_fabric() -> NodeTopology:
    """Return the machine of gpu-findings.md: an HGX H100 with two GPUs that wait for their fabric."""
    sound = KINDS["hgx-h100"]()
    gpus = list(sound.gpus)
    waiting = FabricState("in-progress", None, ())
    gpus[1] = replace(gpus[1], fabric_state=waiting, persistence=False)
    gpus[3] = replace(gpus[3], fabric_state=waiting)
    return replace(sound, gpus=tuple(gpus))


def redirecting() -> NodeTopology:
    """Return the machine of gpudirect.md: a DGX H100 with switches that redirect, a NIC with fewer lanes."""
    dgx = dgx_h100()
    functions = {}
    for path in dgx.pci_paths.values():
        for depth, address in enumerate(path[1:], start=2):
            ends = address == path[-1]
            control = AccessControl(0x5F, 0x1D if address in REDIRECTING else 0)
            kind = "030200" if address in {gpu.pci_address for gpu in dgx.gpus} else "020700"
            functions[address] = PciFunction(
                address,
                kind if ends else "060400",
                "15b3" if ends else "1000",
                "1021" if ends else "c030",
                link=replace(X16, width=8) if address == "0000:ce:00.0" else X16,
                access_control=AccessControl(None, None) if ends else control,
                address_translation=False,
                path=path[:depth],
            )
    gpus = tuple(
        replace(gpu, driver="nvidia", virtualization="none", bar1_bytes=128 * GIB) for gpu in dgx.gpus
    )
    install = NvidiaInstall(open_module=True, kernel_modules=("nvidia",))
    return replace(
        dgx, kernel="6.14.0", gpus=gpus, pci_functions=tuple(functions.values()), nvidia_install=install
    )


@pytest.fixture(autouse=True)
def machines_of_the_pages(tmp_path, monkeypatch):
    for name, machine in (("gpu-1", waiting_for_fabric()), ("dgx-01", redirecting())):
        (tmp_path / f"{name}.json").write_text(json.dumps(to_document(machine)))
    monkeypatch.chdir(tmp_path)


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
        pytest.param(GPU_FINDINGS, "gpus check gpu-1.json", Verdict, id="gpu-findings.md"),
        pytest.param(GPUDIRECT_PAGE, "gpudirect dgx-01.json", Works, id="gpudirect.md"),
    ],
)
def test_the_page_names_every_field_and_answer(capsys, path, command, answers):
    run([*command.split(), "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    rows = (value[0] for value in document.values() if isinstance(value, list))
    names = {*document, *answers, *(name for row in rows for name in row)}
    assert [name for name in sorted(names) if f"`{name}`" not in TEXTS[path]] == []


def test_every_gpu_and_nic_is_in_the_matrix(capsys):
    run(["gpudirect", "dgx-01.json", "-v"])
    matrix = capsys.readouterr().out.split("\n\n")[1].splitlines()
    assert len(matrix) == 9
    assert matrix[1].split()[:5] == ["GPU0", "PIX", "no", "NODE", "no"]
