"""Every file of a plan as text: rendered from its template, then read back and compared with the plan.

A module for each concern has a table of its templates; what follows knows none by name.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from numaforge.errors import PlanError
from numaforge.file_content import FileContent
from numaforge.kinds import once_per_kind
from numaforge.planning.document import dumps
from numaforge.planning.files import HUGEPAGES_TMPFILES_PATH, LIBRARY_PATHS, MODPROBE_PATH, NCCL_CONF_PATH
from numaforge.planning.model import PLAN_PATH, HostPlan, MigPlan, NodePlan, PlannedFile, RdmaPlan
from numaforge.render import tuning
from numaforge.render.texts import Template, as_yaml, header, xml_comment
from numaforge.resources import template_dir
from numaforge.roles.host import files as host
from numaforge.roles.interrupts import files as interrupts
from numaforge.roles.kubelet import files as kubelet
from numaforge.roles.mig import files as mig
from numaforge.roles.modules import files as modules
from numaforge.roles.rdma import files as rdma
from numaforge.roles.rdma import library_files as libraries

__all__ = [
    "header",
    "hugepage_files",
    "kubelet_files",
    "library_files",
    "modprobe_text",
    "render_file",
    "render_plan",
    "role_files",
]

_TEMPLATES = {
    name: template
    for concern in (kubelet, tuning, mig, host, interrupts, modules, rdma, libraries)
    for name, template in concern.TEMPLATES.items()
}


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
    planned = plan.kubelet
    if planned and config_text and planned.config_file not in [file.path for file in files]:
        left = kubelet.text_without_retired(plan, config_text)
        if left is not None:
            files.append(FileContent(planned.config_file, left))
    return files


def hugepage_files(plan: NodePlan) -> tuple[list[FileContent], list[str]]:
    """Return the hugepages role's files, and the paths of its files that must not exist."""
    files = role_files(plan, "hugepages")
    return files, [] if files else [HUGEPAGES_TMPFILES_PATH]


def library_files(plan: NodePlan) -> tuple[list[FileContent], list[str]]:
    """Return the files that tell libraries of the rails, and the paths of such files that must not exist."""
    files = [file for file in role_files(plan, "rdma") if file.path in LIBRARY_PATHS]
    told = plan.rdma.libraries
    if not told.nccl_conf and told.admin_conf is not None:
        files.append(FileContent(NCCL_CONF_PATH, told.admin_conf))
    return files, [path for path in LIBRARY_PATHS if path not in [file.path for file in files]]


def modprobe_text(plan: NodePlan) -> str:
    """Return what modprobe is told by a plan that may not list it among its files."""
    return render_file(plan, PlannedFile(MODPROBE_PATH, "modules", "modules/modprobe.conf.j2"))


def render_file(plan: NodePlan, planned_file: PlannedFile, config_text: str | None = None) -> str:
    """Return the text of one file, checked against the plan.

    `config_text` is the kubelet's main config file as it is now, for kubelets that take no drop-ins: there
    the settings are merged into it. Raises PlanError for a file that would not say what the plan says,
    KubeletConfigError for a main config file that cannot be read.
    """
    if planned_file.path == PLAN_PATH:
        return _plan_text(plan)
    return _rendered(_for_templates(plan, planned_file), planned_file, config_text)


def _for_templates(plan: NodePlan, file: PlannedFile) -> NodePlan:
    """Return the plan without what no template says: which machine it is, how its GPUs are cut, and why."""
    return replace(
        _with_identity(plan, "", None),
        mig=MigPlan(),
        host=replace(plan.host, holds=()) if file.role == "host" else HostPlan(),
        rdma=plan.rdma if file.role == "rdma" else RdmaPlan(),
        files=(),
        decisions=(),
        notices=(),
        largest_pods=(),
        labels={},
    )


def _with_identity(plan: NodePlan, hostname: str, binary: str | None) -> NodePlan:
    """Return the plan for another machine of the same kind."""
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
def _rendered(plan: NodePlan, file: PlannedFile, config_text: str | None) -> str:
    if file.template is not None and file.template not in _TEMPLATES:
        raise PlanError(f"there is no template {file.template!r}", where=file.path)
    template = _TEMPLATES.get(file.template or "")
    text = _from_template(plan, file, template) if template else kubelet.merged_text(plan, config_text)
    _refuse_foreign_text(plan, file, text)
    said, meant = (
        template.read_back(plan, file, text) if template else kubelet.read_merged(plan, config_text, text)
    )
    if said != meant:
        raise _differs(file, f"says {said} where the plan says {meant}")
    return text


def _from_template(plan: NodePlan, file: PlannedFile, template: Template) -> str:
    found = _environment().get_template(file.template or "")
    return found.render(plan=plan, header=header(plan), **template.values(plan, file))


@cache
def _environment() -> Environment:
    environment = Environment(  # noqa: S701 (the output is configuration, not HTML; every value is checked)
        loader=FileSystemLoader(template_dir()),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["yaml"] = as_yaml
    return environment


def _refuse_foreign_text(plan: NodePlan, file: PlannedFile, text: str) -> None:
    odd = sorted({character for character in {*text} if not (character.isprintable() or character in "\n\t")})
    if odd:
        raise _differs(file, f"holds the characters {odd}")
    if text.split("\n", 1)[0] not in (f"# {header(plan)}", f"<!-- {xml_comment(plan)} -->"):
        raise _differs(file, "does not begin with the line that says who wrote it")


def _differs(file: PlannedFile, what: str) -> PlanError:
    return PlanError(
        f"the rendered file {what}",
        where=file.path,
        remedy=f"the value or the template {file.template} is at fault",
    )
