"""Files for kernel modules: those loaded at boot, their options, and those kept out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from numaforge.lib.file_content import PlannedFile, everywhere
from numaforge.roles.template import Both, Template, lines

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan

MODULES_LOAD_PATH = "/etc/modules-load.d/90-numaforge.conf"
MODPROBE_PATH = "/etc/modprobe.d/90-numaforge.conf"


def _loaded(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    return lines(text), list(plan.modules.load)


def _options(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    options = (
        f"options {name} {' '.join(module_options)}"
        for name, module_options in sorted(plan.modules.options.items())
    )
    kept_out = ((f"blacklist {name}", f"install {name} /bin/false") for name in plan.modules.blocked)
    return lines(text), [*options, *(line for pair in kept_out for line in pair)]


TEMPLATES = {
    "modules/modules-load.conf.j2": Template(_loaded),
    "modules/modprobe.conf.j2": Template(_options),
}

MODPROBE_FILE = PlannedFile(MODPROBE_PATH, "modules", "modules/modprobe.conf.j2")


def files(plan: NodePlan) -> tuple[PlannedFile, ...]:
    """Return the file that loads modules at boot, and the one with options and blocked modules.

    The first needs no boot, because its modules are loaded now; the second waits unless reboots are allowed.
    """
    modules, planned_files = plan.modules, []
    if modules.load:
        planned_files.append(PlannedFile(MODULES_LOAD_PATH, "modules", "modules/modules-load.conf.j2"))
    if modules.options or modules.blocked:
        waits = plan.kernel.reboot != "allowed"
        planned_files.append(replace(MODPROBE_FILE, waits=waits))
    return tuple(planned_files)


paths = everywhere(MODULES_LOAD_PATH, MODPROBE_PATH)
