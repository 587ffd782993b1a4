"""`numaforge render --for`: plans as the settings of operating systems without a shell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from numaforge.commands.init import write_folder
from numaforge.commands.machine import Planning, answers_of, each_named, planned_machine
from numaforge.lib.errors import ExitCode
from numaforge.lib.quantity import counted
from numaforge.report.terminal import print_data, remark, show_json

if TYPE_CHECKING:
    from numaforge.machine.topology.model import NodeTopology
    from numaforge.planning.os_settings.kinds import System
    from numaforge.planning.plan import NodePlan

SYSTEMS = ("talos", "talos-documents", "bottlerocket")


@dataclass(frozen=True)
class _Planned:
    """A machine and its plan."""

    hostname: str
    machine: NodeTopology
    plan: NodePlan


def write_os_settings(
    system: System, sources: Sequence[str], planning: Planning, folder: str | None, output: str
) -> int:
    """Print or write the settings of each kind of machine; a machine that cannot be planned is named."""
    from numaforge.planning.os_settings.content import kubelet_of
    from numaforge.planning.os_settings.kinds import kinds_of

    def planned(source: str | None) -> _Planned:
        machine, plan = planned_machine(source, planning)
        kubelet_of(plan)
        return _Planned(plan.hostname, machine, plan)

    names = each_named(sources)
    code = ExitCode.YES
    if len(names) < 2:
        nodes = [planned(next(iter(names), None))]
    else:
        answers = answers_of(names, planned)
        nodes, code = [node for _, node in answers.read], answers.code
        for name, why in answers.failed.items():
            remark(f"{name}: {why}")
    kinds = kinds_of(system, [(node.hostname, node.machine, node.plan) for node in nodes])
    if folder is not None and kinds:
        write_folder(Path(folder), {name: text for kind in kinds for name, text in kind.files.items()})
        for kind in kinds:
            parts = counted(len(kind.left_out), "part")
            hosts = counted(len(kind.machines), "machine")
            remark(f"wrote {', '.join(kind.files)} for {hosts}: {parts} of the plan not expressed")
    elif output == "json":
        documents = [
            {
                "machines": kind.machines,
                "files": [{"name": name, "text": text} for name, text in kind.files.items()],
                "left_out": [row._asdict() for row in kind.left_out],
            }
            for kind in kinds
        ]
        show_json({"schema": 1, "for": system, "kinds": documents})
    else:
        files = {name: text for kind in kinds for name, text in kind.files.items()}
        only = len(files) == 1
        print_data("\n".join(text if only else f"==> {name}\n{text}" for name, text in files.items()))
    return code
