"""Files for kernel modules: those loaded at boot, their options, and those kept out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from numaforge.lib.file_content import PlannedFile, everywhere
from numaforge.roles.template import constant

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan

MODULES_LOAD_PATH = "/etc/modules-load.d/90-numaforge.conf"
MODPROBE_PATH = "/etc/modprobe.d/90-numaforge.conf"


TEMPLATES = {"modules/modules-load.conf.j2": constant(), "modules/modprobe.conf.j2": constant()}

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
