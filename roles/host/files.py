"""The userland: limits, packages that stay at their version, swap that stays off."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from numaforge.planning.model import PLAN_PATH, NodePlan, PlannedFile, PodTuningPlan
from numaforge.render.texts import Both, Template, lines
from numaforge.roles.crio.plan import ANNOTATIONS, HANDLER
from numaforge.roles.host.plan import pam_limits, unit_limits, upgrade_patterns


def _values(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    return {
        "pam_limits": pam_limits(plan.host),
        "unit_limits": unit_limits(plan.host),
        "upgrade_patterns": upgrade_patterns(plan.host),
        "plan_path": PLAN_PATH,
        "crio_lines": _crio_lines(plan.pod_tuning),
    }


def _limits(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    meant = pam_limits(plan.host).items()
    return [tuple(line.split()) for line in lines(text)], [
        (who, "-", name, value) for name, value in meant for who in ("*", "root")
    ]


def _unit_limits(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    meant = unit_limits(plan.host).items()
    return lines(text), ["[Service]", *(f"{key}={value}" for key, value in meant)]


def _held(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    return tuple(re.findall(r'^    "(.+)";$', text, re.MULTILINE)), upgrade_patterns(plan.host)


def _no_swap(_plan: NodePlan, _file: PlannedFile, text: str) -> Both:
    return lines(text), ["[Unit]", f"ConditionPathExists=!{PLAN_PATH}"]


def _crio_lines(plan: PodTuningPlan) -> list[str]:
    """Return TOML, whose strings may be written as JSON's."""
    file = [f"irqbalance_config_file = {json.dumps(plan.irqbalance_file)}"] if plan.irqbalance_file else []
    # By it crun makes no control group below the container's, whose CPUs could not be a partition then.
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


def _crio(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    meant = plan.pod_tuning
    handler: dict[str, Any] = {
        "inherit_default_runtime": True,
        "allowed_annotations": list(meant.annotations),
        **({"default_annotations": {"run.oci.systemd.subgroup": ""}} if _unbalanced(meant) else {}),
    }
    file = {"irqbalance_config_file": meant.irqbalance_file} if meant.irqbalance_file else {}
    return tomllib.loads(text), {"crio": {"runtime": {**file, "runtimes": {HANDLER: handler}}}}


TEMPLATES = {
    "host/limits.conf.j2": Template(_limits, _values),
    "host/unit-limits.conf.j2": Template(_unit_limits, _values),
    "host/hold.conf.j2": Template(_held, _values),
    "host/crio.conf.j2": Template(_crio, _values),
    "host/no-swap.conf.j2": Template(_no_swap, _values),
}
