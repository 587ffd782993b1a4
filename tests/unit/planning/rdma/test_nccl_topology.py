"""NCCL's topology file, read as NCCL's loader reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.render import render_plan
from numaforge.roles.rdma.nccl_topology import of_hidden_switches, of_machine
from numaforge.roles.rdma.planned import HiddenSwitch
from tests.fixtures.machines import MACHINES, dgx_h100
from tests.fixtures.plans import planned, refusal
from tests.fixtures.rdma_machines import dgx

# src/graph/xml.h and xml.cc of NCCL 2.30.
LONGEST, MOST_ATTRIBUTES = 254, 16
BELOW = {"": {"system"}, "system": {"cpu"}, "cpu": {"pci", "nic"}, "pci": {"pci", "gpu", "nic", "pcilink"}}


@dataclass
class Node:
    name: str
    attributes: dict[str, str]
    below: list[Node] = field(default_factory=list)


# A tag, with spaces as NCCL's own reader takes them: a declaration, a tab and text between tags are errors.
TAG = re.compile(r'[ \n\r]*(?:<!--.*?-->[ \n\r]*)*<(/?)(\w+)((?: \w+="[^"]*")*) ?(/?)>', re.DOTALL)


def load(text: str) -> Node:
    """Return the system of a topology file, by the rules of NCCL's loader."""
    top = Node("", {})
    heads, at = [top], 0
    while text[at:].strip(" \n\r"):
        tag = TAG.match(text, at)
        assert tag, f"NCCL cannot read {text[at : at + 40]!r}"
        closes, name, written, single = tag.groups()
        at = tag.end()
        if closes:
            assert heads.pop().name == name
            continue
        attributes = dict(re.findall(r'(\w+)="([^"]*)"', written))
        assert len(attributes) <= MOST_ATTRIBUTES
        assert all(len(word) <= LONGEST for word in (name, *attributes, *attributes.values()))
        assert name in BELOW.get(heads[-1].name, set())
        heads[-1].below.append(node := Node(name, attributes))
        heads += [] if single else [node]
    assert heads == [top]
    (system,) = top.below
    assert system.attributes["version"] == "1"
    return system


def functions(node: Node) -> Iterator[Node]:
    for below in node.below:
        if below.name == "pci":
            # NCCL asks for both, and takes what else is missing from sysfs (ncclTopoAddPci).
            assert {"busid", "class"} <= below.attributes.keys()
            yield below
        yield from functions(below)


def test_topology_of_a_virtual_machine_shows_the_switches_of_the_host() -> None:
    switch = HiddenSwitch("ffff:ff:00.0", 1, ("0001:00:00.0",), ("0101:00:00.0",), 32, 16)
    bare = HiddenSwitch("ffff:ff:01.0", 0, ("0002:00:00.0",), ("0102:00:00.0",))
    system = load(of_hidden_switches((switch, bare)))
    assert [cpu.attributes for cpu in system.below] == [{"numaid": "0"}, {"numaid": "1"}]
    link = {"link_speed": "32.0 GT/s PCIe", "link_width": "16"}
    assert [pci.attributes for pci in functions(system)] == [
        {"busid": "ffff:ff:01.0", "class": "0x060400"},
        {"busid": "0002:00:00.0", "class": "0x03"},
        {"busid": "0102:00:00.0", "class": "0x02"},
        {"busid": "ffff:ff:00.0", "class": "0x060400", **link},
        {"busid": "0001:00:00.0", "class": "0x03"},
        {"busid": "0101:00:00.0", "class": "0x02"},
    ]


def test_dgx_h100_topology_has_a_gpu_and_a_nic_below_each_switch() -> None:
    system = load(of_machine(dgx_h100()))
    switches = [pci for cpu in system.below for pci in cpu.below]
    assert [len(cpu.below) for cpu in system.below] == [4, 4]
    assert [sorted(pci.attributes["class"] for pci in switch.below) for switch in switches] == [
        ["0x02", "0x03"]
    ] * 8


@pytest.mark.parametrize("machine", [pytest.param(build(), id=name) for name, build in MACHINES.items()])
def test_nccl_loads_the_topology_of_every_machine(machine: NodeTopology) -> None:
    shown = {function.attributes["busid"] for function in functions(load(of_machine(machine)))}
    assert {gpu.pci_address for gpu in machine.gpus if gpu.pci_address in machine.pci_paths} <= shown


def test_topology_file_starts_with_a_comment_that_nccl_skips() -> None:
    libraries = {"nccl_conf": True, "pcie_switches": [{"devices": ["0000:1b:00.0", "0000:18:00.0"]}]}
    plan = planned(dgx(), name="a--b", rdma={"libraries": libraries})
    text = render_plan(plan)["/etc/numaforge/nccl-topology.xml"]
    assert text.startswith("<!-- Written by numaforge from the profile a- -b.")
    shown = [pci.attributes["busid"] for pci in functions(load(text))]
    assert shown == ["ffff:ff:00.0", "0000:18:00.0", "0000:1b:00.0"]


@pytest.mark.parametrize(
    "text",
    [
        '<?xml version="1.0"?><system version="1"></system>',
        '<system version="2"></system>',
        '<system version="1">\t<cpu numaid="0"/></system>',
        '<system version="1"><pci busid="0"/></system>',
    ],
    ids=["XML declaration", "another version", "tab", "function without a CPU"],
)
def test_test_loader_refuses_what_nccl_refuses(text: str) -> None:
    with pytest.raises(AssertionError):
        load(text)


def test_more_switches_than_bus_slots_are_refused() -> None:
    switches = [{"devices": [f"0000:{n:02x}:00.0", f"0001:{n:02x}:00.0"]} for n in range(33)]
    assert "more than 32" in refusal(dgx(), rdma={"libraries": {"pcie_switches": switches}})
