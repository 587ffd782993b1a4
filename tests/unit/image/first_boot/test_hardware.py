"""The machines that an image was made for: which a node is, and what of it is not as expected."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from numaforge.image.first_boot.hardware import require_expected, written
from numaforge.lib.errors import HostError, NumaforgeError
from numaforge.machine.topology.model import NodeTopology
from tests.fixtures.machines import dgx_h100, lab_node

MIB = 2**20


def with_memory(machine: NodeTopology, moved: int) -> NodeTopology:
    first, *others = machine.numa_nodes
    return replace(
        machine, numa_nodes=(replace(first, memory_bytes=(first.memory_bytes or 0) + moved), *others)
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for machine, name in ((dgx_h100(), "dgx"), (lab_node(), "lab")):
        (tmp_path / f"{name}.json").write_text(written(machine))
    return tmp_path


IS_ONE: dict[str, tuple[NodeTopology, str]] = {
    "the machine itself": (dgx_h100(), "dgx"),
    "another of the image's machines": (lab_node(), "lab"),
    "its memory moved as it does from boot to boot": (with_memory(lab_node(), 60 * MIB), "lab"),
    "its memory moved by less than a 64th": (with_memory(dgx_h100(), -900 * MIB), "dgx"),
    "another host of the kind": (replace(dgx_h100(), hostname="gpu-17"), "dgx"),
    "another kernel": (replace(dgx_h100(), kernel="6.12.1"), "dgx"),
}


@pytest.mark.parametrize("case", IS_ONE)
def test_expected_machine_is_recognised_despite_small_differences(case: str, folder: Path) -> None:
    machine, name = IS_ONE[case]
    assert require_expected(machine, folder) == name


IS_NONE: dict[str, tuple[Callable[[NodeTopology], NodeTopology], str]] = {
    "a GPU is missing": (
        lambda machine: replace(machine, gpus=machine.gpus[1:]),
        "differs from dgx: GPU 0000:1b:00.0 (10de:2330) is missing",
    ),
    "a GPU is of another kind": (
        lambda machine: replace(machine, gpus=(replace(machine.gpus[0], device="2335"), *machine.gpus[1:])),
        "GPU 0000:1b:00.0 is 10de:2335, and not 10de:2330",
    ),
    "a GPU is at another place": (
        lambda machine: replace(
            machine, gpus=(replace(machine.gpus[0], pci_address="0000:1c:00.0"), *machine.gpus[1:])
        ),
        "GPU 0000:1c:00.0 (10de:2330) is too many",
    ),
    "half of a NUMA node's memory is missing": (
        lambda machine: with_memory(machine, -(machine.numa_nodes[0].memory_bytes or 0) // 2),
        "memory of NUMA node 0 is ",
    ),
    "a NUMA node is missing": (
        lambda machine: replace(machine, numa_nodes=machine.numa_nodes[:1]),
        "memory of NUMA node 1 (",
    ),
}


@pytest.mark.parametrize("case", IS_NONE)
def test_machine_with_other_hardware_is_refused(case: str, folder: Path) -> None:
    change, why = IS_NONE[case]
    with pytest.raises(HostError) as refused:
        require_expected(change(dgx_h100()), folder)
    assert why in str(refused.value)


def test_image_without_machines_accepts_any_machine(tmp_path: Path) -> None:
    assert require_expected(lab_node(), tmp_path) is None
    assert require_expected(lab_node(), tmp_path / "nowhere") is None


@pytest.mark.parametrize("text", ["", "[]", '{"CPUs": null}', "{"])
def test_invalid_machine_file_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(NumaforgeError, match=r"odd\.json"):
        require_expected(lab_node(), tmp_path)
