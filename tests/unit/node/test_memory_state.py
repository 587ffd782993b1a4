"""The memory manager's state in a new boot: put aside where the kubelet would not start with it."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from numaforge.lib.shell import library
from tests.conformance.record_state_files import FILE

KIB = 1024
NODES = {0: 2_000_000, 1: 2_060_000}
"""MemTotal in KiB."""
PAGES = {2048: 64, 1_048_576: 0}
WRITTEN: dict[str, str] = {
    kubelet: files["memory_manager_state"]
    for kubelet, files in json.loads(FILE.read_text(encoding="utf-8"))["files"].items()
}
"""What kubelets have written."""
SHELLS = ("dash", "busybox sh", "bash --posix")


@dataclass(frozen=True)
class Machine:
    """A kubelet's state file, the kernel's NUMA nodes, and the mark of a boot."""

    folder: Path
    shell: str

    @property
    def state(self) -> Path:
        return self.folder / "memory_manager_state"

    @property
    def earlier(self) -> Path:
        return self.folder / "memory_manager_state.earlier-boot"

    def show(self, memory: dict[int, int]) -> None:
        """Have the kernel show NUMA nodes with so much memory, in KiB."""
        for node, kib in memory.items():
            folder = self.folder / f"node{node}"
            folder.mkdir(exist_ok=True)
            text = f"Node {node} MemTotal:       {kib} kB\nNode {node} MemFree:        1000 kB\n"
            (folder / "meminfo").write_text(text)
            for size, count in PAGES.items():
                pool = folder / "hugepages" / f"hugepages-{size}kB"
                pool.mkdir(parents=True, exist_ok=True)
                (pool / "nr_hugepages").write_text(f"{count}\n")

    def boot(self) -> None:
        """Have a boot forget that the script has run."""
        (self.folder / "once").unlink(missing_ok=True)

    def start(self) -> str:
        """Do what comes before a start of the kubelet; return what was said."""
        done = subprocess.run(
            [*self.shell.split(), "-s", str(self.state), str(self.folder), str(self.folder / "once")],
            input=library("node/paths", "node/boot", "roles/kubelet/memory_state", "roles/kubelet/at_boot"),
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == ""
        return done.stderr


def recorded(memory: dict[int, int]) -> str:
    """Return the state as a kubelet writes it (pkg/kubelet/cm/memorymanager/state)."""
    in_pages = sum(size * count for size, count in PAGES.items())

    def table(total: int, reserved: int) -> dict[str, int]:
        left = total - reserved
        return {"total": total, "systemReserved": reserved, "allocatable": left, "reserved": 0, "free": left}

    states = {
        str(node): {
            "numberOfAssignments": 0,
            "memoryMap": {
                **{f"hugepages-{size}": table(size * KIB * count, 0) for size, count in PAGES.items()},
                "memory": table((kib - in_pages) * KIB, 157_286_400),
            },
            "cells": [node],
        }
        for node, kib in memory.items()
    }
    document = {"policyName": "Static", "machineState": states, "checksum": 4029992649}
    return json.dumps(document, separators=(",", ":"))


@pytest.fixture(params=SHELLS)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    found = Machine(tmp_path, request.param)
    found.show(NODES)
    found.state.write_text(recorded(NODES))
    return found


def test_state_is_set_aside_when_a_boot_moves_memory_between_nodes(machine: Machine) -> None:
    text = machine.state.read_text()
    machine.show({0: NODES[0] + 44_000, 1: NODES[1] - 44_000})
    said = machine.start()
    assert said.startswith(f"NUMA node 0 has {(NODES[0] + 44_000 - 64 * 2048) * KIB} bytes in this boot")
    assert said.count("\n") == 1
    assert not machine.state.exists()
    assert machine.earlier.read_text() == text


@pytest.mark.parametrize("node", NODES)
def test_one_changed_numa_node_sets_the_state_aside(machine: Machine, node: int) -> None:
    machine.show({node: NODES[node] + 4})
    machine.start()
    assert machine.earlier.exists()


def test_state_is_set_aside_when_a_numa_node_is_gone(machine: Machine) -> None:
    (machine.folder / "node1" / "meminfo").unlink()
    assert machine.start().startswith("NUMA node 1 has no memory in this boot, ")
    assert machine.earlier.exists()


def test_state_is_kept_when_memory_is_unchanged(machine: Machine) -> None:
    text = machine.state.read_text()
    assert machine.start() == ""
    assert machine.state.read_text() == text
    assert not machine.earlier.exists()


@pytest.mark.parametrize("kubelet", WRITTEN)
def test_real_kubelet_state_files_are_read(machine: Machine, kubelet: str) -> None:
    """From 1.37 on the state is also a text in the file."""
    machine.state.write_text(WRITTEN[kubelet])
    nodes = json.loads(WRITTEN[kubelet])["machineState"]
    in_pages = sum(size * count for size, count in PAGES.items())
    kib = {int(node): each["memoryMap"]["memory"]["total"] // KIB + in_pages for node, each in nodes.items()}
    machine.show(kib)
    assert machine.start() == ""
    machine.boot()
    machine.show({0: kib[0] + 4})
    assert machine.start().startswith(f"NUMA node 0 has {(kib[0] + 4 - in_pages) * KIB} bytes in this boot")
    assert machine.earlier.read_text() == WRITTEN[kubelet]


def test_state_is_never_set_aside_within_a_boot(machine: Machine) -> None:
    machine.start()
    machine.show({0: NODES[0] + 44_000})
    assert machine.start() == ""
    assert machine.state.exists()
    machine.boot()
    machine.start()
    assert machine.earlier.exists()


def test_missing_state_prints_nothing(machine: Machine) -> None:
    machine.state.unlink()
    assert machine.start() == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user")
def test_nothing_is_set_aside_in_another_users_folder(machine: Machine) -> None:
    os.chown(machine.folder, 54321, 54321)
    machine.show({0: NODES[0] + 44_000})
    assert "another user could redirect it" in machine.start()
    assert machine.state.exists()
    assert not machine.earlier.exists()


def test_state_of_policy_none_is_kept(machine: Machine) -> None:
    machine.state.write_text('{"policyName":"None","machineState":{},"checksum":4236770233}')
    machine.show({0: NODES[0] + 44_000})
    assert machine.start() == ""
    assert machine.state.exists()
