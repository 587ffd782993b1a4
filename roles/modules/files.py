"""Kernel modules: those that a boot loads, their options, and those that it keeps out."""

from __future__ import annotations

from numaforge.planning.model import NodePlan, PlannedFile
from numaforge.render.texts import Both, Template, lines


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
