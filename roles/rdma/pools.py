"""Which RDMA devices pods get together: a resource of the shared plugin for each rail, or as asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import chain
from typing import TYPE_CHECKING

from numaforge.lib.errors import PlanError
from numaforge.lib.ordering import grouped, natural
from numaforge.lib.reasons import Decision, Notice, Reasoned
from numaforge.machine.topology.model import NodeTopology, RdmaDevice
from numaforge.machine.topology.rails import Rail, rails
from numaforge.roles.modules.plan import netns_asked
from numaforge.roles.rdma.planned import RdmaPool
from numaforge.roles.rdma.section import PLACEHOLDERS, RESOURCE_NAME, RdmaSelection, SharedDevicePlugin
from numaforge.roles.rdma.shared_plugin import (
    PluginFunction,
    address_of,
    lacking,
    not_loaded,
    plugin_functions,
    selected,
)

if TYPE_CHECKING:
    from numaforge.planning.profile import NodeProfile

_WHERE = "rdma.device_plugin"


def plan_pools(topology: NodeTopology, profile: NodeProfile) -> Reasoned[tuple[RdmaPool, ...]]:
    """Return the pools that a profile asks for; none on a machine without devices to offer.

    Raises PlanError where the plugin cannot distinguish the devices of two pools, and where the profile gives
    each network namespace its own devices.
    """
    wish = profile.rdma.device_plugin
    if wish.per is None:
        return Reasoned(())
    netns, key = netns_asked(profile)
    if netns == "exclusive":
        raise PlanError(
            f"is {wish.per}, and {key} is exclusive: the shared device plugin gives one device to "
            "many pods, and does not start where each network namespace has devices of its own",
            where=f"{_WHERE}.per",
            remedy="set rdma.host.netns: shared for this plugin; or leave rdma.device_plugin out, where the "
            "RDMA CNI or a DRA driver moves devices into pods",
        )
    left_out = {device.name: _why_not(device, topology, wish) for device in topology.rdma_devices}
    offered = [device for device in topology.rdma_devices if left_out[device.name] is None]
    notices = (
        *(
            Notice("rdma-device-left-out", f"{name} is in no pool: {reason}")
            for name, reason in left_out.items()
            if reason
        ),
        *_selection_notices(topology, wish),
        *_host_notices(topology, offered, netns),
    )
    if not offered:
        lacking = "no RDMA device that can be offered" if topology.rdma_devices else "no RDMA device"
        nothing = f"this machine has {lacking}: the shared device plugin has nothing to do here"
        return Reasoned((), notices=(*notices, Notice("rdma-no-device", nothing)))
    functions = plugin_functions(topology, software_devices=wish.software_devices)
    all_rails = rails(_physical_alone(topology, wish))
    near = {rail.device.name: rail.gpus for rail in all_rails}
    groups = _devices_by_resource(offered, topology, wish, all_rails)
    pools = tuple(_pool(name, devices, functions, near, topology, wish) for name, devices in groups.items())
    _refuse_shared_functions(pools, wish)
    return Reasoned(pools, tuple(_decisions(pools, profile)), notices)


def _why_not(device: RdmaDevice, topology: NodeTopology, wish: SharedDevicePlugin) -> str | None:
    """Return why a device is not offered: "" where the profile leaves it out, None where it is offered."""
    if device.management:
        return "it manages NVSwitches and carries no traffic of pods"
    if device.pci_address is None:
        if not wish.software_devices:
            return "the plugin finds devices below PCI functions only, and it is a software device"
        if address_of(device, topology.nics) is None:
            return f"its interface {device.interface} has no PCI function, by which the plugin finds devices"
    if missing := lacking(device, topology):
        return f"the plugin refuses it: it has no {' and no '.join(missing)}"
    dropped = (
        (device.physical_function is not None and not wish.virtual_functions)
        or (bool(wish.include) and not _fits_one(device, wish.include))
        or _fits_one(device, wish.exclude)
    )
    if dropped:
        return ""
    if (
        not wish.down_ports
        and device.ports
        and all(port.state not in ("ACTIVE", None) for port in device.ports)
    ):
        return "none of its ports is active"
    return None


def _fits_one(device: RdmaDevice, selections: Iterable[RdmaSelection]) -> bool:
    return any(_fits(device, selection) for selection in selections)


def _fits(device: RdmaDevice, selection: RdmaSelection) -> bool:
    ids = {device.vendor, f"{device.vendor}:{device.device}"}
    tests = (
        (selection.names, lambda pattern: fnmatchcase(device.name, pattern)),
        (selection.interfaces, lambda pattern: fnmatchcase(device.interface or "", pattern)),
        (selection.link_layers, lambda layer: any(port.link_layer == layer for port in device.ports)),
        (selection.drivers, lambda driver: driver == device.driver),
        (selection.ids, lambda pci_id: pci_id in ids),
    )
    return all(any(map(test, values)) for values, test in tests if values)


def _devices_by_resource(
    offered: Sequence[RdmaDevice], topology: NodeTopology, wish: SharedDevicePlugin, all_rails: Sequence[Rail]
) -> dict[str, list[RdmaDevice]]:
    """Return the devices by resource name, in the order of the names."""
    numbers = {rail.device.name: rail.number for rail in all_rails}  # and of those left out, after them
    rest = sorted({device.name for device in topology.rdma_devices} - numbers.keys(), key=natural)
    numbers |= {name: len(numbers) + index for index, name in enumerate(rest)}
    keys: dict[str, Callable[[RdmaDevice], object]] = {
        "rail": lambda device: numbers[_physical(device, topology).name],
        "numa_node": lambda device: _numa_node(device, topology),
        "device": lambda device: device.name,
        "machine": lambda _: "",
    }
    key = keys[wish.per or "machine"]
    keyed = grouped(
        (key(device), device) for device in sorted(offered, key=lambda device: natural(device.name))
    )
    order = sorted(keyed, key=lambda value: natural(str(value)))
    return {_name(wish, value): keyed[value] for value in order}


def _numa_node(device: RdmaDevice, topology: NodeTopology) -> int:
    if device.numa_node is not None:
        return device.numa_node
    if len(topology.numa_nodes) == 1:
        return topology.numa_nodes[0].id
    raise PlanError(
        f"the firmware does not report the NUMA node of {device.name}",
        where=f"{_WHERE}.per",
        remedy="choose per: rail or per: device, or leave it out with exclude",
    )


def _physical_alone(topology: NodeTopology, wish: SharedDevicePlugin) -> NodeTopology:
    """Return a machine without its virtual functions, which belong to the rails of their physical ones.

    Port states are removed, too: resource names must not depend on a cable.
    """
    devices = (device for device in topology.rdma_devices if _physical(device, topology) is device)
    physical = tuple(
        replace(device, ports=tuple(replace(port, state=None) for port in device.ports))
        for device in devices
        if device.pci_address or wish.software_devices
    )
    return replace(topology, rdma_devices=physical)


def _physical(device: RdmaDevice, topology: NodeTopology) -> RdmaDevice:
    """Return the physical device of a virtual function, where it is present; else the device itself."""
    if device.physical_function is None:
        return device
    owners = (owner for owner in topology.rdma_devices if owner.pci_address == device.physical_function)
    return next(owners, device)


def _name(wish: SharedDevicePlugin, value: object) -> str:
    needed = PLACEHOLDERS[wish.per or "machine"]
    name = wish.pattern.replace(needed, str(value)) if needed else wish.pattern
    if not RESOURCE_NAME.fullmatch(name):
        raise PlanError(
            f"the plugin takes no resource {name!r}: letters, digits and '_' alone, at most 63",
            where=f"{_WHERE}.resource_name",
            remedy="choose per: rail, or give the device another name",
        )
    return name


def _pool(
    name: str,
    devices: Sequence[RdmaDevice],
    functions: Mapping[str, PluginFunction],
    near: Mapping[str, tuple[str, ...]],
    topology: NodeTopology,
    wish: SharedDevicePlugin,
) -> RdmaPool:
    addresses = sorted({address for device in devices if (address := address_of(device, topology.nics))})
    numa_nodes = {device.numa_node for device in devices}
    gpus = chain.from_iterable(near.get(_physical(device, topology).name, ()) for device in devices)
    return RdmaPool(
        resource=f"{wish.resource_prefix}/{name}",
        tokens=wish.hca_max,
        devices=tuple(device.name for device in devices),
        pci_addresses=tuple(addresses),
        selectors=_selectors([functions[address] for address in addresses], tuple(functions.values())),
        numa_node=numa_nodes.pop() if len(numa_nodes) == 1 else None,
        gpus=tuple(sorted(set(gpus))),
    )


def _selectors(
    chosen: Sequence[PluginFunction], functions: Sequence[PluginFunction]
) -> dict[str, tuple[str, ...]]:
    """Return selectors that choose exactly the `chosen` functions of a machine."""
    by_interface = {"ifNames": tuple(function.interface for function in chosen)}
    by_hardware = {
        "vendors": tuple(dict.fromkeys(function.vendor for function in chosen)),
        "deviceIDs": tuple(dict.fromkeys(function.device for function in chosen)),
        "drivers": tuple(dict.fromkeys(function.driver for function in chosen)),
    }
    for selectors in (by_interface, by_hardware):
        all_known = all(text for texts in selectors.values() for text in texts)
        if all_known and {function_chosen.address for function_chosen in selected(functions, selectors)} == {
            f.address for f in chosen
        }:
            return selectors
    bare = [function for function in chosen if not function.interface]
    names = ", ".join(name for function in bare or chosen for name in function.names)
    raise PlanError(
        f"the plugin cannot distinguish {names} from other devices: it chooses by network interface, vendor, "
        "device, driver and link type, and there is no interface",
        where=_WHERE,
        remedy="load ib_ipoib, which gives InfiniBand devices interfaces; or leave them out with exclude",
    )


def _refuse_shared_functions(pools: Sequence[RdmaPool], wish: SharedDevicePlugin) -> None:
    """Refuse two pools with devices of one PCI function: the plugin offers a function as a whole."""
    first: dict[str, RdmaPool] = {}
    for pool in pools:
        for address in pool.pci_addresses:
            first_pool = first.setdefault(address, pool)
            if first_pool is not pool:
                raise PlanError(
                    f"{first_pool.resource} and {pool.resource} are to hold devices of one PCI function, "
                    f"{address}: the plugin offers a function with all of its RDMA devices",
                    where=f"{_WHERE}.per",
                    remedy=f"choose a coarser one than {wish.per}, such as numa_node or machine",
                )


def _selection_notices(topology: NodeTopology, wish: SharedDevicePlugin) -> Iterator[Notice]:
    for key in ("include", "exclude"):
        for number, selection in enumerate(getattr(wish, key)):
            if topology.rdma_devices and not any(
                _fits(device, selection) for device in topology.rdma_devices
            ):
                yield Notice(
                    "rdma-selection-empty", f"{_WHERE}.{key}[{number}] fits no device of this machine"
                )


def _host_notices(
    topology: NodeTopology, offered: Sequence[RdmaDevice], netns: str | None
) -> Iterator[Notice]:
    if topology.rdma_netns == "exclusive" and netns is None:
        yield Notice(
            "rdma-netns-exclusive",
            "RDMA devices belong to one network namespace each on this host: the shared device plugin does "
            "not start until the mode is shared (`rdma system set netns shared`)",
        )
    if offered and (missing := not_loaded(topology)):
        yield Notice(
            "rdma-module-missing",
            f"no RDMA device has {' or '.join(missing)}: the shared device plugin refuses all of them until "
            f"{' and '.join(f'ib_{kind}' for kind in missing)} is loaded",
        )


def _decisions(pools: Iterable[RdmaPool], profile: NodeProfile) -> Iterator[Decision]:
    reason = profile.choice(f"{_WHERE}.per")
    for pool in pools:
        near = f", nearest to {', '.join(pool.gpus)}" if pool.gpus else ""
        amount = f"{', '.join(pool.devices)} for {pool.tokens} containers{near}"
        yield Decision(f"{_WHERE}.{pool.resource}", amount, reason)
