"""Racks as a whole: the trays that NVLink joins must agree."""

from collections.abc import Iterator, Mapping

from numaforge.findings import Finding, Rule, Severity
from numaforge.fleet.audit.facts import text_of
from numaforge.fleet.audit.machine import AuditedMachine
from numaforge.lib.ordering import grouped
from numaforge.machine.topology.trays import by_value, cluster_of

_DRIVER = "NA130"
_SHOWN = 8  # letters of a checksum
_SOURCE = "the other trays of its rack"
_SAME_LIST = "write the same /etc/nvidia-imex/nodes_config.cfg on every tray, and restart nvidia-imex on all"
_ONE_MODE = "say gpu_memory in the profile of all trays: else the rack's Nodes are of two sizes"
_NMX = "ask the fabric's own manager (NMX) for the partition: a job over two cliques never forms"

RACK_RULES: tuple[Rule, ...] = (
    Rule("NA201", Severity.ERROR, "GPUs of one tray are in several NVLink cliques"),
    Rule("NA202", Severity.WARNING, "a tray is in another clique than most of its rack"),
    Rule("NA203", Severity.ERROR, "trays of one clique run several drivers"),
    Rule("NA204", Severity.ERROR, "trays of one clique have lists of IMEX nodes of several lengths"),
    Rule("NA205", Severity.WARNING, "trays of one clique run IMEX in several ways"),
    Rule("NA206", Severity.ERROR, "trays of one clique have several lists of IMEX nodes of one length"),
    Rule("NA207", Severity.WARNING, "trays of a rack have the GPUs' memory managed in several ways"),
)
_RULE = {rule.id: rule for rule in RACK_RULES}


def racks_of(machines: Mapping[str, AuditedMachine]) -> dict[str, list[str]]:
    """Return the trays of each NVLink domain with more than one, by its cluster's UUID."""
    racks = grouped(
        (cluster, name)
        for name, machine in machines.items()
        for cluster in dict.fromkeys(cluster_of(fabric) for fabric in machine.fabrics)
    )
    return {cluster: names for cluster, names in racks.items() if len(names) > 1}


def rack_findings(machines: Mapping[str, AuditedMachine]) -> Iterator[tuple[str, Finding]]:
    """Yield what is wrong with trays as parts of their racks, each with the tray's name."""
    for name, machine in machines.items():
        if len(machine.fabrics) > 1:
            yield name, _finding("NA201", f"its GPUs are in {', '.join(machine.fabrics)}", _NMX)
    for cluster, names in racks_of(machines).items():
        single = {name: machines[name].fabrics[0] for name in names if len(machines[name].fabrics) == 1}
        yield from _minority("NA202", single, f"NVLink domain {cluster}", _NMX)
        modes = {name: mode for name in names if (mode := machines[name].gpu_memory)}
        yield from _minority("NA207", modes, f"NVLink domain {cluster}", _ONE_MODE)
    cliques = grouped((fabric, name) for name, machine in machines.items() for fabric in machine.fabrics)
    for clique, names in cliques.items():
        yield from _clique({name: machines[name] for name in names}, f"NVLink clique {clique}")


def _clique(trays: Mapping[str, AuditedMachine], where: str) -> Iterator[tuple[str, Finding]]:
    drivers = {
        name: text_of(version)
        for name, tray in trays.items()
        if (version := tray.facts.get(_DRIVER, {}).get("version")) is not None
    }
    nodes = {name: f"{tray.imex['nodes']} nodes" for name, tray in trays.items() if "nodes" in tray.imex}
    services = {name: tray.imex["service"] for name, tray in trays.items() if "service" in tray.imex}
    yield from _minority("NA203", drivers, where, "install one driver on every tray, the rack drained")
    yield from _minority("NA204", nodes, where, _SAME_LIST)
    if len({*nodes.values()}) < 2:
        lists = {name: tray.imex["list"][:_SHOWN] for name, tray in trays.items() if "list" in tray.imex}
        yield from _minority("NA206", lists, where, _SAME_LIST)
    yield from _minority(
        "NA205",
        services,
        where,
        "run IMEX as a service on every tray, or on none (driver-managed ComputeDomains)",
    )


def _minority(rule: str, values: Mapping[str, str], where: str, remedy: str) -> Iterator[tuple[str, Finding]]:
    """Yield a finding for each tray that differs from the majority; for all without a majority."""
    groups = by_value(values)
    if len(groups) < 2:
        return
    most, having = next(iter(groups.items()))
    number = len(having)
    tie = number * 2 <= len(values)
    counts = ", ".join(f"{len(names)} have {value}" for value, names in groups.items())
    for name, value in values.items():
        if tie or value != most:
            evidence = f"{value}; {counts}" if tie else f"{value}; {number} trays have {most}"
            yield name, _finding(rule, evidence, remedy, where)


def _finding(rule: str, evidence: str, remedy: str, where: str | None = None) -> Finding:
    return Finding(rule, _RULE[rule].severity, evidence, remedy, where, _SOURCE)
