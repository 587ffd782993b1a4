"""The kubelet's settings: a drop-in, or merged into its own file, and the drop-ins of its unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import yaml

from numaforge.kubelet.checkpoints import MEMORY_STATE_FILE
from numaforge.lib.errors import KubeletConfigError
from numaforge.lib.file_content import PROGRAMS, FileContent, PlannedFile
from numaforge.lib.kubelet_paths import DROP_IN_NAME
from numaforge.lib.shell import library
from numaforge.machine.snapshot.catalogue import NUMA
from numaforge.machine.topology.model import NodeTopology
from numaforge.roles.kubelet.delivery import KIND, merge, without
from numaforge.roles.template import as_yaml, constant, header, program_values

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.roles.kubelet.plan import KubeletPlan

ARGUMENTS_PATH = "/run/numaforge/kubelet-arguments"
"""The variable that has --config-dir in addition, for one start of the kubelet."""
ARGUMENTS_SCRIPT_PATH = f"{PROGRAMS}/kubelet-arguments.sh"
MEMORY_STATE_SCRIPT_PATH = f"{PROGRAMS}/memory-state.sh"

_ARGUMENTS_MODE = "0660"  # as MicroK8s installs them


def text_without_retired(plan: NodePlan, config_text: str) -> str | None:
    """Return the main config file without what an earlier plan merged into it; None where it has none."""
    if plan.kubelet is None or not plan.kubelet.retired:
        return None
    config = _config(config_text)
    remaining = without(config, plan.kubelet.retired)
    return None if remaining == config else f"# {header(plan)}\n{as_yaml(remaining)}"


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


def _memory_state_command(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    root = plan.kubelet.root_dir if plan.kubelet else ""
    arguments = (f"{root}/{MEMORY_STATE_FILE}", NUMA, "/run/numaforge-memory-state")
    # "-": the kubelet starts even if the script fails.
    return {"memory_state_command": f"-/bin/sh {MEMORY_STATE_SCRIPT_PATH} {' '.join(arguments)}"}


def _arguments_command(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    kubelet = plan.kubelet
    command = f"/bin/sh {ARGUMENTS_SCRIPT_PATH} {ARGUMENTS_PATH}"
    if kubelet is not None:
        command += f" {kubelet.variable} --config-dir={kubelet.config_dir}"
    return {"arguments_file": ARGUMENTS_PATH, "arguments_command": command}


TEMPLATES = {
    "kubelet/drop-in.conf.j2": constant(),
    "kubelet/unit.conf.j2": _arguments_command,
    "kubelet/arguments.sh.j2": program_values(lambda: library("roles/kubelet/arguments")),
    "kubelet/memory-state.conf.j2": _memory_state_command,
    "kubelet/memory-state.sh.j2": program_values(
        lambda: library("node/paths", "node/boot", "roles/kubelet/memory_state", "roles/kubelet/at_boot")
    ),
}


def memory_state_paths(kubelet: KubeletPlan) -> tuple[str, str]:
    """Return the script that puts the memory manager's state aside after a boot, and its unit drop-in."""
    return MEMORY_STATE_SCRIPT_PATH, f"{_unit_folder(kubelet)}/91-numaforge-memory-state.conf"


def _unit_drop_in(kubelet: KubeletPlan) -> str:
    return f"{_unit_folder(kubelet)}/{DROP_IN_NAME}"


def _unit_folder(kubelet: KubeletPlan) -> str:
    return f"/etc/systemd/system/{kubelet.unit}.d"


def files(plan: NodePlan) -> tuple[PlannedFile, ...]:
    """Return the files that give the kubelet its settings."""
    kubelet = plan.kubelet
    if kubelet is None:
        return ()
    if kubelet.delivery == "none":
        settings = []
    elif kubelet.drop_in is None:
        settings = [PlannedFile(kubelet.config_file, "kubelet", None)]
    else:
        # The CIS benchmark wants kubelet configuration readable only by root.
        settings = [PlannedFile(kubelet.drop_in, "kubelet", "kubelet/drop-in.conf.j2", mode="0600")]
    if kubelet.argument is not None:
        settings.append(PlannedFile(kubelet.edited_file, "kubelet", None, mode=_ARGUMENTS_MODE))
    if kubelet.variable is not None:
        settings.append(PlannedFile(ARGUMENTS_SCRIPT_PATH, "kubelet", "kubelet/arguments.sh.j2"))
    if kubelet.adds_config_dir:
        settings.append(PlannedFile(_unit_drop_in(kubelet), "kubelet", "kubelet/unit.conf.j2"))
    if kubelet.settings.get("memoryManagerPolicy") == "Static":
        script, drop_in = memory_state_paths(kubelet)
        settings += [
            PlannedFile(script, "kubelet", "kubelet/memory-state.sh.j2"),
            PlannedFile(drop_in, "kubelet", "kubelet/memory-state.conf.j2"),
        ]
    return tuple(settings)


def paths(plan: NodePlan, machine: NodeTopology) -> tuple[str, ...]:
    """Return the kubelet's files that are removed where it should no longer read them."""
    kubelet = plan.kubelet
    if kubelet is None:
        return ()
    settings = (kubelet.drop_in,) if kubelet.drop_in and kubelet.delivery == "none" else ()
    return (*memory_state_paths(kubelet), ARGUMENTS_SCRIPT_PATH, _unit_drop_in(kubelet), *settings)


def _other_arguments(kubelet: KubeletPlan, text: str | None) -> list[str]:
    """Return the lines of a file of arguments without those of an earlier run."""
    lines = (text or "").splitlines()
    ours = [line for line in lines if line.startswith("# Written by numaforge ")]
    return [line for line in lines if line not in (*ours, ours and f"--config-dir={kubelet.config_dir}")]


def text(plan: NodePlan, file: PlannedFile, config_text: str | None) -> str:
    """Return the host's own file with the plan's settings, or its argument, merged into it."""
    if plan.kubelet and plan.kubelet.argument:
        arguments = (*_other_arguments(plan.kubelet, config_text), plan.kubelet.argument)
        return "".join(f"{line}\n" for line in (f"# {header(plan)}", *arguments))
    return f"# {header(plan)}\n{as_yaml(_merged(plan, config_text))}"


def others(plan: NodePlan, config_text: str | None, _text_of: object) -> list[FileContent]:
    """Return the host's own file where an earlier plan's values, or its argument, must be removed."""
    planned = plan.kubelet
    if not planned or not config_text or planned.edited_file in [file.path for file in files(plan)]:
        return []
    if planned.arguments_file:
        others = _other_arguments(planned, config_text)
        if others == config_text.splitlines():
            return []
        return [FileContent(planned.arguments_file, "".join(f"{line}\n" for line in others), _ARGUMENTS_MODE)]
    remaining = text_without_retired(plan, config_text)
    return [] if remaining is None else [FileContent(planned.config_file, remaining)]
