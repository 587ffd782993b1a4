"""Every file of a plan as text: rendered from its template, then read back and compared with the plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from numaforge import kernel_paths
from numaforge.errors import KubeletConfigError, PlanError
from numaforge.kinds import once_per_kind
from numaforge.kubelet.checkpoints import MEMORY_STATE_FILE
from numaforge.node.bundle import FileContent
from numaforge.planning.document import dumps
from numaforge.planning.files import HUGEPAGES_TMPFILES_PATH, MEMORY_STATE_SCRIPT_PATH, MIG_WORKER_PATH
from numaforge.planning.model import PLAN_PATH, KubeletPlan, NodePlan, PlannedFile
from numaforge.resources import mig_worker, template_dir
from numaforge.shell import library
from numaforge.snapshot.catalogue import NUMA
from numaforge.snapshot.nvml_library import library_source

_KIND = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}


def header(plan: NodePlan) -> str:
    """Return the line that every written file begins with, as a comment."""
    return f"Written by numaforge from the profile {plan.profile}. Do not edit: change that and run again."


def render_plan(plan: NodePlan, config_text: str | None = None) -> dict[str, str]:
    """Return the text of every file of a plan, by path; `config_text` as for `render_file`."""
    return {file.path: render_file(plan, file, config_text) for file in plan.files}


def role_files(plan: NodePlan, role: str, config_text: str | None = None) -> list[FileContent]:
    """Return the files that one role writes, with mode and owner; `config_text` as for `render_file`."""
    return [
        FileContent(file.path, render_file(plan, file, config_text), file.mode, file.owner, file.group)
        for file in plan.files
        if file.role == role
    ]


def kubelet_files(plan: NodePlan, config_text: str | None) -> list[FileContent]:
    """Return the kubelet role's files, the main config file among them where something has to leave it."""
    files = role_files(plan, "kubelet", config_text)
    kubelet = plan.kubelet
    if (
        kubelet
        and kubelet.retired
        and config_text
        and kubelet.config_file not in [file.path for file in files]
    ):
        config = _config(config_text)
        left = without(config, kubelet.retired)
        if left != config:
            files.append(FileContent(kubelet.config_file, f"# {header(plan)}\n{_yaml(left)}"))
    return files


def hugepage_files(plan: NodePlan) -> tuple[list[FileContent], list[str]]:
    """Return the hugepages role's files, and the paths of its files that must not exist."""
    files = role_files(plan, "hugepages")
    return files, [] if files else [HUGEPAGES_TMPFILES_PATH]


def render_file(plan: NodePlan, planned_file: PlannedFile, config_text: str | None = None) -> str:
    """Return the text of one file, checked against the plan.

    `config_text` is the kubelet's main config file as it is now, for kubelets that take no drop-ins: there
    the settings are merged into it. Raises PlanError for a file that would not say what the plan says,
    KubeletConfigError for a main config file that cannot be read.
    """
    if planned_file.path == PLAN_PATH:
        return _plan_text(plan)
    return _rendered(_with_identity(plan, "", None), planned_file, config_text)


def _with_identity(plan: NodePlan, hostname: str, binary: str | None) -> NodePlan:
    """Return the plan for another machine of the same kind: no template says which one it is."""
    return replace(plan, hostname=hostname, kubelet=plan.kubelet and replace(plan.kubelet, binary=binary))


_HOSTNAME, _BINARY = "<hostname>", "<binary>"
_dumps = once_per_kind(dumps)


def _plan_text(plan: NodePlan) -> str:
    """Return what `dumps` does; only the identity is written for each machine."""
    binary = plan.kubelet and plan.kubelet.binary
    text = _dumps(_with_identity(plan, _HOSTNAME, _BINARY if binary is not None else None))
    for mark, identity in ((_HOSTNAME, plan.hostname), (_BINARY, binary)):
        text = text.replace(f'"{mark}"', json.dumps(identity, ensure_ascii=False))
    return text


@once_per_kind
def _rendered(plan: NodePlan, planned_file: PlannedFile, config_text: str | None) -> str:
    if planned_file.template is None:
        text = _merge(plan, config_text)
    else:
        text = (
            _environment()
            .get_template(planned_file.template)
            .render(
                plan=plan,
                header=header(plan),
                kernel_values=kernel_paths.tuning_values(plan.tuning),
                raised_values=kernel_paths.raised_values(plan.tuning),
                hugepage_pools=kernel_paths.hugepage_counts(plan),
                **(_mig_values() if planned_file.role == "mig" else {}),
                **(
                    _memory_state_values(plan.kubelet)
                    if planned_file.role == "kubelet" and plan.kubelet
                    else {}
                ),
            )
        )
    _check(plan, planned_file, text, config_text)
    return text


@cache
def _mig_values() -> dict[str, str]:
    """Return what the files of the role mig are made of: the same sources that the part mig sends."""
    worker = mig_worker().read_text(encoding="utf-8")
    return {
        "mig_worker": worker.rstrip("\n"),
        "mig_library": library_source(worker).rstrip("\n"),
        "worker_path": MIG_WORKER_PATH,
        "plan_path": PLAN_PATH,
    }


def _memory_state() -> str:
    return library("node/memory_state").rstrip("\n")


def _memory_state_values(kubelet: KubeletPlan) -> dict[str, str]:
    arguments = (f"{kubelet.root_dir}/{MEMORY_STATE_FILE}", NUMA, "/run/numaforge-memory-state")
    return {
        "memory_state": _memory_state(),
        # Whatever becomes of it, the kubelet starts.
        "memory_state_command": f"-/bin/sh {MEMORY_STATE_SCRIPT_PATH} {' '.join(arguments)}",
    }


def merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `patch` merged in as RFC 7396 does: mappings by key, everything else replaced."""
    merged = dict(base)
    for key, value in patch.items():
        old = merged.get(key)
        if isinstance(value, Mapping):
            merged[key] = merge(old if isinstance(old, Mapping) else {}, value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def without(base: Mapping[str, Any], retired: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` without the `retired` values that it still has; a mapping that this empties goes too."""
    left = dict(base)
    for key, value in retired.items():
        old = left.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            rest = without(old, value)
            if rest or rest == old:
                left[key] = rest
            else:
                del left[key]
        elif key in left and old == value:
            del left[key]
    return left


@cache
def _environment() -> Environment:
    environment = Environment(  # noqa: S701 (the output is configuration, not HTML; every value is checked)
        loader=FileSystemLoader(template_dir()),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["yaml"] = _yaml
    return environment


def _yaml(value: Any) -> str:
    # Sorted: a plan read back from the host, whose keys are, has to give the same text.
    text: str = yaml.safe_dump(_plain(value), sort_keys=True, default_flow_style=False)
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(member) for key, member in value.items()}
    return [_plain(member) for member in value] if isinstance(value, list | tuple) else value


def _merge(plan: NodePlan, config_text: str | None) -> str:
    return f"# {header(plan)}\n{_yaml(_merged(plan, config_text))}"


def _merged(plan: NodePlan, config_text: str | None) -> dict[str, Any]:
    config = _config(config_text)
    return merge(without(config, plan.kubelet.retired), plan.kubelet.settings) if plan.kubelet else config


def _config(text: str | None) -> dict[str, Any]:
    try:
        config = yaml.safe_load(text or "") or dict(_KIND)
    except yaml.YAMLError as error:
        raise KubeletConfigError(f"is not YAML: {error}", remedy="repair the file and run again") from error
    if not isinstance(config, dict):
        raise KubeletConfigError("is not a mapping", remedy="repair the file and run again")
    return config


# ---- reading back ----


def _check(plan: NodePlan, file: PlannedFile, text: str, config_text: str | None) -> None:
    odd = sorted({character for character in text if not (character.isprintable() or character in "\n\t")})
    if odd:
        raise _differs(file, f"holds the characters {odd}")
    if text.split("\n", 1)[0] != f"# {header(plan)}":
        raise _differs(file, "does not begin with the line that says who wrote it")
    said, meant = _said_and_meant(plan, file, text, config_text)
    if said != meant:
        raise _differs(file, f"says {said} where the plan says {meant}")


def _said_and_meant(plan: NodePlan, file: PlannedFile, text: str, config_text: str | None) -> tuple[Any, Any]:
    """Return what the text says and what the plan means, both as plain data."""
    settings = _plain(plan.kubelet.settings) if plan.kubelet else {}
    if file.template is None:
        return yaml.safe_load(text), _plain(_merged(plan, config_text))
    match file.template:
        case "kubelet/drop-in.conf.j2":
            return yaml.safe_load(text), {**_KIND, **settings}
        case "kubelet/unit.conf.j2" | "kubelet/memory-state.conf.j2":
            return _lines(text), _unit_lines(plan, file)
        case "tuning/sysctl.conf.j2":
            sysctls = sorted(plan.tuning.sysctls.items())
            return _lines(text), [f"{name} = {value}" for name, value in sysctls]
        case "tuning/tmpfiles.conf.j2":
            return _written_values(text), kernel_paths.tuning_values(plan.tuning)
        case "hugepages/tmpfiles.conf.j2":
            return _written_values(text), {
                path: str(pages) for path, pages in kernel_paths.hugepage_counts(plan).items()
            }
        case "tuning/tuning.service.j2":
            starts = [line for line in _lines(text) if line.startswith("ExecStart=")]
            raises = dict(line.split()[-2:] for line in starts if line.startswith("ExecStart=-/bin/sh "))
            values, raised = kernel_paths.tuning_values(plan.tuning), kernel_paths.raised_values(plan.tuning)
            return (len(starts), raises), (len(raised) + bool(values) + plan.tuning.swap_off, raised)
        case "mig/mig.py.j2" | "mig/pynvml.py.j2" | "kubelet/memory-state.sh.j2":
            return text.split("\n", 1)[1].rstrip("\n"), _program(file)
        case "mig/mig.service.j2":
            starts = [line for line in _lines(text) if line.startswith("ExecStart=")]
            return starts, [f"ExecStart=python3 -BEs {MIG_WORKER_PATH} boot {PLAN_PATH}"]
        case unknown:
            raise PlanError(f"there is no template {unknown!r}", where=file.path)


def _unit_lines(plan: NodePlan, file: PlannedFile) -> list[str]:
    if plan.kubelet is None:
        return []
    if file.template == "kubelet/memory-state.conf.j2":
        return ["[Service]", f"ExecStartPre={_memory_state_values(plan.kubelet)['memory_state_command']}"]
    return ["[Service]", "ExecStart=", f"ExecStart={plan.kubelet.exec_start}"]


def _program(file: PlannedFile) -> str:
    if file.path == MEMORY_STATE_SCRIPT_PATH:
        return _memory_state()
    return _mig_values()["mig_worker" if file.path == MIG_WORKER_PATH else "mig_library"]


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def _written_values(text: str) -> dict[str, str]:
    """Read tmpfiles.d(5) `w` lines back: path -> value."""
    values: dict[str, str] = {}
    for line in _lines(text):
        kind, path, *rest = line.split(maxsplit=6)
        if kind == "w" and rest[:4] == ["-"] * 4:
            values[path] = rest[4].replace("%%", "%")
    return values


def _differs(file: PlannedFile, what: str) -> PlanError:
    return PlanError(
        f"the rendered file {what}",
        where=file.path,
        remedy=f"the value or the template {file.template} is at fault",
    )
