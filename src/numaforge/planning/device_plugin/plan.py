"""What the device plugin is to do on one machine, and the labels of its Node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from numaforge.errors import PlanError
from numaforge.kubelet.findings import Finding, Severity
from numaforge.planning.device_plugin.advertised import of_config
from numaforge.planning.device_plugin.checks import check_config, check_machine
from numaforge.planning.device_plugin.config import DevicePluginConfig
from numaforge.planning.device_plugin.names import (
    CONFIG_LABEL,
    GPU_RESOURCE,
    MIG_LABEL,
    OPERATOR_LABEL,
    STRATEGY_LABEL,
)
from numaforge.planning.mig.devices import FoundGpu, found_gpus
from numaforge.planning.mig.operator import operator_config
from numaforge.planning.model import (
    Decision,
    DevicePluginPlan,
    NodePlan,
    Notice,
    PredictedAllocatable,
    Reasoned,
)
from numaforge.profile import NodeProfile
from numaforge.profile.device_plugin import DevicePlugin
from numaforge.topology.model import NodeTopology

_REASONS = {
    CONFIG_LABEL: "the device plugin takes the configuration of this name",
    STRATEGY_LABEL: "GPU feature discovery says the same of the device plugin",
    OPERATOR_LABEL: "the GPU operator's MIG manager cuts the GPUs so",
    MIG_LABEL: "jobs that need whole GPUs choose by it",
}
_FIELDS = {"time-slicing": "timeSlicing", "mps": "mps"}


def with_device_plugin(plan: NodePlan, topology: NodeTopology, profile: NodeProfile) -> NodePlan:
    """Return the plan of a machine with its device plugin, what that advertises, and the labels of its Node.

    Raises PlanError, with the plugin's own words, for what it would refuse on this machine.
    """
    labels: dict[str, str | None] = {MIG_LABEL: plan.mig.label}
    if plan.mig.managed_by == "gpu-operator":
        labels[OPERATOR_LABEL] = operator_config(plan, topology)
    if profile.device_plugin == DevicePlugin():
        return _with_labels(plan, labels)
    if plan.mig.managed_by == "dra-driver":
        raise PlanError(
            "a DRA driver has the GPUs, so no device plugin may have them",
            where="device_plugin",
            remedy="leave the section out, or have mig.managed_by say another",
        )
    gpus = found_gpus(topology, plan.mig)
    in_mig_mode = any(gpu.mig_devices is not None for gpu in gpus)
    # The plugin refuses MPS with `mixed` even where no GPU is in MIG mode.
    strategy = plan.mig.strategy if in_mig_mode else "none"
    decided = plan_device_plugin(profile, strategy, gpus)
    labels[CONFIG_LABEL] = profile.device_plugin.config
    labels[STRATEGY_LABEL] = strategy if in_mig_mode else None
    plan = replace(
        plan,
        device_plugin=decided.value,
        allocatable=_with_advertised(plan.allocatable, decided.value),
        decisions=plan.decisions + decided.decisions,
        notices=plan.notices + decided.notices,
    )
    return _with_labels(plan, labels)


def plan_device_plugin(
    profile: NodeProfile, strategy: str, gpus: Sequence[FoundGpu]
) -> Reasoned[DevicePluginPlan]:
    """Return what the plugin is to do with these GPUs and this migStrategy, and what it then advertises.

    Raises PlanError, with the plugin's own words, for what it would refuse.
    """
    wish = profile.device_plugin
    replicas = wish.mps or wish.time_slicing
    sharing = "mps" if wish.mps else "time-slicing" if wish.time_slicing else "none"
    plan = DevicePluginPlan(
        strategy, sharing, dict(sorted(replicas.items())), wish.rename_shared, wish.one_per_pod, wish.config
    )
    config = DevicePluginConfig.model_validate(config_document(plan))
    findings = [*check_config(config), *check_machine(config, gpus)]
    for finding in findings:
        if finding.severity is Severity.ERROR:
            raise PlanError(_sentence(finding), where="device_plugin", remedy=finding.remedy)
    counts = of_config(config, gpus)
    return Reasoned(
        replace(plan, advertised=counts),
        tuple(_decisions(profile, plan, counts)),
        tuple(Notice(one.id, _sentence(one)) for one in findings if one.severity is Severity.WARNING),
    )


def config_document(plan: DevicePluginPlan) -> dict[str, Any]:
    """Return the plugin's configuration, in its own words."""
    document: dict[str, Any] = {"version": "v1", "flags": {"migStrategy": plan.mig_strategy}}
    if plan.replicas:
        options = {"renameByDefault": plan.renamed or None, "failRequestsGreaterThanOne": plan.one_per_pod}
        shared_resources = [{"name": name, "replicas": count} for name, count in plan.replicas.items()]
        document["sharing"] = {
            _FIELDS[plan.sharing]: {
                **{key: value for key, value in options.items() if value is not None},
                "resources": shared_resources,
            }
        }
    return document


def _with_labels(plan: NodePlan, labels: Mapping[str, str | None]) -> NodePlan:
    wanted = {name: value for name, value in sorted(labels.items()) if value is not None}
    decisions = (Decision(f"labels.{name}", value, _REASONS[name]) for name, value in wanted.items())
    return replace(plan, labels=wanted, decisions=(*plan.decisions, *decisions))


def _with_advertised(
    allocatable: PredictedAllocatable | None, plan: DevicePluginPlan
) -> PredictedAllocatable | None:
    """Return Allocatable with the resources that the plugin advertises; other plugins' stay."""
    if allocatable is None:
        return None
    others = {name: n for name, n in allocatable.devices.items() if not GPU_RESOURCE.fullmatch(name)}
    return replace(allocatable, devices={**others, **plan.advertised})


def _decisions(profile: NodeProfile, plan: DevicePluginPlan, counts: Mapping[str, int]) -> Iterator[Decision]:
    path = "device_plugin.mps" if plan.sharing == "mps" else "device_plugin.time_slicing"
    for name, replicas in plan.replicas.items():
        yield Decision(f"{path}.{name}", str(replicas), profile.choice(path))
    said = ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing"
    yield Decision("device_plugin.advertised", said, "what the plugin makes of the GPUs with this sharing")


def _sentence(finding: Finding) -> str:
    return f"{finding.evidence} ({finding.text})" if finding.text else finding.evidence
