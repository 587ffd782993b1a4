"""`topology --ascii`, and tables that fold what is many times the same."""

from dataclasses import replace

import pytest

from numaforge.cli import run
from numaforge.lib.errors import ExitCode
from numaforge.machine.topology.model import PciDevice
from numaforge.machine.topology.read import read_topology
from numaforge.machine.topology.saved import ready_machine, ready_machines
from numaforge.report.tree import machine_tree
from tests.machines.files import stored

EMPTY = "28 NUMA nodes of GPUs without memory: 3-9,11-17,19-25,27-33"
POD = (
    "metadata: {name: one}\nspec: {containers: [{name: main, resources: {limits: {cpu: 2, memory: 1Gi}}}]}\n"
)
RAILS = "extends: training\nrdma: {device_plugin: {per: rail}}\n"


def test_machine_tree_has_devices_below_their_switches() -> None:
    assert machine_tree(ready_machine("dgx-h100")).splitlines()[:6] == [
        "dgx-01: 2 TiB memory",
        "|- package 0: CPUs 0-55,112-167",
        "|  `- NUMA node 0: 1 TiB memory, CPUs 0-55,112-167",
        "|     |- L3 105 MiB: 56 cores, CPUs 0-55,112-167",
        "|     |- PCIe switch 0000:16:00.0",
        "|     |  |- GPU0 H100 80GB HBM3, Gen5 x16  0000:1b:00.0",
    ]


@pytest.mark.parametrize("name", ready_machines())
def test_machine_tree_is_ascii_and_has_every_device_once(name: str) -> None:
    machine, tree = ready_machine(name), machine_tree(ready_machine(name))
    assert tree.isascii()
    for device in (*machine.gpus, *machine.nics, *machine.nvmes, *machine.accelerators):
        assert tree.count(device.pci_address) == 1


def test_gpu_memory_names_its_gpu() -> None:
    tree = machine_tree(ready_machine("gb200"))
    assert "|- NUMA node 2: 186 GiB memory, no CPUs, that of GPU0\n" in tree
    assert tree.endswith(f"`- {EMPTY}\n")


@pytest.mark.parametrize(
    "command", [["topology"], ["plan", "--profile", "training"]], ids=["topology", "plan"]
)
def test_empty_numa_nodes_share_one_line(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "--machine", "gb200"]) == ExitCode.YES
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert EMPTY in lines
    rows = {line.split()[0] for line in lines if line and line.split()[0].isdigit()}
    assert {"2", "26"} <= rows
    assert "33" not in rows


def test_eight_rails_fit_terminal_width(tmp_path, monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "rails.yaml").write_text(RAILS)
    assert run(["fit", "pod.yaml", "--machine", "dgx-h100", "--profile", "rails.yaml"]) == ExitCode.YES
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    assert "…" not in said
    assert [line.split()[1:] for line in said.splitlines() if line.startswith("rdma/rail7")] == [
        ["-", "-", "63"]
    ]


@pytest.mark.parametrize(
    ("machine", "summary"),
    [
        pytest.param("dgx-h100", "dgx-01: 8 of 8 pairs unknown; ", id="unknown"),
        pytest.param("dgx-h100-acs", "dgx-01: 4 errors, 1 warning; ", id="known"),
        pytest.param("epyc-nps4", "epyc-01: nothing found; ", id="no pair"),
    ],
)
def test_summary_counts_unknown_pairs(machine: str, summary: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(["audit", "--only", "gpudirect", machine])
    assert capsys.readouterr().out.splitlines()[-1].startswith(summary)


def test_topology_view_of_several_machines_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topology", "--ascii", "dgx-h100", "gb200"]) == ExitCode.BAD_INPUT
    assert "--ascii are for one machine" in capsys.readouterr().err


DEVICES = (
    PciDevice("0000:00:17.0", "0106", "8086", "a282", "ahci", 0),
    PciDevice("0000:03:00.0", "0300", "1a03", "2000", "ast", None),
    PciDevice("0000:00:05.0", "ff00", "1af4", "1044", None, 0),
)


@pytest.mark.parametrize(
    ("machine", "line"),
    [
        pytest.param("nvidia-dgx-h100", "|- L2 1 MiB: 112 of them, CPUs 0-223", id="L2"),
        pytest.param("nvidia-dgx-h100", "|- L1d 32 KiB: 112 of them, CPUs 0-223", id="L1 for data"),
        pytest.param("nvidia-dgx-h100", "|- L1i 32 KiB: 112 of them, CPUs 0-223", id="L1 for instructions"),
    ],
)
def test_core_caches_are_shown_only_on_request(machine: str, line: str) -> None:
    topology = read_topology(stored(machine).snapshot())
    assert line not in machine_tree(topology).splitlines()
    assert line in machine_tree(topology, whole=True).splitlines()


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("SATA 8086:a282, ahci  0000:00:17.0", id="a class with a name"),
        pytest.param("VGA 1a03:2000, ast  0000:03:00.0", id="on no NUMA node that is known"),
        pytest.param("PCI class ff00 1af4:1044  0000:00:05.0", id="a class without a name, no driver"),
    ],
)
def test_other_devices_are_shown_by_class_only_on_request(words: str) -> None:
    machine = replace(ready_machine("epyc-nps4"), other_devices=DEVICES)
    assert words not in machine_tree(machine)
    assert words in machine_tree(machine, whole=True)


def test_all_without_the_ascii_tree_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topology", "dgx-h100", "--all"]) == ExitCode.BAD_INPUT
    assert "--all needs --ascii; -o json has everything" in capsys.readouterr().err
