"""RDMA on one node: the pools for pods, the settings of libraries, and those of the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from numaforge.lib.reasons import Reasoned, Reasons
from numaforge.machine.topology.model import NodeTopology, RdmaDevice
from numaforge.machine.topology.rails import rails
from numaforge.machine.topology.runtime import pod_units
from numaforge.roles.modules.plan import rdma_modules
from numaforge.roles.rdma.libraries import plan_libraries
from numaforge.roles.rdma.nics.plan import named_nics
from numaforge.roles.rdma.planned import LibrariesPlan, NicSetting, RdmaGate, RdmaHostPlan, RdmaPlan

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.planning.profile import NodeProfile
    from numaforge.roles.rdma.planned import RdmaPool

_SETTINGS = ("max_read_request", "trust", "pfc")


def plan_rdma(
    machine: NodeTopology,
    profile: NodeProfile,
    pools: tuple[RdmaPool, ...],
    nics: tuple[NicSetting, ...],
    earlier: NodePlan | None,
) -> Reasoned[RdmaPlan]:
    """Return the pools for pods, and the settings of the host and of libraries."""
    host = plan_rdma_host(machine, profile)
    libraries = plan_libraries(machine, profile, earlier.rdma.libraries if earlier else LibrariesPlan())
    plan = RdmaPlan(
        pools=pools,
        pools_deployed=bool(pools) and profile.rdma.device_plugin.deployed,
        libraries=libraries.value,
        host=replace(host.value, nics=(*host.value.nics, *nics)),
    )
    decisions, notices = (*host.decisions, *libraries.decisions), (*host.notices, *libraries.notices)
    return Reasoned(plan, decisions, notices)


def plan_rdma_host(topology: NodeTopology, profile: NodeProfile) -> Reasoned[RdmaHostPlan]:
    """Return the host settings that the profile asks for; a notice names NICs that cannot have them."""
    wish = profile.rdma.host
    is_wanted = any(getattr(wish, name) is not None for name in (*_SETTINGS, "relaxed_ordering"))
    nics = _nics(topology, wish.nics) if is_wanted or wish.wait_for_virtual_functions else ()
    reasons = Reasons()
    if (is_wanted or wish.wait_for_virtual_functions) and not nics:
        reasons.notice("no-rdma-nic", "the machine has no NIC with RDMA: the settings of NICs are left out")
    plan = RdmaHostPlan(
        netns=wish.netns,
        memlock_units=pod_units(topology) if wish.memlock else (),
        nics=tuple(_settings(nics, profile, reasons)),
        gate=_gate(topology, nics, profile),
        character_devices=_character_devices(topology, profile),
    )
    if wish.relaxed_ordering is not None and nics:
        addresses = " ".join(nic.pci_address or "" for nic in nics)
        reasons.notice(
            "relaxed-ordering-is-firmware",
            "relaxed ordering is a setting of the NICs' firmware, which numaforge does not change; on the "
            f'drained node: for nic in {addresses}; do mlxconfig -y -d "$nic" set '
            f"PCI_WR_ORDERING={int(wish.relaxed_ordering)}; done, then reboot it",
        )
    _decide(plan, profile, reasons)
    return reasons.of(plan)


def _nics(topology: NodeTopology, selection: str | Sequence[str]) -> tuple[RdmaDevice, ...]:
    """Return the wanted physical functions, in the order of the rails."""
    on_rails = rails(topology)
    physical = [
        rail for rail in on_rails if rail.device.pci_address and rail.device.physical_function is None
    ]
    if selection == "rails":
        near = [rail.device for rail in physical if rail.gpus]
        return tuple(near or (rail.device for rail in physical))
    return tuple(named_nics([rail.device for rail in physical], selection, " with RDMA", "rdma.host.nics"))


def _settings(nics: Sequence[RdmaDevice], profile: NodeProfile, reasons: Reasons) -> Iterator[NicSetting]:
    wish = profile.rdma.host
    on_ethernet: dict[str, str] = {}
    if wish.trust is not None:
        on_ethernet["trust"] = wish.trust
    if wish.pfc is not None:
        on_ethernet["pfc"] = ",".join(map(str, wish.pfc)) or "none"
    lacking: dict[str, str] = {}
    for device in nics:
        if wish.max_read_request is not None and device.pci_address:
            yield NicSetting(device.pci_address, "max_read_request", str(wish.max_read_request))
        if not on_ethernet:
            continue
        reason = _not_ethernet(device)
        if reason:
            lacking[device.name] = reason
            continue
        for name, value in on_ethernet.items():
            yield NicSetting(device.interface or "", name, value)
    if lacking:
        lacking_text = ", ".join(f"{name} {reason}" for name, reason in lacking.items())
        reasons.notice("no-ethernet", f"{lacking_text}: {' and '.join(on_ethernet)} left alone there")


def _not_ethernet(device: RdmaDevice) -> str | None:
    """Return, in words, why a device has no Ethernet priorities; None where it has them."""
    layers = {port.link_layer for port in device.ports}
    if layers != {"Ethernet"}:
        return f"runs {' and '.join(sorted(str(layer or 'an unknown link layer') for layer in layers))}"
    return None if device.interface else "has no interface of its own"


def _gate(topology: NodeTopology, nics: Sequence[RdmaDevice], profile: NodeProfile) -> RdmaGate | None:
    wish = profile.rdma.host.wait_for_virtual_functions
    if wish is None or not nics:
        return None
    addresses = [nic.pci_address for nic in nics if nic.pci_address]
    if wish.count is not None:
        # The names of virtual functions depend on when they appear, so they are counted.
        devices = tuple(nic.name for nic in nics)
        return RdmaGate(devices, dict.fromkeys(addresses, wish.count), wish.timeout_seconds)
    functions = {
        device.name
        for device in topology.rdma_devices
        if device.physical_function in addresses or device in nics
    }
    return RdmaGate(tuple(sorted(functions)), {}, wish.timeout_seconds)


def _character_devices(topology: NodeTopology, profile: NodeProfile) -> dict[str, tuple[str, ...]]:
    """Return the kinds of character devices that verbs need, by device that pods may get.

    Only mlx5 is known to have management datagrams on every port: iWARP has none.
    """
    loaded = rdma_modules(profile)
    kinds = {"uverbs": "ib_uverbs" in loaded, "umad": "ib_umad" in loaded}
    if not any(kinds.values()):
        return {}
    needed = {
        rail.device.name: tuple(
            kind
            for kind, is_wanted in kinds.items()
            if is_wanted and (kind == "uverbs" or rail.device.driver == "mlx5_core")
        )
        for rail in rails(topology)
        if rail.device.pci_address
    }
    return {name: needed[name] for name in sorted(needed) if needed[name]}


def _decide(plan: RdmaHostPlan, profile: NodeProfile, reasons: Reasons) -> None:
    if plan.memlock_units:
        reasons.decide(
            "rdma.host.memlock",
            f"unlimited for {', '.join(plan.memlock_units)}",
            f"{profile.choice('rdma.host.memlock')}: pods inherit it, and verbs pin what they register",
        )
    for name in _SETTINGS:
        nics = [setting for setting in plan.nics if setting.name == name]
        if nics:
            subject = f"rdma.host.{name}"
            reason = f"{profile.choice(subject)}, on {', '.join(nic.nic for nic in nics)}"
            reasons.decide(subject, nics[0].value, reason)
    if plan.gate:
        number = sum(plan.gate.virtual_functions.values())
        devices = ", ".join((*plan.gate.devices, *([f"{number} virtual functions"] if number else [])))
        subject = "rdma.host.wait_for_virtual_functions"
        reasons.decide(
            subject,
            f"at most {plan.gate.seconds} s",
            f"{profile.choice(subject)}: a kubelet that starts before {devices} does not offer them",
        )
