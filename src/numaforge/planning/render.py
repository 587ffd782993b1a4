"""Every file of a plan as text, rendered from its template.

Each role has a table of its templates; this module names none of them.
"""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError, TemplateRuntimeError

from numaforge.lib.errors import PlanError
from numaforge.lib.file_content import PLAN_PATH, FileContent, PlannedFile
from numaforge.lib.resources import own_template_dir, template_dir
from numaforge.planning.document import dumps
from numaforge.planning.files import WRITERS, writer_of
from numaforge.planning.plan import NodePlan
from numaforge.roles.role import Role, Writer
from numaforge.roles.template import Lines, Values, as_yaml, header, lines, xml_comment

__all__ = ["files_of", "header", "plan_files", "render_file", "render_plan", "role_files", "template_path"]


def render_plan(plan: NodePlan, config_text: str | None = None) -> dict[str, str]:
    """Return the text of every file of a plan, by path; `config_text` as for `render_file`."""
    return {file.path: render_file(plan, file, config_text) for file in plan.files}


def role_files(plan: NodePlan, called: str, config_text: str | None = None) -> list[FileContent]:
    """Return the files of what a deploy calls `called`; `config_text` as for `render_file`."""
    return [_content(plan, file, config_text) for file in plan.files if file.role == called]


def files_of(role: Role, plan: NodePlan, config_text: str | None = None) -> list[FileContent]:
    """Return all files that one role writes, with mode and owner; `config_text` as for `render_file`."""
    writer = writer_of(role)
    return _files_of(writer, plan, config_text) if writer else []


def _files_of(writer: Writer, plan: NodePlan, config_text: str | None) -> list[FileContent]:
    paths = {file.path for file in writer.files(plan)}
    written = [_content(plan, file, config_text) for file in plan.files if file.path in paths]
    return [*written, *(writer.others(plan, config_text, render_file) if writer.others else ())]


def _content(plan: NodePlan, file: PlannedFile, config_text: str | None) -> FileContent:
    return FileContent(file.path, render_file(plan, file, config_text), file.mode, file.owner, file.group)


def render_file(plan: NodePlan, planned_file: PlannedFile, config_text: str | None = None) -> str:
    """Return the text of one file, checked against the plan.

    `config_text` is the kubelet's current main config file, for kubelets without drop-ins: the settings are
    merged into it. Raises PlanError for a file that would contradict the plan, KubeletConfigError for an
    unreadable main config file.
    """
    if planned_file.path == PLAN_PATH:
        return dumps(plan)
    return _text(plan, planned_file, config_text, own_template_dir())


def template_path(file: PlannedFile) -> Path | None:
    """Return the template that a file is rendered from; None for one that its role writes from the plan."""
    if file.template is None:
        return None
    path = _environment(own_template_dir()).get_template(file.template).filename
    return Path(path) if path else None


def plan_files(plan: NodePlan, config_text: str | None = None) -> tuple[FileContent, ...]:
    """Return every file of a plan on its node, including those that roles add.

    `config_text` as for `render_file`. Raises PlanError for a file of the plan that no role writes.
    """
    of_roles = (file for writer in WRITERS for file in _files_of(writer, plan, config_text))
    contents = (*role_files(plan, "topology", config_text), *of_roles)
    written = {file.path for file in contents}
    if strange := [file.path for file in plan.files if file.path not in written]:
        raise PlanError(
            f"{strange[0]!r} is a file that no role writes by this plan",
            where="plan.files",
            remedy="plan the host again; a plan is not written by hand",
        )
    return contents


def _owner(file: PlannedFile) -> Writer:
    """Return the writer of this template, or of this file without one."""
    for writer in WRITERS:
        if file.template in writer.templates if file.template else writer.untemplated:
            return writer
    raise PlanError(f"there is no template {file.template!r}", where=file.path)


def _text(plan: NodePlan, file: PlannedFile, config_text: str | None, own_templates: Path | None) -> str:
    writer = _owner(file)
    if file.template is None and writer.untemplated:
        text = writer.untemplated(plan, file, config_text)
    else:
        values = writer.templates[file.template or ""]
        text = _from_template(plan, file, values, own_templates)
        if own_templates is not None:
            _refuse_difference(file, lines(text), lines(_from_template(plan, file, values, None)))
    _refuse_foreign_text(plan, file, text)
    return text


def _from_template(plan: NodePlan, file: PlannedFile, values: Values, own_templates: Path | None) -> str:
    try:
        loaded = _environment(own_templates).get_template(file.template or "")
        return loaded.render(plan=plan, header=header(plan), path=file.path, **values(plan, file))
    except Exception as error:
        if own_templates is None and not isinstance(error, TemplateError):
            raise
        raise PlanError(f"cannot be rendered: {error}", where=file.template) from error


def _refuse_difference(file: PlannedFile, theirs: list[str], ours: list[str]) -> None:
    """Refuse the lines of a user's template that are not those of ours."""
    if theirs != ours:
        added = [line for line in theirs if line not in ours]
        lacking = [line for line in ours if line not in theirs]
        raise _differs(file, f"has {added or 'another order'}, and lacks {lacking or 'nothing'}")


def _one_line(value: object) -> object:
    """Return a value to print; one with further lines would be taken for further settings."""
    if isinstance(value, str) and "\n" in value and not isinstance(value, Lines):
        raise TemplateRuntimeError(f"{value!r} is not one line")
    return value


@cache
def _environment(own_templates: Path | None) -> Environment:
    if own_templates is not None:
        _refuse_unused(own_templates)
    environment = Environment(  # noqa: S701 (the output is configuration, not HTML; every value is checked)
        loader=FileSystemLoader([*([own_templates] if own_templates else []), template_dir()]),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_one_line,
    )
    environment.filters["yaml"] = as_yaml
    return environment


def _refuse_unused(own_templates: Path) -> None:
    """Refuse a missing folder of templates, or one with a file that replaces none of ours."""
    remedy = "NUMAFORGE_TEMPLATES names the folder whose templates go before ours"
    if not own_templates.is_dir():
        raise PlanError("is not a folder", where=str(own_templates), remedy=remedy)
    template_names = {name for writer in WRITERS for name in writer.templates}
    for path in sorted(own_templates.rglob("*.j2")):
        if path.relative_to(own_templates).as_posix() not in template_names:
            raise PlanError(
                "replaces no template",
                where=str(path),
                remedy=f"the templates are {', '.join(sorted(template_names))}",
            )


def _refuse_foreign_text(plan: NodePlan, file: PlannedFile, text: str) -> None:
    odd = sorted({character for character in {*text} if not (character.isprintable() or character in "\n\t")})
    if odd:
        raise _differs(file, f"holds the characters {odd}")
    if text.split("\n", 1)[0] not in (f"# {header(plan)}", f"<!-- {xml_comment(plan)} -->"):
        raise _differs(file, "does not begin with the line with numaforge's header")


def _differs(file: PlannedFile, problem: str) -> PlanError:
    return PlanError(
        f"the rendered file {problem}",
        where=file.path,
        remedy=f"the value or the template {file.template} is at fault",
    )
