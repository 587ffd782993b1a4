"""The parts of GPUs: what is shown of AMD's partitions, as they are and as planned, and of MIG."""

from dataclasses import replace
from itertools import pairwise

import pytest

from lab.paths import REPOSITORY
from numaforge.cli import run
from numaforge.lib.errors import ExitCode
from numaforge.machine.topology.model import Gpu, GpuInstance, GpuPartition
from numaforge.machine.topology.saved import ready_machine
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.report.boxes import Box
from numaforge.report.layout import lay_out
from numaforge.report.mig import geometry_section
from numaforge.report.slices import parts_of
from numaforge.report.tree import machine_tree
from numaforge.roles.mig.instance import MigGpu, MigInstance, MigPlan
from tests.fixtures.boxes import misplaced, of_kind, overflowing
from tests.fixtures.machines import GIB, dgx_h100, mi210, mi300x, mi300x_cpx_kfd
from tests.fixtures.terminal import printed


def instinct(compute: str | None, memory: str | None, **changes: object) -> Gpu:
    gpu = replace(mi300x().gpus[0], memory_bytes=192 * GIB)
    return replace(gpu, partition=GpuPartition(compute, memory), **changes)


def cut(gpu: Gpu, *instances: GpuInstance) -> Gpu:
    return replace(gpu, mig_mode="enabled", mig_capable=True, gpu_instances=instances)


PARTS = {
    "a-whole-GPU": (instinct("SPX", "NPS1"), "SPX NPS1", "whole", (1, 1)),
    "DPX-NPS2": (instinct("DPX", "NPS2"), "DPX NPS2", "2 partitions of 96 GiB", (2, 2)),
    "memory-not-divided": (instinct("QPX", "NPS1"), "QPX NPS1", "4 partitions of 48 GiB", (4, 1)),
    "two-partitions-share-a-part": (
        instinct("CPX", "NPS4"),
        "CPX NPS4",
        "8 partitions of 24 GiB, memory in 4 parts of 48 GiB",
        (8, 4),
    ),
    "6-dies": (instinct("CPX", "NPS1", device="74a0"), "CPX NPS1", "6 partitions of 32 GiB", (6, 1)),
    "memory-not-known": (instinct("CPX", "NPS1", memory_bytes=None), "CPX NPS1", "8 partitions", (8, 1)),
    "no-memory-mode": (instinct("TPX", None), "TPX", "3 partitions of 64 GiB", (3, 1)),
    "MIG-instances-in-place": (
        cut(
            dgx_h100().gpus[0],
            GpuInstance(2, 9, 4, 4),
            GpuInstance(7, 19, 0, 1),
            GpuInstance(8, 19, 1, 1),
        ),
        "MIG",
        "2 x 1g.10gb, 1 x 3g.40gb",
        (3,),
    ),
}


@pytest.mark.parametrize(("gpu", "modes", "words", "rows"), PARTS.values(), ids=PARTS)
def test_gpu_parts_are_listed_in_order_of_place(
    gpu: Gpu, modes: str, words: str, rows: tuple[int, ...]
) -> None:
    parts = parts_of(gpu)
    assert parts is not None
    assert (parts.modes, parts.words, tuple(len(row.parts) for row in parts.rows)) == (modes, words, rows)
    for row in parts.rows:
        assert all(0 <= part.start < part.start + part.size <= parts.units for part in row.parts)
        assert [part.start for part in row.parts] == sorted(part.start for part in row.parts)


WITHOUT_PARTS = {
    "modes-not-known": instinct(None, None),
    "dies-not-known": instinct("CPX", "NPS1", device="ffff"),
    "a-memory-mode-that-there-is-not": instinct("CPX", "NPS3"),
    "cannot-be-partitioned": mi210().gpus[0],
    "MIG-off": dgx_h100().gpus[0],
    "an-instance-beyond-the-GPU": cut(dgx_h100().gpus[0], GpuInstance(7, 19, 2**63, 1)),
}


@pytest.mark.parametrize("gpu", WITHOUT_PARTS.values(), ids=WITHOUT_PARTS)
def test_gpu_without_known_partitions_has_no_parts(gpu: Gpu) -> None:
    assert parts_of(gpu) is None


def drawn_parts(root: Box, kind: str) -> list[Box]:
    """Return the parts of a kind, without the legend's."""
    return [box for box in of_kind(root, kind) if "part" in box.kinds]


