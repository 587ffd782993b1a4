"""The kubelet's settings: a drop-in, or merged into its own file, and the drop-ins of its unit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from numaforge.errors import KubeletConfigError
from numaforge.kubelet.checkpoints import MEMORY_STATE_FILE
from numaforge.planning.files import MEMORY_STATE_SCRIPT_PATH
from numaforge.planning.model import NodePlan, PlannedFile
from numaforge.render.texts import Both, Template, as_yaml, header, lines, plain, program
from numaforge.roles.kubelet.delivery import KIND, merge, without
from numaforge.shell import library
from numaforge.snapshot.catalogue import NUMA


def merged_text(plan: NodePlan, config_text: str | None) -> str:
    """Return the main config file with the plan's settings in it."""
    return f"# {header(plan)}\n{as_yaml(_merged(plan, config_text))}"


def read_merged(plan: NodePlan, config_text: str | None, text: str) -> Both:
    """Return what the merged file says and what it is meant to."""
    return yaml.safe_load(text), plain(_merged(plan, config_text))


def text_without_retired(plan: NodePlan, config_text: str) -> str | None:
    """Return the main config file without what an earlier plan merged into it; None where it has none."""
    if plan.kubelet is None or not plan.kubelet.retired:
        return None
    config = _config(config_text)
    left = without(config, plan.kubelet.retired)
    return None if left == config else f"# {header(plan)}\n{as_yaml(left)}"


def _merged(plan: NodePlan, config_text: str | None) -> dict[str, Any]:
    config = _config(config_text)
    return merge(without(config, plan.kubelet.retired), plan.kubelet.settings) if plan.kubelet else config


def _config(text: str | None) -> dict[str, Any]:
    try:
        config = yaml.safe_load(text or "") or dict(KIND)
    except yaml.YAMLError as error:
        raise KubeletConfigError(f"is not YAML: {error}", remedy="repair the file and run again") from error
    if not isinstance(config, dict):
        raise KubeletConfigError("is not a mapping", remedy="repair the file and run again")
    return config


@cache
def _memory_state() -> str:
    return library("node/memory_state").rstrip("\n")


def _script(_plan: NodePlan, _file: PlannedFile) -> Mapping[str, Any]:
    return {"memory_state": _memory_state()}


def _command(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    root = plan.kubelet.root_dir if plan.kubelet else ""
    arguments = (f"{root}/{MEMORY_STATE_FILE}", NUMA, "/run/numaforge-memory-state")
    # Whatever becomes of it, the kubelet starts.
    return {"memory_state_command": f"-/bin/sh {MEMORY_STATE_SCRIPT_PATH} {' '.join(arguments)}"}


def _drop_in(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    settings = plain(plan.kubelet.settings) if plan.kubelet else {}
    return yaml.safe_load(text), {**KIND, **settings}


def _unit(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    started = plan.kubelet and plan.kubelet.exec_start
    return lines(text), ["[Service]", "ExecStart=", f"ExecStart={started}"]


def _unit_of_memory_state(plan: NodePlan, file: PlannedFile, text: str) -> Both:
    return lines(text), ["[Service]", f"ExecStartPre={_command(plan, file)['memory_state_command']}"]


def _read_script(_plan: NodePlan, _file: PlannedFile, text: str) -> Both:
    return program(text), _memory_state()


TEMPLATES = {
    "kubelet/drop-in.conf.j2": Template(_drop_in),
    "kubelet/unit.conf.j2": Template(_unit),
    "kubelet/memory-state.conf.j2": Template(_unit_of_memory_state, _command),
    "kubelet/memory-state.sh.j2": Template(_read_script, _script),
}
