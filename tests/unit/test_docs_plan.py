"""docs/read-a-plan.md names every field of a plan and every notice."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from numaforge.planning import model
from numaforge.roles.kernel_values.knobs import KNOBS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "read-a-plan.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "src" / "numaforge"
NOTICES = sorted(
    {
        name
        for file in PACKAGE.rglob("*.py")
        for name in re.findall(r"Notice\(\s*\"([^\"]+)\"", file.read_text())
    }
    | {knob.feature.id for knob in KNOBS if knob.feature}
)
PARTS = (
    model.NodePlan,
    model.CpuPlan,
    model.MemoryPlan,
    model.NumaNodePlan,
    model.TuningPlan,
    model.OfflinePlan,
    model.KernelPlan,
    model.InterruptsPlan,
    model.SystemPlan,
    model.ModulesPlan,
    model.RdmaHostPlan,
    model.NicSetting,
    model.RdmaGate,
    model.MigPlan,
    model.MigGpu,
    model.MigInstance,
    model.KubeletPlan,
    model.DevicePluginPlan,
    model.LibrariesPlan,
    model.GpuRail,
    model.HiddenSwitch,
    model.HostPlan,
    model.RdmaPlan,
    model.RdmaPool,
    model.AcsPlan,
    model.PlannedFile,
    model.PredictedAllocatable,
    model.LargestPod,
    model.Decision,
    model.Notice,
)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_every_field_is_explained(part):
    assert [field.name for field in fields(part) if f"`{field.name}`" not in PAGE] == []


@pytest.mark.parametrize("name", NOTICES)
def test_every_notice_is_explained(name):
    assert f"`{name}`" in PAGE


def test_no_notice_is_explained_that_does_not_exist():
    table = PAGE.partition("## Notices")[2].partition("## ")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`([^`]+)`", row)} == set(NOTICES)