def test_picture_shows_memory_below_the_partitions() -> None:
    drawn = lay_out(mi300x_cpx_kfd()).root
    assert len(drawn_parts(drawn, "part-compute")) == 64
    assert len(drawn_parts(drawn, "part-memory")) == 32
    assert {text.content for box in of_kind(drawn, "part-memory") for text in box.texts} == {"48 GiB"}


def test_picture_of_a_plan_shows_current_and_planned_partitions() -> None:
    machine = mi300x()
    drawn = lay_out(machine, plan_node(machine, load_profile("mi300x-cpx"))).root
    words = {text.content for box in of_kind(drawn, "parts") for text in box.texts}
    assert words == {"now SPX NPS1: whole", "planned CPX NPS4: 8 x 24 GiB"}
    assert len(drawn_parts(drawn, "part-compute")) == 64
    assert (misplaced(drawn), overflowing(drawn)) == ([], [])


@pytest.mark.parametrize(
    ("name", "line"),
    [
        pytest.param(
            "mi300x-cpx", "`- CPX NPS4: 8 partitions of 24 GiB, memory in 4 parts of 48 GiB", id="partitions"
        ),
        pytest.param("mi300x", "`- SPX NPS1: whole", id="a-whole-GPU"),
        pytest.param("dgx-h100-mig", "`- MIG: 1 x 2g.20gb, 2 x 1g.10gb, 1 x 3g.40gb", id="MIG"),
    ],
)
def test_tree_lists_parts_below_their_gpu(name: str, line: str) -> None:
    lines = machine_tree(ready_machine(name)).splitlines()
    above = [gpu for gpu, below in pairwise(lines) if below.endswith(line)]
    assert above, lines
    assert "GPU0 " in above[0]


TITLE = """\
AMD partitions
0000:0b:00.0, 0000:23:00.0, 0000:3b:00.0, 0000:53:00.0, 0000:6b:00.0,
0000:83:00.0, 0000:9b:00.0, 0000:b3:00.0  CPX NPS4: 8 partitions of 24 GiB,
memory in 4 parts of 48 GiB
"""


def test_plan_shows_partitions_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    page = (REPOSITORY / "docs" / "amd.md").read_text(encoding="utf-8")
    shown = page.partition("```text\n")[2].partition("```")[0]
    assert run(["plan", "mi300x", "--profile", "mi300x-cpx", "--why"]) == ExitCode.YES
    said = "".join(f"{line.rstrip()}\n" for line in capsys.readouterr().out.splitlines())
    assert f"{TITLE}{shown}" in said


SEVEN = tuple(MigInstance("1g.10gb", 19, start, 1, (1,)) for start in range(7))
OF_H200 = tuple(replace(one, profile="1g.18gb") for one in SEVEN)


H200 = {"device": "2335", "name": "NVIDIA H200"}
GEOMETRIES = {
    "one model is not named": ({}, True, {"MIG enabled": 8}),
    "a GPU of another model is told apart": (
        H200,
        True,
        {"MIG enabled, H100 80GB HBM3": 7, "MIG enabled, H200": 1},
    ),
    "by its instances where the machine is not at hand": (
        H200,
        False,
        {"MIG enabled, 1g.10gb": 7, "MIG enabled, 1g.18gb": 1},
    ),
}


@pytest.mark.parametrize(("exchanged", "known", "titles"), GEOMETRIES.values(), ids=GEOMETRIES)
def test_planned_geometry_names_the_model_when_models_differ(
    exchanged: dict[str, str], known: bool, titles: dict[str, int]
) -> None:
    first, *others = dgx_h100().gpus
    machine = replace(dgx_h100(), gpus=(replace(first, **exchanged), *others))
    cuts = zip(machine.gpus, (OF_H200 if exchanged else SEVEN, *[SEVEN] * 7), strict=True)
    plan = MigPlan(tuple(MigGpu(gpu.pci_address, None, "enabled", cut) for gpu, cut in cuts))
    text = printed(geometry_section(plan, machine if known else None), width=400)
    found = (line.split("  ") for line in text.splitlines() if "MIG" in line)
    assert {title: len(addresses.split(", ")) for addresses, title in found} == titles


def test_gpu_table_shows_partition_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topology", "mi300x-cpx"]) == ExitCode.YES
    said = " ".join(capsys.readouterr().out.split())
    assert "Partitions: every GPU: 8 partitions of 24 GiB, memory in 4 parts of 48 GiB" in said


def test_rows_of_one_gpu_are_equally_long() -> None:
    parts = parts_of(instinct("CPX", "NPS4"))
    assert {sum(part.size for part in row.parts) for row in parts.rows} == {parts.units}
