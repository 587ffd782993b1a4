"""Trays of a rack: what trays joined by NVLink must agree on, and where they differ."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numaforge.lib.ordering import grouped
from numaforge.machine.topology.memory_mode import driver_branch, gpu_memory_mode
from numaforge.machine.topology.model import NodeTopology

NODE_LISTS = "list of IMEX nodes"
"""What differs where trays of a clique list different nodes than their peers: no memory is shared."""

BY_HOST, NOT_BY_HOST = "the host's unit", "no unit of the host"
"""Who runs the IMEX daemon of a tray."""

_SHOWN = 8  # leading characters of a checksum


@dataclass(frozen=True)
class Tray:
    """What the trays of a rack must agree on; None is unknown, or irrelevant.

    `cliques` are those of its GPUs, "CLUSTER.CLIQUE". `imex` says who runs IMEX, `nodes` is the checksum of
    the node list of a daemon on the host, and `nodes_count` its length.
    """

    cliques: tuple[str, ...]
    driver: str | None = None  # "branch 580"
    memory_mode: str | None = None
    imex: str | None = None
    nodes: str | None = None
    nodes_count: int | None = None

    @property
    def cluster(self) -> str:
        """The UUID of its NVLink domain, the rack."""
        return cluster_of(self.cliques[0])

    @property
    def clique(self) -> str | None:
        """Its clique; None where its GPUs are in several."""
        return self.cliques[0] if len(self.cliques) == 1 else None


@dataclass(frozen=True)
class Disagreement:
    """A difference between trays of a rack: the hosts by value, the most common value first."""

    rack: str  # "NVLink clique 0011.7", "NVLink domain 0011"
    what: str
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(host for hosts in self.groups.values() for host in hosts)


def tray_of(machine: NodeTopology) -> Tray | None:
    """Return the machine as a tray of its rack; None where none of its GPUs is in an NVLink domain."""
    cliques = cliques_of(machine)
    if not cliques:
        return None
    install, mode, branch = machine.nvidia_install, gpu_memory_mode(machine), driver_branch(machine)
    by_host = install is not None and install.imex_service == "enabled"
    service_known = install is not None and install.imex_service is not None
    return Tray(
        cliques,
        None if branch is None else f"branch {branch}",
        mode.mode if mode else None,
        (BY_HOST if by_host else NOT_BY_HOST) if service_known else None,
        install.imex_list if install and by_host else None,
        install.imex_nodes if install and by_host else None,
    )


def tray_in(document: Mapping[str, Any] | None) -> Tray | None:
    """Return the tray in a mapping; None for None."""
    return None if document is None else Tray(**{**document, "cliques": tuple(document["cliques"])})


def cliques_of(machine: NodeTopology) -> tuple[str, ...]:
    """Return the NVLink cliques of a machine's GPUs, "CLUSTER.CLIQUE"."""
    return tuple(sorted({gpu.fabric for gpu in machine.gpus if gpu.fabric}))


def cluster_of(clique: str) -> str:
    """Return the NVLink domain (the rack) of a clique."""
    return clique.rpartition(".")[0] or clique


def disagreements(trays: Mapping[str, Tray]) -> tuple[Disagreement, ...]:
    """Return what trays, by host, differ in; what is unknown of a tray is not compared.

    A rack must have one clique and one mode of the GPUs' memory; a clique one driver branch, one way to run
    IMEX and one list of IMEX nodes.
    """
    racks: dict[str, dict[str, Tray]] = {}
    cliques: dict[str, dict[str, Tray]] = {}
    for host, tray in trays.items():
        racks.setdefault(tray.cluster, {})[host] = tray
        for clique in tray.cliques:
            cliques.setdefault(clique, {})[host] = tray
    differing: list[Disagreement] = []
    for cluster, in_rack in racks.items():
        rack = f"NVLink domain {cluster}"
        differing += _differing(rack, "clique", {host: tray.clique for host, tray in in_rack.items()})
        modes = {host: tray.memory_mode for host, tray in in_rack.items()}
        differing += _differing(rack, "mode of the GPUs' memory", modes)
    for clique, in_clique in cliques.items():
        rack = f"NVLink clique {clique}"
        differing += _differing(rack, "driver", {host: tray.driver for host, tray in in_clique.items()})
        differing += _differing(rack, "IMEX daemon", {host: tray.imex for host, tray in in_clique.items()})
        differing += _differing(rack, NODE_LISTS, {host: _list_of(tray) for host, tray in in_clique.items()})
    return tuple(differing)


def by_value(values: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the hosts with each value, the most common value first."""
    groups = grouped((value, host) for host, value in values.items())
    return {value: tuple(hosts) for value, hosts in sorted(groups.items(), key=lambda each: -len(each[1]))}


def _differing(rack: str, subject: str, values: Mapping[str, str | None]) -> list[Disagreement]:
    groups = by_value({host: value for host, value in values.items() if value is not None})
    return [Disagreement(rack, subject, groups)] if len(groups) > 1 else []


def _list_of(tray: Tray) -> str | None:
    counted = "" if tray.nodes_count is None else f" ({tray.nodes_count} nodes)"
    return None if tray.nodes is None else f"{tray.nodes[:_SHOWN]}{counted}"
