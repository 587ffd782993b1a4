"""Checks of a shared RDMA device plugin's configuration, by itself and on a machine."""

from collections.abc import Iterator
from difflib import get_close_matches

from numaforge.findings import Finding, Severity
from numaforge.kubelet_minors.values.labels import qualified_name_complaints
from numaforge.machine.topology.model import NodeTopology
from numaforge.roles.rdma.plugin_config import NEW_FIELD, PluginConfig, PoolConfig, refusal
from numaforge.roles.rdma.pool_functions import SELECTORS, PluginFunction, lacking, plugin_functions, selected
from numaforge.roles.rdma.pools_section import LONGEST_PREFIX, PREFIX

SOURCE = "k8s-rdma-shared-dev-plugin v1.5.3"
_REMEDIES = {
    "periodicUpdateInterval": "write a number of seconds, 60 for example, or 0 for never",
    "configList": "write a configList with a resource",
    ".resourceName": "write letters, digits and '_', another name for each resource whatever its prefix",
    ".rdmaHcaMax": "write how many containers may share the resource, for example 63",
    "": "write selectors with at least one list that is not empty, and no devices",
}


def check_config(config: PluginConfig) -> tuple[Finding, ...]:
    if refused := refusal(config):
        where, message = refused
        field = next(key for key in _REMEDIES if where == key or (where.endswith(key) and "[" in where))
        return (
            Finding(
                "rdma-config-refused",
                Severity.ERROR,
                "the plugin ends with this error again and again, and the node advertises no resource of it",
                _REMEDIES[field],
                where,
                SOURCE,
                text=message,
            ),
            *_unknown(config),
        )
    return (*_unknown(config), *_interval(config), *(f for pool in config.pools for f in _pool(pool)))


def check_machine(config: PluginConfig, machine: NodeTopology) -> tuple[Finding, ...]:
    """Return the findings for a configuration, which the plugin accepts, on a machine."""
    functions = tuple(plugin_functions(machine).values())
    return (
        *_netns(machine),
        *_refused_devices(machine),
        *(finding for pool in config.pools for finding in _selection(pool, functions, machine)),
        *_overlaps(config, functions),
    )


def advertised(config: PluginConfig, machine: NodeTopology) -> dict[str, int]:
    """Return how many tokens of each resource a machine advertises: none where nothing is selected."""
    if refusal(config) or machine.rdma_netns == "exclusive":
        return {}
    functions = plugin_functions(machine).values()
    return {pool.resource: pool.tokens if selected(functions, pool.selectors) else 0 for pool in config.pools}


def _unknown(config: PluginConfig) -> Iterator[Finding]:
    for path, known_keys in config.unknown:
        near = get_close_matches(path.rpartition(".")[2], known_keys, n=1)
        yield Finding(
            "rdma-key-unknown",
            Severity.WARNING,
            f"{path} is not a key of the plugin, which drops it silently",
            f"did you mean {near[0]}?" if near else f"known here: {', '.join(known_keys)}",
            path,
            SOURCE,
        )


def _interval(config: PluginConfig) -> Iterator[Finding]:
    if config.interval == 0:
        yield Finding(
            "rdma-never-updated",
            Severity.NOTE,
            "a device that appears after the plugin has started, such as a virtual function, is in no "
            "resource until the plugin is restarted",
            "write 60, or leave periodicUpdateInterval out",
            "periodicUpdateInterval",
            SOURCE,
            text="warning: periodic update interval is 0, no periodic update will run",
        )


def _pool(pool: PoolConfig) -> Iterator[Finding]:
    if pool.tokens == 0:
        yield Finding(
            "rdma-without-tokens",
            Severity.ERROR,
            f"{pool.resource} is advertised with 0: no pod can have it",
            "write rdmaHcaMax: how many containers may share the resource, for example 63",
            f"{pool.place}.rdmaHcaMax",
            SOURCE,
        )
    if complaint := _name_complaint(pool):
        yield Finding(
            "rdma-name-refused",
            Severity.ERROR,
            f"the kubelet refuses {pool.resource}, and no pod can have it",
            "write a domain of small letters as the prefix, such as rdma, and a name that begins and ends "
            "with a letter or a digit",
            f"{pool.place}.{complaint}",
            "IsExtendedResourceName in pkg/apis/core/v1/helper/helpers.go",
            text=f'the ResourceName "{pool.resource}" is invalid',
        )
    if pool.devices:
        yield Finding(
            "rdma-devices-deprecated",
            Severity.NOTE,
            "devices is the old word for selectors.ifNames",
            "write selectors with ifNames",
            f"{pool.place}.devices",
            SOURCE,
            text=f'Warning: "devices" field is deprecated, it is recommended to use the new {NEW_FIELD}',
        )
    for name, texts in pool.selectors.items():
        for text in texts:
            if hint := _never_matches(name, text):
                yield Finding(
                    "rdma-selector-never",
                    Severity.WARNING,
                    f"{text!r} is like no device's: the plugin compares letter by letter",
                    hint,
                    f"{pool.place}.selectors.{name}",
                    SOURCE,
                )


def _name_complaint(pool: PoolConfig) -> str | None:
    """Return the field for which the kubelet rejects a resource's name; None where it accepts the name."""
    prefix = pool.resource.rpartition("/")[0]
    native = prefix == "kubernetes.io" or prefix.endswith(".kubernetes.io")
    if (
        native
        or len(prefix) > LONGEST_PREFIX
        or not PREFIX.fullmatch(prefix)
        or prefix.startswith("requests.")
    ):
        return "resourcePrefix"
    # A quota counts the resource as requests.PREFIX/NAME, which must be a valid name, too.
    return "resourceName" if qualified_name_complaints(f"requests.{pool.resource}") else None


