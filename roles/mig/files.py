"""MIG at a boot: the worker that the part mig sends, and its unit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from numaforge.planning.files import MIG_LIBRARY_PATH, MIG_WORKER_PATH
from numaforge.planning.model import PLAN_PATH, NodePlan, PlannedFile
from numaforge.render.texts import Both, Template, program, starts
from numaforge.resources import mig_worker
from numaforge.snapshot.nvml_library import library_source


@cache
def _programs() -> dict[str, str]:
    """Return what a boot runs, by path: the same sources that the part sends."""
    worker = mig_worker().read_text(encoding="utf-8")
    return {MIG_WORKER_PATH: worker.rstrip("\n"), MIG_LIBRARY_PATH: library_source(worker).rstrip("\n")}


def _program(_: NodePlan, file: PlannedFile) -> Mapping[str, Any]:
    return {"program": _programs()[file.path]}


def _paths(_plan: NodePlan, _file: PlannedFile) -> Mapping[str, Any]:
    return {"worker_path": MIG_WORKER_PATH, "plan_path": PLAN_PATH}


def _read_program(_: NodePlan, file: PlannedFile, text: str) -> Both:
    return program(text), _programs()[file.path]


def _read_unit(_plan: NodePlan, _file: PlannedFile, text: str) -> Both:
    return starts(text), [f"ExecStart=python3 -BEs {MIG_WORKER_PATH} boot {PLAN_PATH}"]


TEMPLATES = {
    "mig/mig.py.j2": Template(_read_program, _program),
    "mig/pynvml.py.j2": Template(_read_program, _program),
    "mig/mig.service.j2": Template(_read_unit, _paths),
}
