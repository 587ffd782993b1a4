"""What the device plugin accepts but should not, and what it rejects only on some machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from numaforge.findings import Finding, Severity
from numaforge.kubelet.admission.inventory import inventory_of
from numaforge.machine.topology.model import NodeTopology
from numaforge.roles.device_plugin.advertised import CREATING, PLUGINS, STARTING, lost, refused, unshared
from numaforge.roles.device_plugin.announced import MOST_BYTES, announced_bytes, most_replicas
from numaforge.roles.mig.devices import mig_device_names, nvml_gpus

if TYPE_CHECKING:
    from numaforge.roles.device_plugin.config import DevicePluginConfig, SharedResources, Sharing

_MOST_MPS_CLIENTS = 48  # cmd/mps-control-daemon/mps/device.go: 16 before compute capability 7.5
_IGNORED = "is not yet supported in the config. Ignoring..."
_FLAGS = f"{STARTING}unable to validate flags: "
_MPS_DAEMON = f"{STARTING}error getting daemons: "
_ENDS = "the plugin ends with this error again and again, and the node advertises no GPU"


def check_config(config: DevicePluginConfig) -> tuple[Finding, ...]:
    """Return what is wrong with a configuration on every machine."""
    return (*_ignored(config), *_mps(config))


def check_answers(config: DevicePluginConfig, machine: NodeTopology) -> tuple[Finding, ...]:
    """Return what keeps the plugin from starting on a machine as it is, however its GPUs are cut."""
    return (*_lost(config, machine), *_imex(config, machine))


def check_machine(config: DevicePluginConfig, machine: NodeTopology) -> tuple[Finding, ...]:
    """Return what is wrong with a configuration on a machine, cut as its GPUs are."""
    if finding := check_strategy(config.flags.mig_strategy, machine):
        return (finding,)
    return (*_mig(config, machine), *_shares_nothing(config, machine), *_too_long(config, machine))


def check_strategy(strategy: str, machine: NodeTopology) -> Finding | None:
    """Return a finding where the migStrategy does not suit a machine's MIG geometry; None where it does."""
    if (refusal := refused(machine, strategy)) is None:
        return None
    return Finding(
        "mig-strategy-refused",
        Severity.ERROR,
        f"migStrategy {strategy} does not suit the MIG geometry of this machine: {_ENDS}",
        "choose mixed, or give all GPUs the same instances"
        if strategy == "single"
        else "leave out compute instances smaller than their GPU instance, or choose single, or none",
        "flags.migStrategy",
        text=refusal,
    )


def sentence(finding: Finding) -> str:
    """Return the finding's evidence, with the plugin's own message."""
    return f"{finding.evidence} ({finding.text})" if finding.text else finding.evidence


def _ignored(config: DevicePluginConfig) -> Iterator[Finding]:
    if config.resources.gpus or config.resources.mig:
        yield _unused(
            "resources-ignored",
            "resources",
            "the plugin names resources by itself: nvidia.com/gpu and nvidia.com/mig-PROFILE",
            f"Customizing the 'resources' field {_IGNORED}",
        )
    for way, sharing in _ways(config.sharing):
        for number, one in enumerate(sharing.resources):
            path = f"sharing.{way}.resources[{number}]"
            name = sharing.advertised_as(one.name)
            if one.rename and one.rename != name:
                yield _unused(
                    "rename-ignored",
                    f"{path}.rename",
                    f"the replicas are advertised as {name}; renameByDefault: true is the one other name "
                    "that there is",
                    f"Setting the 'rename' field in sharing.{way}.resources {_IGNORED}",
                )
            if one.devices != "all":
                yield _unused(
                    "devices-ignored",
                    f"{path}.devices",
                    f"all devices of {one.name} are shared",
                    f"Customizing the 'devices' field in sharing.{way}.resources {_IGNORED}",
                )
    if config.sharing.mps and config.sharing.time_slicing:
        yield _unused(
            "time-slicing-ignored",
            "sharing.timeSlicing",
            "sharing.mps goes before it, and the plugin does not report it",
        )


def _unused(rule: str, path: str, instead: str, text: str | None = None) -> Finding:
    return Finding(
        rule, Severity.WARNING, f"{path} has no effect: {instead}", "leave it out", path, text=text
    )


def _mps(config: DevicePluginConfig) -> Iterator[Finding]:
    if (mps := config.sharing.mps) is None:
        return
    if config.flags.mig_strategy == "mixed":
        yield Finding(
            "mps-with-mixed",
            Severity.ERROR,
            f"MPS shares full GPUs only: {_ENDS}",
            "use timeSlicing, or write migStrategy: none",
            "flags.migStrategy",
            text=f"{_FLAGS}using --mig-strategy=mixed is not supported with MPS",
        )
    if not config.flags.mps_root:
        yield Finding(
            "mps-root-elsewhere",
            Severity.NOTE,
            "mpsRoot is not in this file: it has to come from MPS_ROOT of the plugin's container",
            "write flags.mpsRoot: /run/nvidia/mps, or see that the container has it (NVIDIA's chart sets it)",
            "flags.mpsRoot",
            text=f"{_FLAGS}using MPS requires --mps-root to be specified",
        )
    for number, one in enumerate(mps.resources):
        if one.replicas > _MOST_MPS_CLIENTS:
            yield Finding(
                "mps-replicas",
                Severity.ERROR,
                f"an MPS server has at most {_MOST_MPS_CLIENTS} clients: its daemon ends with this error",
                f"write replicas: {_MOST_MPS_CLIENTS} or less",
                f"sharing.mps.resources[{number}].replicas",
                text=f"{_MPS_DAEMON}invalid MPS configuration: invalid device maximum allowed replicas "
                f"exceeded: {one.replicas} > {_MOST_MPS_CLIENTS}",
            )


