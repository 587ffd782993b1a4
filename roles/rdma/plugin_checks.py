"""Checks of a shared RDMA device plugin's configuration, by itself and on a machine."""

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from numaforge.findings import Finding
from numaforge.findings.finding import Catalogue
from numaforge.kubelet_minors.values.labels import qualified_name_complaints
from numaforge.machine.topology.model import NodeTopology
from numaforge.roles.rdma import shared_plugin as plugin
from numaforge.roles.rdma.section import LONGEST_PREFIX, PREFIX
from numaforge.roles.rdma.shared_plugin import SELECTORS, PluginConfig, PluginFunction, PoolConfig

FINDINGS = Catalogue(Path(__file__).with_name("findings.json"))
_REMEDIES = {
    "periodicUpdateInterval": "write a number of seconds, 60 for example, or 0 for never",
    "configList": "write a configList with a resource",
    ".resourceName": "write letters, digits and '_', another name for each resource whatever its prefix",
    ".rdmaHcaMax": "write how many containers may share the resource, for example 63",
    "": "write selectors with at least one list that is not empty, and no devices",
}


def check_config(config: PluginConfig) -> tuple[Finding, ...]:
    if refused := plugin.refusal(config):
        where, message = refused
        field = next(key for key in _REMEDIES if where == key or (where.endswith(key) and "[" in where))
        finding = FINDINGS.finding(
            "rdma-config-refused", remedy=_REMEDIES[field], where=where, message=message
        )
        return (finding, *_unknown(config))
    never = (FINDINGS.finding("rdma-never-updated"),) if config.interval == 0 else ()
    return (*_unknown(config), *never, *(finding for pool in config.pools for finding in _pool(pool)))


def check_machine(config: PluginConfig, machine: NodeTopology) -> tuple[Finding, ...]:
    """Return the findings for a configuration, which the plugin accepts, on a machine."""
    functions = tuple(plugin.plugin_functions(machine).values())
    netns = (FINDINGS.finding("rdma-netns-exclusive"),) if machine.rdma_netns == "exclusive" else ()
    return (
        *netns,
        *_refused_devices(machine),
        *(finding for pool in config.pools for finding in _selection(pool, functions, machine)),
        *_overlaps(config, functions),
    )


def advertised(config: PluginConfig, machine: NodeTopology) -> dict[str, int]:
    """Return how many tokens of each resource a machine advertises: none where nothing is selected."""
    if plugin.refusal(config) or machine.rdma_netns == "exclusive":
        return {}
    functions = plugin.plugin_functions(machine).values()
    return {
        pool.resource: pool.tokens if plugin.selected(functions, pool.selectors) else 0
        for pool in config.pools
    }


def _unknown(config: PluginConfig) -> Iterator[Finding]:
    for path, known_keys in config.unknown:
        near = get_close_matches(path.rpartition(".")[2], known_keys, n=1)
        remedy = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known_keys)}"
        yield FINDINGS.finding("rdma-key-unknown", path=path, remedy=remedy)


def _pool(pool: PoolConfig) -> Iterator[Finding]:
    if pool.tokens == 0:
        yield FINDINGS.finding("rdma-without-tokens", resource=pool.resource, place=pool.place)
    if field := _name_complaint(pool):
        yield FINDINGS.finding("rdma-name-refused", resource=pool.resource, place=pool.place, field=field)
    if pool.devices:
        yield FINDINGS.finding("rdma-devices-deprecated", place=pool.place)
    for selector, texts in pool.selectors.items():
        for text in texts:
            if remedy := _never_matches(selector, text):
                yield FINDINGS.finding(
                    "rdma-selector-never", text=text, place=pool.place, selector=selector, remedy=remedy
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


def _refused_devices(machine: NodeTopology) -> Iterator[Finding]:
    for device in machine.rdma_devices:
        if device.management:
            continue
        if device.pci_address is None:
            yield FINDINGS.finding("rdma-device-without-function", device=device.name)
        elif missing := plugin.lacking(device, machine):
            yield FINDINGS.finding(
                "rdma-device-refused",
                device=device.name,
                address=device.pci_address,
                first=missing[0],
                missing=" and no ".join(missing),
            )


def _selection(
    pool: PoolConfig, functions: tuple[PluginFunction, ...], machine: NodeTopology
) -> Iterator[Finding]:
    selection = plugin.selected(functions, pool.selectors)
    resource, place = pool.resource, pool.place
    if not selection:
        yield FINDINGS.finding(
            "rdma-selects-nothing",
            resource=resource,
            place=place,
            name=pool.name,
            offer=_offer(pool, functions),
        )
        return
    yield from _unmatched(pool, functions)
    managing = [device.name for function in selection for device in function.devices if device.management]
    if managing:
        devices = ", ".join(managing)
        yield FINDINGS.finding("rdma-selects-management", resource=resource, place=place, devices=devices)
    names = [name for function in selection for name in function.names]
    if len(names) > 1:
        near = {device.numa_node for function in selection for device in function.devices}
        several = len(machine.numa_nodes) > 1 and len(near) > 1
        distance = ", of several NUMA nodes: a pod cannot choose the NIC near its GPU" if several else ""
        yield FINDINGS.finding(
            "rdma-selects-several",
            severity="warning" if several else "note",
            resource=resource,
            place=place,
            devices=", ".join(names),
            distance=distance,
        )


def _offer(pool: PoolConfig, functions: tuple[PluginFunction, ...]) -> str:
    """Return, in words, the machine's values for the selectors that exclude all devices, else for all."""
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
            yield FINDINGS.finding(
                "rdma-selector-unmatched",
                missing=" or ".join(missing),
                present=", ".join(sorted(present)) or "none",
                selector=name,
                place=pool.place,
            )


def _overlaps(config: PluginConfig, functions: tuple[PluginFunction, ...]) -> Iterator[Finding]:
    first: dict[str, PoolConfig] = {}
    reported: set[tuple[str, str]] = set()
    for pool in config.pools:
        for function in plugin.selected(functions, pool.selectors):
            first_pool = first.setdefault(function.address, pool)
            if first_pool is pool or (first_pool.place, pool.place) in reported:
                continue
            reported.add((first_pool.place, pool.place))
            yield FINDINGS.finding(
                "rdma-pools-overlap",
                first=first_pool.resource,
                second=pool.resource,
                devices=", ".join(function.names),
                place=pool.place,
            )
