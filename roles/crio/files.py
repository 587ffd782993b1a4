"""CRI-O's drop-in for the runtime class of pods that tune their own CPUs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numaforge.lib.file_content import PlannedFile, everywhere
from numaforge.roles.crio.plan import ANNOTATIONS, HANDLER

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


CRIO_PATH = "/etc/crio/crio.conf.d/90-numaforge.conf"


def _values(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    """Return lines of TOML, whose strings may be written as JSON's."""
    tuning = plan.pod_tuning
    unbalanced = ANNOTATIONS["load_balancing"] in tuning.annotations
    # With it, crun creates no control group below the container's, whose CPUs could then not be a partition.
    flat = ['default_annotations = {"run.oci.systemd.subgroup" = ""}'] if unbalanced else []
    irqbalance = f"irqbalance_config_file = {json.dumps(tuning.irqbalance_file)}"
    lines = [
        *(["[crio.runtime]", irqbalance] if tuning.irqbalance_file else []),
        f"[crio.runtime.runtimes.{HANDLER}]",
        "inherit_default_runtime = true",
        f"allowed_annotations = {json.dumps(list(tuning.annotations))}",
        *flat,
    ]
    return {"crio_lines": lines}


TEMPLATES = {"host/crio.conf.j2": _values}


def files(plan: NodePlan) -> tuple[PlannedFile, ...]:
    """Return the drop-in that tells CRI-O of the runtime class's handler."""
    return (PlannedFile(CRIO_PATH, "host", "host/crio.conf.j2"),) if plan.pod_tuning.annotations else ()


paths = everywhere(CRIO_PATH)
