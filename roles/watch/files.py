"""The node's watch: its timer, its program, and its configuration."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from numaforge.lib.file_content import PLAN_PATH, PROGRAMS, FileContent, PlannedFile, everywhere
from numaforge.lib.shell import library
from numaforge.node.bundle import checksum
from numaforge.roles.template import constant, header, program_values
from numaforge.roles.watch.configuration import configuration

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan

WATCH_CONF_PATH = "/etc/numaforge/watch.conf"
WATCH_SCRIPT_PATH = f"{PROGRAMS}/watch.sh"
WATCH_UNIT = "numaforge-watch.service"
WATCH_TIMER = "numaforge-watch.timer"
WATCH_UNIT_PATH = f"/etc/systemd/system/{WATCH_UNIT}"
WATCH_TIMER_PATH = f"/etc/systemd/system/{WATCH_TIMER}"
PERIOD_SECONDS = 60
"""How long the timer waits after each run."""
_FINGERPRINT_DIGITS = 16


@cache
def _source() -> str:
    return library("lib/kernel_files", "node/paths", "roles/interrupts/affinity", "roles/watch/at_boot")


TEMPLATES = {
    "watch/watch.sh.j2": program_values(_source),
    "watch/watch.service.j2": constant(command=f"/bin/sh {WATCH_SCRIPT_PATH} watch {WATCH_CONF_PATH}"),
    "watch/watch.timer.j2": constant(seconds=str(PERIOD_SECONDS)),
}


def files(plan: NodePlan) -> tuple[PlannedFile, ...]:
    """Return the timer, its service and program, where the node watches itself."""
    if plan.watch is None:
        return ()
    return (
        PlannedFile(WATCH_SCRIPT_PATH, "watch", "watch/watch.sh.j2"),
        PlannedFile(WATCH_UNIT_PATH, "watch", "watch/watch.service.j2"),
        PlannedFile(WATCH_TIMER_PATH, "watch", "watch/watch.timer.j2"),
    )


paths = everywhere(WATCH_CONF_PATH, WATCH_SCRIPT_PATH, WATCH_UNIT_PATH, WATCH_TIMER_PATH)


def others(
    plan: NodePlan, config_text: str | None, text_of: Callable[[NodePlan, PlannedFile], str]
) -> list[FileContent]:
    """Return the watch's configuration, with the checksums of the plan's other files.

    It leaves out files into which settings are merged, because they have foreign lines, and waiting files,
    which do not exist yet.
    """
    if plan.watch is None:
        return []
    sums = {
        file.path: checksum(text_of(plan, file))
        for file in plan.files
        if not file.waits and (file.template or file.path == PLAN_PATH)
    }
    text = configuration(plan, fingerprint(sums[PLAN_PATH]), sums)
    return [FileContent(WATCH_CONF_PATH, f"# {header(plan)}\n{text}")]


def fingerprint(checksum: str) -> str:
    """Return the fingerprint of a plan: the first digits of the checksum of /etc/numaforge/plan.json."""
    return checksum[:_FINGERPRINT_DIGITS]