def _mig(config: DevicePluginConfig, machine: NodeTopology) -> Iterator[Finding]:
    strategy = config.flags.mig_strategy
    with_mig = {index: gpu for index, gpu in nvml_gpus(machine).items() if gpu.mig_mode == "enabled"}
    if not with_mig:
        return
    if strategy == "none":
        yield Finding(
            "mig-not-advertised",
            Severity.WARNING,
            f"GPU {next(iter(with_mig))} is in MIG mode, and migStrategy none advertises it as a whole GPU: "
            "a pod that gets it can use one of its MIG devices at most",
            "write migStrategy: mixed or single",
            "flags.migStrategy",
        )
    elif config.sharing.mps:
        yield Finding(
            "mps-with-mig",
            Severity.ERROR,
            f"MPS shares full GPUs only: {_ENDS}",
            "use timeSlicing, or turn MIG off",
            "sharing.mps",
            text=f"{CREATING}failed to create plugin: sharing using MPS is not supported for MIG devices",
        )
    for index, gpu in with_mig.items():
        names = mig_device_names(gpu)
        if strategy != "none" and names is None:
            yield Finding(
                "mig-devices-unknown",
                Severity.WARNING,
                f"GPU {index} is in MIG mode, and what it is cut into is not known: it is not counted",
                "take the snapshot as root, with the driver loaded",
            )
        if strategy == "mixed" and names == ():
            yield Finding(
                "mig-without-devices",
                Severity.WARNING,
                f"GPU {index} is in MIG mode without MIG devices: it is advertised as nothing",
                "create GPU instances on it, or turn its MIG mode off",
                text=f"device {index} has no MIG devices configured",
            )


def _shares_nothing(config: DevicePluginConfig, machine: NodeTopology) -> Iterator[Finding]:
    resources = sorted(inventory_of(machine, config.flags.mig_strategy))
    for way, sharing in _ways(config.sharing):
        for number, one in enumerate(sharing.resources):
            if one.name not in resources:
                yield Finding(
                    "shares-nothing",
                    Severity.WARNING,
                    f"this machine has no {one.name} to share",
                    f"it advertises {', '.join(resources) or 'nothing'}",
                    f"sharing.{way}.resources[{number}].name",
                )


def _too_long(config: DevicePluginConfig, machine: NodeTopology) -> Iterator[Finding]:
    shared = config.sharing.taken
    for name, devices in unshared(config, machine).items():
        replicas = shared.replicas.get(name)
        if (size := announced_bytes(devices, replicas)) > MOST_BYTES:
            count, called = len(devices) * (replicas or 1), shared.advertised_as(name)
            yield Finding(
                "list-too-long",
                Severity.WARNING,
                f"the node advertises no {called}: the kubelet takes no list of {count} devices (its log: "
                f'"grpc: received message larger than max ({size} vs. {MOST_BYTES})")',
                f"write replicas: {most_replicas(devices)} or less",
                f"sharing.{'mps' if config.sharing.mps else 'timeSlicing'}",
            )


def _lost(config: DevicePluginConfig, machine: NodeTopology) -> Iterator[Finding]:
    if refusal := lost(machine, config.flags.mig_strategy):
        index, line = refusal
        yield Finding(
            "gpu-lost",
            Severity.ERROR,
            f"GPU {index} does not answer, and the plugin asks each GPU: {_ENDS}",
            "drain the node and reset the GPU, or power-cycle the host; the other GPUs come back with it",
            text=line,
        )


def _imex(config: DevicePluginConfig, machine: NodeTopology) -> Iterator[Finding]:
    if not config.imex.required or not config.imex.channel_ids:
        return
    channel = machine.nvidia_install and machine.nvidia_install.imex_channel
    if channel is None:
        yield Finding(
            "imex-channel-unknown",
            Severity.NOTE,
            "whether the host has an IMEX channel was not captured: without one the plugin does not start",
            "take the snapshot again, with the driver loaded",
            "imex.required",
        )
    elif not channel:
        yield Finding(
            "imex-channel-missing",
            Severity.ERROR,
            f"the host has no IMEX channel 0: {_ENDS}",
            "load the module nvidia with NVreg_CreateImexChannel0=1, or write required: false",
            "imex.required",
            text=f"{PLUGINS}error querying IMEX channels: requested IMEX channel channel0 does not exist",
        )


def _ways(sharing: Sharing) -> Iterator[tuple[str, SharedResources]]:
    if sharing.time_slicing:
        yield "timeSlicing", sharing.time_slicing
    if sharing.mps:
        yield "mps", sharing.mps
