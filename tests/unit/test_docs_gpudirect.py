"""docs/gpudirect.md names every rule and every field, and its answers are real ones."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from docs.rule_tables import GPUDIRECT_PAGE as PAGE
from docs.rule_tables import page
from numaforge.cli import run
from numaforge.gpudirect.pairs import Works
from numaforge.topology import to_document
from numaforge.topology.model import AccessControl, NvidiaInstall, PciFunction, PciLink
from tests.fixtures.machines import GIB, dgx_h100

TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```console\n\$ numaforge ([^\n]+)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
REDIRECTING = ("0000:17:00.0", "0000:17:02.0", "0000:4e:00.0", "0000:4e:02.0")
X16 = PciLink(32.0, 16, 32.0, 16)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Save the page's machine: a DGX H100 of which two switches redirect, and one NIC has lost lanes."""
    dgx = dgx_h100()
    functions = {}
    for path in dgx.pci_paths.values():
        for depth, address in enumerate(path[1:], start=2):
            ends = address == path[-1]
            control = AccessControl(0x5F, 0x1D if address in REDIRECTING else 0)
            functions[address] = PciFunction(
                address,
                ("030200" if address in {gpu.pci_address for gpu in dgx.gpus} else "020700")
                if ends
                else "060400",
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
    document = to_document(
        replace(
            dgx, kernel="6.14.0", gpus=gpus, pci_functions=tuple(functions.values()), nvidia_install=install
        )
    )
    (tmp_path / "dgx-01.json").write_text(json.dumps(document))
    monkeypatch.chdir(tmp_path)


def test_the_table_of_rules_is_current():
    assert page(PAGE, TEXT) == TEXT


@pytest.mark.parametrize(("command", "expected"), EXAMPLES)
@pytest.mark.usefixtures("machine")
def test_the_page_shows_the_real_answer(capsys, command, expected):
    assert run(command.split()) == 1
    assert capsys.readouterr().out == expected


@pytest.mark.usefixtures("machine")
def test_the_page_names_every_field_and_answer(capsys):
    run(["gpudirect", "dgx-01.json", "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    names = {*document, *document["findings"][0], *document["rules"][0], *document["pairs"][0], *Works}
    assert [name for name in sorted(names) if f"`{name}`" not in TEXT] == []


@pytest.mark.usefixtures("machine")
def test_every_gpu_and_nic_is_in_the_matrix(capsys):
    run(["gpudirect", "dgx-01.json", "-v"])
    matrix = capsys.readouterr().out.split("\n\n")[1].splitlines()
    assert len(matrix) == 9
    assert matrix[1].split()[:5] == ["GPU0", "PIX", "no", "NODE", "no"]
