"""State files as kubelets wrote them: what another kubelet says of them, in both directions of an upgrade."""

import json
from typing import Any

import pytest

from numaforge.kubelet.admission.node import Node
from numaforge.kubelet.startup.check import check
from numaforge.lib.cpulist import format_cpulist
from tests.conformance.record_state_files import EDITS, FILE, KUBELETS, MACHINE, config_of, edited
from tests.fixtures.kubelet_texts import settings_of
from tests.oracle.machines import KINDS, described, topology

RECORDED: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))


def restarted(kubelet: str, files: dict[str, str]) -> str:
    """Return what `check` says that a kubelet dies with where it finds these files; empty where it starts."""
    report = check(
        config_of(kubelet),
        topology=topology(described(KINDS[MACHINE])),
        version=kubelet.split()[0],
        state_files=files,
        root_dir="/root",
    )
    return report.error or ""


@pytest.mark.parametrize(
    "restart", RECORDED["restarts"], ids=lambda each: f"{each['wrote']} to {each['starts']}"
)
def test_kubelet_reads_state_files_of_another_minor_as_recorded(restart: dict[str, str]) -> None:
    assert restarted(restart["starts"], RECORDED["files"][restart["wrote"]]) == restart["error"]


def test_every_pair_of_minors_is_recorded() -> None:
    recorded = {(each["wrote"], each["starts"]) for each in RECORDED["restarts"]}
    assert recorded == {(writer, reader) for writer in KUBELETS for reader in KUBELETS}
    assert {each["error"] == "" for each in RECORDED["restarts"]} == {True, False}


@pytest.mark.parametrize("name", EDITS)
def test_edited_state_files_of_1_37_are_judged_as_recorded(name: str) -> None:
    files = edited(RECORDED["files"]["1.37"], EDITS[name])
    assert restarted("1.37", files) == RECORDED["edits"][name]


@pytest.mark.parametrize("kubelet", KUBELETS)
def test_state_files_give_the_cpus_and_memory_of_pods(kubelet: str) -> None:
    config = settings_of(config_of(kubelet), version=kubelet.split()[0])
    machine = topology(described(KINDS[MACHINE]))
    node = Node(machine, config, {}, state=RECORDED["files"][kubelet], version=kubelet.split()[0])
    for pod in RECORDED["admitted"][kubelet]:
        for name, held in pod["containers"].items():
            assert node.cpu_manager
            assert node.memory_manager
            cpus = node.cpu_manager.assignments.get(pod["name"], {}).get(name, 0)
            assert format_cpulist(_bits(cpus)) == held.get("cpus", "")
            blocks = node.memory_manager.assignments.get(pod["name"], {}).get(name, ())
            assert sorted(map(str, blocks)) == held.get("memory", [])


def _bits(mask: int) -> frozenset[int]:
    return frozenset(bit for bit in range(mask.bit_length()) if mask >> bit & 1)
