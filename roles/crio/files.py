"""CRI-O's drop-in for the runtime class of pods that tune their own CPUs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numaforge.lib.file_content import PlannedFile, everywhere
from numaforge.roles.crio.plan import ANNOTATIONS, HANDLER, PodTuningPlan

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


CRIO_PATH = "/etc/crio/crio.conf.d/90-numaforge.conf"


def _values(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    return {"crio_lines": _crio_lines(plan.pod_tuning)}


def _crio_lines(plan: PodTuningPlan) -> list[str]:
    """Return TOML, whose strings may be written as JSON's."""
    file = [f"irqbalance_config_file = {json.dumps(plan.irqbalance_file)}"] if plan.irqbalance_file else []
    # With it, crun creates no control group below the container's, whose CPUs could then not be a partition.
    flat = ['default_annotations = {"run.oci.systemd.subgroup" = ""}'] if _unbalanced(plan) else []
    return [
        *(["[crio.runtime]", *file] if file else []),
        f"[crio.runtime.runtimes.{HANDLER}]",
        "inherit_default_runtime = true",
        f"allowed_annotations = {json.dumps(list(plan.annotations))}",
        *flat,
    ]


def _unbalanced(plan: PodTuningPlan) -> bool:
    return ANNOTATIONS["load_balancing"] in plan.annotations


TEMPLATES = {"host/crio.conf.j2": _values}


def files(plan: NodePlan) -> tuple[PlannedFile, ...]:
    """Return the drop-in that tells CRI-O of the runtime class's handler."""
    return (PlannedFile(CRIO_PATH, "host", "host/crio.conf.j2"),) if plan.pod_tuning.annotations else ()


paths = everywhere(CRIO_PATH)
