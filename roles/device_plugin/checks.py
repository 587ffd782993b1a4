"""What the device plugin accepts but should not, and what it rejects only on some machines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from numaforge.findings import Finding
from numaforge.findings.finding import Catalogue
from numaforge.kubelet.admission.inventory import inventory_of
from numaforge.machine.topology.model import NodeTopology
from numaforge.roles.device_plugin.advertised import lost, refused
from numaforge.roles.mig.devices import mig_device_names, nvml_gpus

if TYPE_CHECKING:
    from numaforge.roles.device_plugin.config import DevicePluginConfig, SharedResources, Sharing

_MOST_MPS_CLIENTS = 48  # cmd/mps-control-daemon/mps/device.go: 16 before compute capability 7.5
FINDINGS = Catalogue(Path(__file__).with_name("findings.json"))


def check_config(config: DevicePluginConfig) -> tuple[Finding, ...]:
    """Return what is wrong with a configuration on every machine."""
    return (*_ignored(config), *_mps(config))


def check_answers(config: DevicePluginConfig, machine: NodeTopology) -> tuple[Finding, ...]:
    """Return what keeps the plugin from starting on a machine as it is, however its GPUs are cut."""
    refusal = lost(machine, config.flags.mig_strategy)
    return (
        *((FINDINGS.finding("gpu-lost", index=refusal[0], line=refusal[1]),) if refusal else ()),
        *_imex(config, machine),
    )


def check_machine(config: DevicePluginConfig, machine: NodeTopology) -> tuple[Finding, ...]:
    """Return what is wrong with a configuration on a machine, cut as its GPUs are."""
    if finding := check_strategy(config.flags.mig_strategy, machine):
        return (finding,)
    return (*_mig(config, machine), *_shares_nothing(config, machine))


def check_strategy(strategy: str, machine: NodeTopology) -> Finding | None:
    """Return a finding where the migStrategy does not suit a machine's MIG geometry; None where it does."""
    if (refusal := refused(machine, strategy)) is None:
        return None
    remedy = (
        "choose mixed, or give all GPUs the same instances"
        if strategy == "single"
        else "leave out compute instances smaller than their GPU instance, or choose single, or none"
    )
    return FINDINGS.finding("mig-strategy-refused", strategy=strategy, remedy=remedy, refusal=refusal)


def sentence(finding: Finding) -> str:
    """Return the finding's evidence, with the plugin's own message."""
    return f"{finding.evidence} ({finding.text})" if finding.text else finding.evidence


def _ignored(config: DevicePluginConfig) -> Iterator[Finding]:
    if config.resources.gpus or config.resources.mig:
        yield FINDINGS.finding("resources-ignored")
    for way, sharing in _ways(config.sharing):
        for number, one in enumerate(sharing.resources):
            path, name = f"sharing.{way}.resources[{number}]", sharing.advertised_as(one.name)
            if one.rename and one.rename != name:
                yield FINDINGS.finding("rename-ignored", path=path, way=way, name=name)
            if one.devices != "all":
                yield FINDINGS.finding("devices-ignored", path=path, way=way, name=one.name)
    if config.sharing.mps and config.sharing.time_slicing:
        yield FINDINGS.finding("time-slicing-ignored")


def _mps(config: DevicePluginConfig) -> Iterator[Finding]:
    if (mps := config.sharing.mps) is None:
        return
    if config.flags.mig_strategy == "mixed":
        yield FINDINGS.finding("mps-with-mixed")
    if not config.flags.mps_root:
        yield FINDINGS.finding("mps-root-elsewhere")
    for number, one in enumerate(mps.resources):
        if one.replicas > _MOST_MPS_CLIENTS:
            yield FINDINGS.finding(
                "mps-replicas", number=number, replicas=one.replicas, most=_MOST_MPS_CLIENTS
            )


def _mig(config: DevicePluginConfig, machine: NodeTopology) -> Iterator[Finding]:
    strategy = config.flags.mig_strategy
    with_mig = {index: gpu for index, gpu in nvml_gpus(machine).items() if gpu.mig_mode == "enabled"}
    if not with_mig:
        return
    if strategy == "none":
        yield FINDINGS.finding("mig-not-advertised", index=next(iter(with_mig)))
    elif config.sharing.mps:
        yield FINDINGS.finding("mps-with-mig")
    for index, gpu in with_mig.items():
        names = mig_device_names(gpu)
        if strategy != "none" and names is None:
            yield FINDINGS.finding("mig-devices-unknown", index=index)
        if strategy == "mixed" and names == ():
            yield FINDINGS.finding("mig-without-devices", index=index)


def _shares_nothing(config: DevicePluginConfig, machine: NodeTopology) -> Iterator[Finding]:
    resources = sorted(inventory_of(machine, config.flags.mig_strategy))
    for way, sharing in _ways(config.sharing):
        for number, one in enumerate(sharing.resources):
            if one.name not in resources:
                listed = ", ".join(resources) or "nothing"
                yield FINDINGS.finding(
                    "shares-nothing", way=way, number=number, name=one.name, resources=listed
                )


def _imex(config: DevicePluginConfig, machine: NodeTopology) -> Iterator[Finding]:
    if not config.imex.required or not config.imex.channel_ids:
        return
    channel = machine.nvidia_install and machine.nvidia_install.imex_channel
    if channel is None:
        yield FINDINGS.finding("imex-channel-unknown")
    elif not channel:
        yield FINDINGS.finding("imex-channel-missing")


def _ways(sharing: Sharing) -> Iterator[tuple[str, SharedResources]]:
    if sharing.time_slicing:
        yield "timeSlicing", sharing.time_slicing
    if sharing.mps:
        yield "mps", sharing.mps
