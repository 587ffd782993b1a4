"""Kernel values and huge pages: sysctl.d, tmpfiles.d, and the unit of a boot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numaforge.planning.kernel_paths import hugepage_counts, raised_values, tuning_values
from numaforge.planning.model import NodePlan, PlannedFile
from numaforge.render.texts import Both, Template, lines, starts, written_values


def _values(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    return {"kernel_values": tuning_values(plan.tuning), "raised_values": raised_values(plan.tuning)}


def _pools(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    return {"hugepage_pools": hugepage_counts(plan)}


def _sysctls(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    return lines(text), [f"{name} = {value}" for name, value in sorted(plan.tuning.sysctls.items())]


def _by_path(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    return written_values(text), tuning_values(plan.tuning)


def _unit(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    found = starts(text)
    raises = dict(line.split()[-2:] for line in found if line.startswith("ExecStart=-/bin/sh "))
    values, raised = tuning_values(plan.tuning), raised_values(plan.tuning)
    return (len(found), raises), (len(raised) + bool(values) + plan.tuning.swap_off, raised)


def _counts(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    return written_values(text), {path: str(pages) for path, pages in hugepage_counts(plan).items()}


TEMPLATES = {
    "tuning/sysctl.conf.j2": Template(_sysctls),
    "tuning/tmpfiles.conf.j2": Template(_by_path, _values),
    "tuning/tuning.service.j2": Template(_unit, _values),
    "hugepages/tmpfiles.conf.j2": Template(_counts, _pools),
}
