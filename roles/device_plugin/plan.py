"""The device plugin's configuration on one machine, and the labels of its Node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from numaforge.findings import Severity
from numaforge.kubelet.admission.device_manager import Inventory
from numaforge.kubelet.admission.inventory import NOT_SHARED, Shared, counts_of, inventory_of, shared_tokens
from numaforge.kubelet.admission.preferred import DISTRIBUTED, PACKED
from numaforge.lib.codec import ByName
from numaforge.lib.errors import PlanError
from numaforge.lib.reasons import Decision, Notice, Reasoned
from numaforge.machine.topology.model import NodeTopology
from numaforge.roles.amd_partitions.plan import plugin_of
from numaforge.roles.device_plugin.advertised import advertised
from numaforge.roles.device_plugin.checks import check_config, check_machine, sentence
from numaforge.roles.device_plugin.section import DevicePlugin
from numaforge.roles.mig.devices import mig_device_names, nvml_gpus
from numaforge.roles.mig.instance import MigPlan

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.planning.profile import NodeProfile
    from numaforge.roles.device_plugin.config import DevicePluginConfig


@dataclass(frozen=True)
class DevicePluginPlan:
    """How NVIDIA's device plugin is configured; `replicas` are replicas per device, by resource.

    `config` is its key in the plugin's ConfigMap. `advertised` are the resulting devices, by resource.
    """

    mig_strategy: str  # "none", "single", "mixed"
    sharing: str = "none"  # "time-slicing", "mps"
    replicas: ByName[int] = field(default_factory=dict)
    renamed: bool = False  # shared devices are nvidia.com/gpu.shared
    one_per_pod: bool | None = None
    packed: bool = False
    config: str | None = None
    advertised: ByName[int] = field(default_factory=dict)


_FIELDS = {"time-slicing": "timeSlicing", "mps": "mps"}


def shared_by(profile: NodeProfile) -> Shared:
    """Return how the device plugin shares devices when configured by a profile."""
    return _shared(_wished(profile, profile.mig.strategy))


def devices_of(machine: NodeTopology, plan: NodePlan) -> Inventory:
    """Return the devices of each resource that a machine, already cut as planned, offers with this plan."""
    strategy = plan.device_plugin.mig_strategy if plan.device_plugin else plan.mig.strategy
    shared = _shared(plan.device_plugin) if plan.device_plugin else NOT_SHARED
    tokens = shared_tokens({pool.resource: pool.tokens for pool in plan.rdma.pools})
    if plan.dra is not None and plan.dra.gpus:
        return tokens
    return {**inventory_of(machine, strategy, shared, plugin_of(plan.amd_partitions)), **tokens}


def in_mig_mode(machine: NodeTopology) -> bool:
    return any(gpu.mig_mode == "enabled" for gpu in nvml_gpus(machine).values())


def _wished(profile: NodeProfile, strategy: str) -> DevicePluginPlan:
    wish = profile.device_plugin
    replicas = wish.mps or wish.time_slicing
    sharing = "mps" if wish.mps else "time-slicing" if wish.time_slicing else "none"
    return DevicePluginPlan(
        strategy,
        sharing,
        dict(sorted(replicas.items())),
        wish.rename_shared,
        wish.one_per_pod,
        wish.packed,
        wish.config,
    )


def _shared(plan: DevicePluginPlan) -> Shared:
    if not plan.replicas:
        return NOT_SHARED
    return replace(_config(plan).sharing.taken, policy=PACKED if plan.packed else DISTRIBUTED)


def _config(plan: DevicePluginPlan) -> DevicePluginConfig:
    from numaforge.roles.device_plugin.config import DevicePluginConfig  # rarely needed

    return DevicePluginConfig.model_validate(config_document(plan))


def config_document(plan: DevicePluginPlan) -> dict[str, Any]:
    """Return the plugin's configuration file, as a document."""
    document: dict[str, Any] = {"version": "v1", "flags": {"migStrategy": plan.mig_strategy}}
    if plan.packed:
        document["flags"]["plugin"] = {"sharedDevicesAllocationPolicy": PACKED}
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


def _decisions(profile: NodeProfile, plan: DevicePluginPlan, counts: Mapping[str, int]) -> Iterator[Decision]:
    path = "device_plugin.mps" if plan.sharing == "mps" else "device_plugin.time_slicing"
    for name, replicas in plan.replicas.items():
        yield Decision(f"{path}.{name}", str(replicas), profile.choice(path))
    amounts = ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing"
    yield Decision("device_plugin.advertised", amounts, "what the plugin makes of the GPUs with this sharing")


class PluginDecision(NamedTuple):
    """How NVIDIA's device plugin is configured, and what it advertises by resource, where that is known."""

    plan: DevicePluginPlan | None = None
    advertised: Mapping[str, int] | None = None


def plan_device_plugin(machine: NodeTopology, profile: NodeProfile, mig: MigPlan) -> Reasoned[PluginDecision]:
    """Return how the device plugin is configured.

    Raises PlanError, with the plugin's own message, for what the plugin would reject on this machine, and
    where a DRA driver has the GPUs.
    """
    cut = (gpu for gpu in nvml_gpus(machine).values() if gpu.mig_mode == "enabled")
    is_countable = mig.strategy == "none" or all(mig_device_names(gpu) is not None for gpu in cut)
    by_claims = profile.dra.gpus == "claims"
    if profile.device_plugin == DevicePlugin() and by_claims:
        return Reasoned(PluginDecision(advertised={}))
    if profile.device_plugin == DevicePlugin():
        counted = is_countable and mig.gpus and mig.managed_by != "dra-driver"
        counts = counts_of(inventory_of(machine, mig.strategy)) if counted else None
        return Reasoned(PluginDecision(advertised=counts))
    if mig.managed_by == "dra-driver" or by_claims:
        alternative = "dra.gpus be device-plugin" if by_claims else "mig.managed_by say another"
        raise PlanError(
            "a DRA driver has the GPUs, so no device plugin may have them",
            where="device_plugin",
            remedy=f"leave the section out, or have {alternative}",
        )
    # The plugin rejects MPS with `mixed` even where no GPU is in MIG mode.
    plan = _wished(profile, mig.strategy if in_mig_mode(machine) else "none")
    config = _config(plan)
    findings = [*check_config(config), *check_machine(config, machine)]
    for finding in findings:
        if finding.severity is Severity.ERROR:
            raise PlanError(sentence(finding), where="device_plugin", remedy=finding.remedy)
    counts = advertised(config, machine)
    planned = replace(plan, advertised=counts)
    return Reasoned(
        PluginDecision(planned, counts if is_countable else None),
        tuple(_decisions(profile, plan, counts)),
        tuple(Notice(one.id, sentence(one)) for one in findings if one.severity is Severity.WARNING),
    )
