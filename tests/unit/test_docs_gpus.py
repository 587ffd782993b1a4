"""docs/gpus.md shows real answers, and names every field of a GPU that it speaks of."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace

import pytest

from lab.paths import REPOSITORY
from numaforge.cli import run
from numaforge.report.gpus import NOTES
from numaforge.topology import to_document
from numaforge.topology.model import (
    DeviceHolder,
    FabricState,
    Gpu,
    GpuInstance,
    GpuProcess,
    MigDevice,
    MigProfileOffer,
    NodeTopology,
    NvidiaDriver,
    RemappedRows,
)
from tests.fixtures.machines import dgx_h100

PAGE = (REPOSITORY / "docs" / "gpus.md").read_text(encoding="utf-8")
OFFERS = (MigProfileOffer(19, "1g.10gb", 1, 7, None, 1), MigProfileOffer(9, "3g.40gb", 3, 2, None, 4))
SLICED = {
    "mig_mode": "enabled",
    "mig_pending": "enabled",
    "mig_profiles": OFFERS,
    "gpu_instances": (*(GpuInstance(7 + n, 19, n, 1) for n in range(4)), GpuInstance(2, 9, 4, 4)),
}


def machine() -> NodeTopology:
    """Return the machine of the page: a DGX with instances, users, and a GPU that is lost."""
    whole = dgx_h100()
    gpus = [replace(gpu, index=index, minor=index) for index, gpu in enumerate(whole.gpus)]
    gpus[:2] = [replace(gpu, **SLICED) for gpu in gpus[:2]]
    gpus[0] = replace(gpus[0], mig_devices=(MigDevice(7, 0, "MIG-a"),))
    gpus[2] = replace(gpus[2], mig_pending="enabled", pids=(4711, 4712))
    lost = gpus[3]
    gpus[3] = Gpu(
        lost.pci_address, lost.vendor, lost.device, 0, link=lost.link, index=3, unanswered="GPU is lost"
    )
    gpus[4:] = [replace(gpu, fabric_state=FabricState("completed", "Success", ())) for gpu in gpus[4:]]
    gpus[4] = replace(gpus[4], remapped_rows=RemappedRows(0, 1, True, False))
    return replace(
        whole,
        gpus=tuple(gpus),
        nvidia=NvidiaDriver("580.95.05", "13.580.95.05", "13.0", "off"),
        gpu_processes={
            4711: GpuProcess("python3", pod="team-a/train-0"),
            4712: GpuProcess("nv-hostengine", unit="dcgm.service"),
        },
        device_holders=(DeviceHolder("MIG-a", "nvidia.com/mig-1g.10gb", "team-b/web-1", "main", True),),
    )


@pytest.fixture
def answer(tmp_path, monkeypatch, capsys):
    """Return what the page's command prints of the page's machine."""
    (tmp_path / "gpu-1.json").write_text(json.dumps(to_document(machine())))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    run(["topology", "gpu-1.json"])
    return "".join(f"{line.rstrip()}\n" for line in capsys.readouterr().out.splitlines())


def test_the_page_shows_the_real_answer(answer):
    (example,) = re.findall(
        r"^```console\n\$ numaforge topology gpu-1.json\n(.*?)^```$", PAGE, re.DOTALL | re.M
    )
    for shown in filter(None, example.split("...\n")):
        assert shown in answer


def test_the_page_explains_every_line():
    assert re.findall(r"^\| ([A-Z][\w ]+) \| ", PAGE, re.MULTILINE) == list(NOTES)


def test_the_page_names_fields_that_exist():
    known = {each.name for model in (Gpu, NodeTopology) for each in fields(model)}
    (table,) = re.findall(r"^\| field of a GPU .*?\n\n(.*?)\n", PAGE, re.DOTALL | re.MULTILINE)
    rows = re.findall(r"^\| (`[^|]+`) \|", PAGE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)} | set(
        re.findall(r"`(\w+)` \(", table)
    )
    assert named - known == set()
    assert len(named) > 20
