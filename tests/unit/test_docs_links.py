"""docs/links.md shows a real answer, and explains every mark."""

import json
import re

import pytest

from lab.paths import REPOSITORY
from numaforge.cli import run
from numaforge.machine.topology.links import LEGEND
from numaforge.report.machine_wording import rdma_roles
from tests.fixtures.machines import hgx_b200
from tests.fixtures.rdma_hosts import CARD, PF, VF, rdma_device, rdma_host

PAGE = (REPOSITORY / "docs" / "links.md").read_text(encoding="utf-8")
ROLES = (
    rdma_device("mlx5_0", PF),
    rdma_device("mlx5_1", VF, physical_function=PF),
    rdma_device("mlx5_bond_0", CARD, bond="bond0", bond_interfaces=("ens1f0", "ens1f1")),
)


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")


def test_page_shows_real_rail_output(capsys):
    assert run(["topology", "hgx-a100"]) == 0
    answer = "".join(f"{line.rstrip()}\n" for line in capsys.readouterr().out.splitlines())
    (shown,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert answer.endswith(f"\n{shown}")


def test_the_page_explains_every_role():
    roles = set(re.findall(r"^\| `(.+?)` \|", PAGE.partition("## Rails")[2], re.MULTILINE))
    shown = rdma_roles(hgx_b200()) | rdma_roles(rdma_host(*ROLES))
    assert roles == set(shown.values())


def test_the_page_explains_every_mark():
    assert re.findall(r"^\| `(\S+)` \|", PAGE.partition("## Rails")[0], re.MULTILINE) == [
        *[mark for mark in LEGEND if mark != "X"],
        "?",
    ]


def test_link_matrix_json_contains_every_device(capsys):
    assert run(["topology", "--matrix", "hgx-a100", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document["links"]) == [device["name"] for device in document["devices"]]
    assert len(document["devices"]) == 18
