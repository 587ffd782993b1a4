"""Files for kernel modules: those loaded at boot, their options, and those kept out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from numaforge.file_content import FileContent, PlannedFile, everywhere
from numaforge.template import Both, Template, lines

if TYPE_CHECKING:
    from numaforge.maintenance.part import Found, Goal
    from numaforge.planning.plan import NodePlan

MODULES_LOAD_PATH = "/etc/modules-load.d/90-numaforge.conf"
MODPROBE_PATH = "/etc/modprobe.d/90-numaforge.conf"


def _loaded(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    return lines(text), list(plan.modules.load)


def _options(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    options = (f"options {name} {' '.join(each)}" for name, each in sorted(plan.modules.options.items()))
    kept_out = ((f"blacklist {name}", f"install {name} /bin/false") for name in plan.modules.blocked)
    return lines(text), [*options, *(line for pair in kept_out for line in pair)]


TEMPLATES = {
    "modules/modules-load.conf.j2": Template(_loaded),
    "modules/modprobe.conf.j2": Template(_options),
}


def files(plan: NodePlan) -> tuple[PlannedFile, ...]:
    """Return the file that loads modules at boot, and the one with options and blocked modules.

    The first needs no boot, because its modules are loaded now; the second waits unless reboots are allowed.
    """
    modules, found = plan.modules, []
    if modules.load:
        found.append(PlannedFile(MODULES_LOAD_PATH, "modules", "modules/modules-load.conf.j2"))
    if modules.options or modules.blocked:
        waits = plan.kernel.reboot != "allowed"
        found.append(PlannedFile(MODPROBE_PATH, "modules", "modules/modprobe.conf.j2", waits=waits))
    return tuple(found)


paths = everywhere(MODULES_LOAD_PATH, MODPROBE_PATH)


def on_node(
    goal: Goal, found: Found, files: list[FileContent], absent: list[str]
) -> tuple[list[FileContent], list[str]]:
    """Return both lists, with modprobe's file reduced to what needs no boot where reboots are not allowed."""
    from numaforge.roles.modules.part import at_once, told_by

    if goal.plan.kernel.reboot == "allowed":
        return files, absent
    now = at_once(goal, found)
    if now.options == goal.plan.modules.options and now.blocked == goal.plan.modules.blocked:
        return files, absent
    files = [file for file in files if file.path != MODPROBE_PATH]
    absent = [path for path in absent if path != MODPROBE_PATH]
    told = FileContent(MODPROBE_PATH, modprobe_text(replace(goal.plan, modules=now)))
    if told_by(found.text(MODPROBE_PATH)) == told_by(told.text):
        return files, absent
    if now.options or now.blocked:
        return [*files, told], absent
    return files, [*absent, MODPROBE_PATH]


def modprobe_text(plan: NodePlan) -> str:
    """Return modprobe's file of a plan, even where it is not among the plan's files."""
    from numaforge.planning.render import render_file

    return render_file(plan, PlannedFile(MODPROBE_PATH, "modules", "modules/modprobe.conf.j2"))