def _never_matches(selector: str, text: str) -> str | None:
    """Return the remedy for a text that no device can match; None for one that may match."""
    hexadecimal = selector in ("vendors", "deviceIDs")
    if hexadecimal and (len(text) != 4 or text.strip("0123456789abcdef")):
        return "write four hexadecimal digits in small letters, without 0x, such as 15b3"
    if selector == "linkTypes" and text not in ("ether", "infiniband"):
        return "write ether or infiniband"
    if selector in ("ifNames", "drivers") and any(letter in text for letter in "*?[ /"):
        return "write each name in full"
    return None


def _netns(machine: NodeTopology) -> Iterator[Finding]:
    if machine.rdma_netns == "exclusive":
        yield Finding(
            "rdma-netns-exclusive",
            Severity.ERROR,
            "RDMA devices belong to one network namespace each on this machine: the plugin ends",
            "rdma system set netns shared; `options ib_core netns_mode=1` in /etc/modprobe.d for a boot",
            None,
            SOURCE,
            text="incorrect RDMA subsystem network namespace",
        )


def _refused_devices(machine: NodeTopology) -> Iterator[Finding]:
    for device in machine.rdma_devices:
        if device.management:
            continue
        if device.pci_address is None:
            yield Finding(
                "rdma-device-without-function",
                Severity.NOTE,
                f"{device.name} is a software device: the plugin finds devices below PCI functions only",
                "leave it to tests",
                device.name,
                SOURCE,
            )
        elif missing := lacking(device, machine):
            yield Finding(
                "rdma-device-refused",
                Severity.WARNING,
                f"{device.name} has no {' and no '.join(missing)}, and is in no resource",
                "offer it by another device plugin; devices without management datagrams (EFA, iWARP) never "
                "have umad",
                device.name,
                SOURCE,
                text=f"missing RDMA device spec for device {device.pci_address}, RDMA device "
                f'"{missing[0]}" not found',
            )


def _selection(
    pool: PoolConfig, functions: tuple[PluginFunction, ...], machine: NodeTopology
) -> Iterator[Finding]:
    selection = selected(functions, pool.selectors)
    where = f"{pool.place}.selectors"
    if not selection:
        yield Finding(
            "rdma-selects-nothing",
            Severity.WARNING,
            f"{pool.resource} selects no device of this machine, and is advertised with 0",
            _offer(pool, functions),
            where,
            SOURCE,
            text=f"Warning: no devices in device pool, creating empty resource server for {pool.name}",
        )
        return
    yield from _unmatched(pool, functions)
    managing = [device.name for function in selection for device in function.devices if device.management]
    if managing:
        yield Finding(
            "rdma-selects-management",
            Severity.ERROR,
            f"{pool.resource} selects {', '.join(managing)}: NVSwitches, which pods must not have",
            "select by ifNames",
            where,
        )
    names = [name for function in selection for name in function.names]
    if len(names) > 1:
        near = {device.numa_node for function in selection for device in function.devices}
        several = len(machine.numa_nodes) > 1 and len(near) > 1
        yield Finding(
            "rdma-selects-several",
            Severity.WARNING if several else Severity.NOTE,
            f"each container with one {pool.resource} gets all of {', '.join(names)}"
            + (", of several NUMA nodes: a pod cannot choose the NIC near its GPU" if several else ""),
            "write a resource for each device, selected by ifNames",
            where,
            "Mellanox/k8s-rdma-shared-dev-plugin#117",
        )


def _offer(pool: PoolConfig, functions: tuple[PluginFunction, ...]) -> str:
    """Return, in words, the machine's values for the selectors that exclude all of its devices.

    Where each selector has devices and only all of them together have none, those of every selector.
    """
    selectors = {name: texts for name, texts in pool.selectors.items() if texts}
    excluding = [name for name, texts in selectors.items() if not _values(name, functions) & set(texts)]
    offers = (
        f"{name} of this machine: {', '.join(sorted(_values(name, functions))) or 'none'}"
        + (f"; none is {' or '.join(selectors[name])}" if name in excluding else "")
        for name in excluding or selectors
    )
    return "; ".join(offers)


def _values(selector: str, functions: tuple[PluginFunction, ...]) -> set[str]:
    return {getattr(function, SELECTORS[selector]) for function in functions} - {""}


def _unmatched(pool: PoolConfig, functions: tuple[PluginFunction, ...]) -> Iterator[Finding]:
    for name, texts in pool.selectors.items():
        present = _values(name, functions)
        missing = [text for text in texts if text not in present and not _never_matches(name, text)]
        if missing:
            yield Finding(
                "rdma-selector-unmatched",
                Severity.NOTE,
                f"no device of this machine has {' or '.join(missing)}",
                f"{name} of this machine: {', '.join(sorted(present)) or 'none'}",
                f"{pool.place}.selectors.{name}",
                SOURCE,
            )


def _overlaps(config: PluginConfig, functions: tuple[PluginFunction, ...]) -> Iterator[Finding]:
    first: dict[str, PoolConfig] = {}
    reported: set[tuple[str, str]] = set()
    for pool in config.pools:
        for function in selected(functions, pool.selectors):
            first_pool = first.setdefault(function.address, pool)
            if first_pool is pool or (first_pool.place, pool.place) in reported:
                continue
            reported.add((first_pool.place, pool.place))
            yield Finding(
                "rdma-pools-overlap",
                Severity.WARNING,
                f"{first_pool.resource} and {pool.resource} both hold {', '.join(function.names)}: each "
                "counts its containers for itself",
                "let each device be selected once",
                f"{pool.place}.selectors",
                SOURCE,
            )
