"""NCCL's topology file, read as NCCL's loader reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.planning.render import render_plan
from numaforge.roles.rdma.nccl_topology import of_hidden_switches, of_machine
from numaforge.roles.rdma.planned import HiddenSwitch
from tests.fixtures.machines import MACHINES, dgx_h100
from tests.fixtures.rdma_machines import dgx

# src/graph/xml.h and xml.cc of NCCL 2.30.
LONGEST, MOST_ATTRIBUTES = 254, 16
BELOW = {"": {"system"}, "system": {"cpu"}, "cpu": {"pci", "nic"}, "pci": {"pci", "gpu", "nic", "pcilink"}}
SPACE = " \n\r"


@dataclass
class Node:
    name: str
    attributes: dict[str, str]
    below: list[Node] = field(default_factory=list)


class LoadError(Exception):
    """What NCCL's loader would end with an error for."""


class Loader:
    """Reads a topology file a character at a time, by the rules of NCCL's own reader."""

    def __init__(self, text: str) -> None:
        self.rest = iter(text)

    def load(self) -> Node:
        top = Node("", {})
        self._below(top)
        (system,) = top.below
        if system.attributes.get("version") != "1":
            raise LoadError("wrong version")
        return system

    def _character(self) -> str:
        character = next(self.rest, None)
        if character is None:
            raise LoadError("unexpected end")
        return character

    def _token(self, *, value: bool) -> tuple[str, str, str]:
        """Return a name, the value after it, and the character that ended it."""
        text = ""
        while True:
            character = self._character()
            if character == "=":
                if not value:
                    raise LoadError(f"unexpected value of {text}")
                return text, *self._value()
            if character in " >/\n\r":
                return text, "", character
            text += character
            if len(text) > LONGEST:
                raise LoadError("name too long")

    def _value(self) -> tuple[str, str]:
        quote = self._character()
        if quote not in "\"'":
            raise LoadError("expected a quote")
        text = ""
        while (character := self._character()) != quote:
            text += character
        if len(text) > LONGEST:
            raise LoadError("value too long")
        return text, self._character()

    def _node(self) -> tuple[str, Node | None]:
        """Return "open", "close", "single" or "" at the end, and the node."""
        character = " "
        while character in SPACE:
            character = next(self.rest, "")
            if not character:
                return "", None
        if character != "<":
            raise LoadError(f"expected <, got {character!r}")
        name, _, last = self._token(value=False)
        if name.startswith("!--"):
            seen = last
            while not seen.endswith("-->"):
                seen += self._character()
            return self._node()
        if not name and last == "/":
            name, _, last = self._token(value=False)
            if last != ">":
                raise LoadError("trailing character in a closing tag")
            return "close", Node(name, {})
        attributes, last = self._attributes(last)
        kind = "open"
        if last == "/":
            kind = "single"
            _, _, last = self._token(value=False)
        if last != ">":
            raise LoadError(f"expected >, got {last!r}")
        return kind, Node(name, attributes)

    def _attributes(self, last: str) -> tuple[dict[str, str], str]:
        attributes: dict[str, str] = {}
        while last == " ":
            key, text, last = self._token(value=True)
            attributes[key] = text
        if len(attributes) > MOST_ATTRIBUTES:
            raise LoadError("too many attributes")
        return attributes, last

    def _below(self, head: Node) -> None:
        while True:
            kind, node = self._node()
            if node is None:
                if head.name:
                    raise LoadError(f"{head.name} does not end")
                return
            if kind == "close":
                if node.name != head.name:
                    raise LoadError(f"{head.name} ends as {node.name}")
                return
            if node.name not in BELOW.get(head.name, set()):
                raise LoadError(f"{node.name} below {head.name or 'nothing'}")
            head.below.append(node)
            if kind == "open":
                self._below(node)


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
    system = Loader(of_hidden_switches((switch, bare))).load()
    assert [cpu.attributes for cpu in system.below] == [{"numaid": "0"}, {"numaid": "1"}]
    assert [pci.attributes for pci in functions(system)] == [
        {"busid": "ffff:ff:01.0", "class": "0x060400"},
        {"busid": "0002:00:00.0", "class": "0x03"},
        {"busid": "0102:00:00.0", "class": "0x02"},
        {
            "busid": "ffff:ff:00.0",
            "class": "0x060400",
            "link_speed": "32.0 GT/s PCIe",
            "link_width": "16",
        },
        {"busid": "0001:00:00.0", "class": "0x03"},
        {"busid": "0101:00:00.0", "class": "0x02"},
    ]


def test_dgx_h100_topology_has_a_gpu_and_a_nic_below_each_switch() -> None:
    system = Loader(of_machine(dgx_h100())).load()
    switches = [pci for cpu in system.below for pci in cpu.below]
    assert [len(cpu.below) for cpu in system.below] == [4, 4]
    assert [sorted(pci.attributes["class"] for pci in switch.below) for switch in switches] == [
        ["0x02", "0x03"]
    ] * 8


@pytest.mark.parametrize("machine", [pytest.param(build(), id=name) for name, build in MACHINES.items()])
def test_nccl_loads_the_topology_of_every_machine(machine: NodeTopology) -> None:
    shown = {function.attributes["busid"] for function in functions(Loader(of_machine(machine)).load())}
    assert {gpu.pci_address for gpu in machine.gpus if gpu.pci_address in machine.pci_paths} <= shown


def test_topology_file_starts_with_a_comment_that_nccl_skips() -> None:
    switches = [{"devices": ["0000:1b:00.0", "0000:18:00.0"]}]
    profile = {"name": "a--b", "rdma": {"libraries": {"nccl_conf": True, "pcie_switches": switches}}}
    text = render_plan(plan_node(dgx(), load_profile(profile)))["/etc/numaforge/nccl-topology.xml"]
    assert text.startswith("<!-- Written by numaforge from the profile a- -b.")
    assert [pci.attributes["busid"] for pci in functions(Loader(text).load())] == [
        "ffff:ff:00.0",
        "0000:18:00.0",
        "0000:1b:00.0",
    ]


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
    with pytest.raises(LoadError):
        Loader(text).load()


def test_more_switches_than_bus_slots_are_refused() -> None:
    switches = [{"devices": [f"0000:{n:02x}:00.0", f"0001:{n:02x}:00.0"]} for n in range(33)]
    profile = load_profile({"rdma": {"libraries": {"pcie_switches": switches}}})
    with pytest.raises(PlanError, match="more than 32"):
        plan_node(dgx(), profile)
