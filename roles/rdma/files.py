"""What RDMA needs of the host at every boot: limits, settings of NICs, and what the kubelet waits for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from numaforge.planning.files import NICS_PATH, NICS_SCRIPT_PATH, RDMA_GATE_SCRIPT_PATH
from numaforge.planning.model import NodePlan, PlannedFile
from numaforge.render.texts import Both, Template, lines, program, starts
from numaforge.shell import library


@cache
def _programs() -> dict[str, str]:
    """Return the shell that a boot runs, by path: of NICs the same that the part sends."""
    return {
        NICS_SCRIPT_PATH: library("roles/nics/values", "node/nics_at_boot").rstrip("\n"),
        RDMA_GATE_SCRIPT_PATH: library("node/rdma_gate").rstrip("\n"),
    }


def _program(_: NodePlan, file: PlannedFile) -> Mapping[str, Any]:
    return {"program": _programs()[file.path]}


def _read_program(_: NodePlan, file: PlannedFile, text: str) -> Both:
    return program(text), _programs()[file.path]


def _memlock(_plan: NodePlan, _file: PlannedFile, text: str) -> Both:
    return lines(text), ["[Service]", "LimitMEMLOCK=infinity"]


def _nics(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    return lines(text), [f"{each.nic} {each.name} {each.value}" for each in plan.rdma.host.nics]


def _nics_command(_plan: NodePlan, _file: PlannedFile) -> Mapping[str, Any]:
    return {"command": f"/bin/sh {NICS_SCRIPT_PATH} apply {NICS_PATH}"}


def _gate_command(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    gate = plan.rdma.host.gate
    wishes = [*gate.devices, *(f"{a}={n}" for a, n in sorted(gate.virtual_functions.items()))] if gate else []
    words = ("/bin/sh", RDMA_GATE_SCRIPT_PATH, str(gate.seconds if gate else 0), *wishes)
    return {"command": " ".join(words)}


TEMPLATES = {
    "rdma/memlock.conf.j2": Template(_memlock),
    "rdma/nics.j2": Template(_nics),
    "rdma/nics.sh.j2": Template(_read_program, _program),
    "rdma/gate.sh.j2": Template(_read_program, _program),
    "rdma/nics.service.j2": Template(
        lambda plan, file, text: (starts(text), [f"ExecStart={_nics_command(plan, file)['command']}"]),
        _nics_command,
    ),
    "rdma/gate.service.j2": Template(
        lambda plan, file, text: (starts(text), [f"ExecStart={_gate_command(plan, file)['command']}"]),
        _gate_command,
    ),
}
