"""What the device plugin is to do on one machine, and the labels of its Node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from numaforge.errors import PlanError
from numaforge.findings import Severity
from numaforge.kubelet.admission.device_manager import Inventory
from numaforge.kubelet.admission.gpu_resources import GPU_RESOURCE
from numaforge.kubelet.admission.inventory import Shared, counts_of, inventory_of, shared_tokens
from numaforge.planning.model import (
    Decision,
    DevicePluginPlan,
    NodePlan,
    Notice,
    PredictedAllocatable,
    Reasoned,
)
from numaforge.profile import NodeProfile
from numaforge.roles.device_plugin.advertised import advertised
from numaforge.roles.device_plugin.checks import check_config, check_machine, sentence
from numaforge.roles.device_plugin.config import DevicePluginConfig
from numaforge.roles.device_plugin.labels import CONFIG_LABEL, MIG_LABEL, OPERATOR_LABEL, STRATEGY_LABEL
from numaforge.roles.device_plugin.section import DevicePlugin
from numaforge.roles.mig.devices import mig_device_names, nvml_gpus
from numaforge.roles.mig.operator import operator_config_name
from numaforge.roles.mig.plan import as_planned, plan_mig
from numaforge.roles.rdma.pools import plan_pools
from numaforge.topology.model import NodeTopology

REASONS = {
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
        labels[OPERATOR_LABEL] = operator_config_name(plan, topology)
    machine = as_planned(topology, plan.mig)
    known = _countable(machine, plan.mig.strategy)
    if profile.device_plugin == DevicePlugin():
        if known and plan.mig.gpus and plan.mig.managed_by != "dra-driver":
            counts = counts_of(inventory_of(machine, plan.mig.strategy))
            plan = replace(plan, allocatable=_with_advertised(plan.allocatable, counts))
        return _with_labels(plan, labels)
    if plan.mig.managed_by == "dra-driver":
        raise PlanError(
            "a DRA driver has the GPUs, so no device plugin may have them",
            where="device_plugin",
            remedy="leave the section out, or have mig.managed_by say another",
        )
    decided = plan_device_plugin(profile, plan.mig.strategy, machine)
    labels[CONFIG_LABEL] = profile.device_plugin.config
    labels[STRATEGY_LABEL] = plan.mig.strategy if _in_mig_mode(machine) else None
    plan = replace(
        plan,
        device_plugin=decided.value,
        allocatable=_with_advertised(plan.allocatable, decided.value.advertised)
        if known
        else plan.allocatable,
        decisions=plan.decisions + decided.decisions,
        notices=plan.notices + decided.notices,
    )
    return _with_labels(plan, labels)


def plan_device_plugin(
    profile: NodeProfile, strategy: str, machine: NodeTopology
) -> Reasoned[DevicePluginPlan]:
    """Return what the plugin is to do on a machine with this migStrategy, and what it then advertises.

    Raises PlanError, with the plugin's own words, for what it would refuse.
    """
    # The plugin refuses MPS with `mixed` even where no GPU is in MIG mode.
    plan = _wished(profile, strategy if _in_mig_mode(machine) else "none")
    config = _config(plan)
    findings = [*check_config(config), *check_machine(config, machine)]
    for finding in findings:
        if finding.severity is Severity.ERROR:
            raise PlanError(sentence(finding), where="device_plugin", remedy=finding.remedy)
    counts = counts_of(advertised(config, machine))
    return Reasoned(
        replace(plan, advertised=counts),
        tuple(_decisions(profile, plan, counts)),
        tuple(Notice(one.id, sentence(one)) for one in findings if one.severity is Severity.WARNING),
    )


def shared_by(profile: NodeProfile) -> Shared:
    """Return how the device plugin shares devices where it is told what a profile says."""
    return _config(_wished(profile, profile.mig.strategy)).sharing.taken


def planned_devices(topology: NodeTopology, profile: NodeProfile) -> Inventory:
    """Return the devices of each resource once a machine is cut and shared as a profile says.

    Raises PlanError for a geometry that it cannot have, and for what the device plugin refuses on it.
    """
    mig = plan_mig(topology, profile).value
    machine = as_planned(topology, mig)
    if profile.device_plugin != DevicePlugin():
        plan_device_plugin(profile, mig.strategy, machine)
    pools = plan_pools(topology, profile).value
    return {
        **inventory_of(machine, mig.strategy, shared_by(profile)),
        **shared_tokens({pool.resource: pool.tokens for pool in pools}),
    }


def _countable(machine: NodeTopology, strategy: str) -> bool:
    cut = (gpu for gpu in nvml_gpus(machine).values() if gpu.mig_mode == "enabled")
    return strategy == "none" or all(mig_device_names(gpu) is not None for gpu in cut)


def _in_mig_mode(machine: NodeTopology) -> bool:
    return any(gpu.mig_mode == "enabled" for gpu in nvml_gpus(machine).values())


def _wished(profile: NodeProfile, strategy: str) -> DevicePluginPlan:
    wish = profile.device_plugin
    replicas = wish.mps or wish.time_slicing
    sharing = "mps" if wish.mps else "time-slicing" if wish.time_slicing else "none"
    return DevicePluginPlan(
        strategy, sharing, dict(sorted(replicas.items())), wish.rename_shared, wish.one_per_pod, wish.config
    )


def _config(plan: DevicePluginPlan) -> DevicePluginConfig:
    return DevicePluginConfig.model_validate(config_document(plan))


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
    decisions = (Decision(f"labels.{name}", value, REASONS[name]) for name, value in wanted.items())
    return replace(plan, labels=wanted, decisions=(*plan.decisions, *decisions))


def _with_advertised(
    allocatable: PredictedAllocatable | None, counts: Mapping[str, int]
) -> PredictedAllocatable | None:
    """Return Allocatable with the resources that the plugin advertises; other plugins' stay."""
    if allocatable is None:
        return None
    others = {name: n for name, n in allocatable.devices.items() if not GPU_RESOURCE.fullmatch(name)}
    return replace(allocatable, devices={**others, **counts})


def _decisions(profile: NodeProfile, plan: DevicePluginPlan, counts: Mapping[str, int]) -> Iterator[Decision]:
    path = "device_plugin.mps" if plan.sharing == "mps" else "device_plugin.time_slicing"
    for name, replicas in plan.replicas.items():
        yield Decision(f"{path}.{name}", str(replicas), profile.choice(path))
    said = ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing"
    yield Decision("device_plugin.advertised", said, "what the plugin makes of the GPUs with this sharing")
