"""Volcano: Numatopology, HyperNodes of NVLink domains, and a queue with a job of the size that fits."""

import re
from collections.abc import Iterator

from numaforge.cluster.schedulers.fleet import ServedFleet, ServedNode, Written, gang_pod, gang_template
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.kubernetes_objects import CLIQUE, Manifest, manifest

WHY = "Volcano's plugins numa-aware and network-topology-aware, both off in its default configuration"
_PARTS = re.compile(r"[^a-z0-9]+")


def documents(fleet: ServedFleet) -> Iterator[Written]:
    """Yield a Numatopology for each node that it can express, HyperNodes, and examples."""
    nodes = tuple(_numatopology(node) for node in fleet.sayable() if _has_places(node, fleet))
    if nodes:
        yield Written(
            "numatopologies.yaml",
            "where no resource-exporter runs: it knows the reserved CPUs of each NUMA node",
            nodes,
        )
    if hypernodes := tuple(_hypernodes(fleet)):
        yield Written(
            "hypernodes.yaml", f"the NVLink domains, by the label {CLIQUE} of feature discovery", hypernodes
        )
    why = "a gang: a pod a node, the largest that every node takes"
    yield Written("example.yaml", why, _example(fleet), example=True)


def _has_places(node: ServedNode, fleet: ServedFleet) -> bool:
    """Return whether core, package and NUMA node of each CPU are known; else the node is left out."""
    machine = node.machine
    of_cores = {cpu for core in machine.cores for cpu in core.cpus}
    of_packages = {cpu for package in machine.packages for cpu in package.cpus}
    of_zones = {cpu for zone in node.zones for cpu in zone.cpus}
    unknown = frozenset(machine.online) - (of_cores & of_packages & of_zones)
    if unknown:
        cpus = format_cpulist(unknown)
        fleet.left_out[node.name] = f"core, package or NUMA node of its CPUs {cpus} is not known"
    return not unknown


def _numatopology(node: ServedNode) -> Manifest:
    """Return a node's object.

    Reserved CPUs are not in `allocatable`, and `resReserved` is 0: Volcano would subtract the lowest cores of
    the first package for it, wherever the reserved ones are.
    """
    cpus = sorted(node.machine.online)
    cores = {cpu: min(core.cpus) for core in node.machine.cores for cpu in core.cpus}
    packages = {cpu: package.id for package in node.machine.packages for cpu in package.cpus}
    zones = {cpu: zone.id for zone in node.zones for cpu in zone.cpus}
    allocatable = format_cpulist(frozenset(cpus) - node.plan.cpus.reserved)
    spec = {
        "policies": {"CPUManagerPolicy": node.cpu_manager, "TopologyManagerPolicy": node.policy},
        "resReserved": {"cpu": "0"},
        "numares": {"cpu": {"allocatable": allocatable, "capacity": len(cpus)}},
        "cpuDetail": {
            str(cpu): {"numa": zones[cpu], "socket": packages[cpu], "core": cores[cpu]} for cpu in cpus
        },
    }
    return manifest("nodeinfo.volcano.sh/v1alpha1", "Numatopology", node.name, spec=spec)


def _hypernodes(fleet: ServedFleet) -> Iterator[Manifest]:
    cliques = sorted({node.clique for node in fleet.nodes if node.clique})
    for clique in cliques:
        match = {"labelMatch": {"matchLabels": {CLIQUE: clique}}}
        yield _hypernode(clique, 1, "nvlink-clique", [{"type": "Node", "selector": match}])
    for domain in sorted({clique.rpartition(".")[0] for clique in cliques}):
        below = [clique for clique in cliques if clique.rpartition(".")[0] == domain]
        if len(below) > 1:
            members = [
                {"type": "HyperNode", "selector": {"exactMatch": {"name": _hypernode_name(clique)}}}
                for clique in below
            ]
            yield _hypernode(domain, 2, "nvlink-domain", members)


def _hypernode(name: str, tier: int, tier_name: str, members: list[Manifest]) -> Manifest:
    spec = {"tier": tier, "tierName": tier_name, "members": members}
    return manifest("topology.volcano.sh/v1alpha1", "HyperNode", _hypernode_name(name), spec=spec)


def _hypernode_name(domain: str) -> str:
    return f"nvl-{_PARTS.sub('-', domain.lower())}"


def _example(fleet: ServedFleet) -> tuple[Manifest, ...]:
    first, count = fleet.nodes[0], len(fleet.nodes)
    policy = {"topologyPolicy": first.policy} if first.policy != "none" else {}
    gang = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}} if first.clique else {}
    devices = {name: str(int(amount) * count) for name, amount in gang_pod(fleet).items() if "/" in name}
    queue = {"weight": 1, "reclaimable": True, **({"capability": devices} if devices else {})}
    job = {
        "schedulerName": "volcano",
        "queue": "numaforge",
        "minAvailable": count,
        **gang,
        "tasks": [
            {
                "name": "worker",
                "replicas": count,
                **policy,
                "template": gang_template(fleet, {"app.kubernetes.io/name": "numaforge-example"}),
            }
        ],
    }
    return (
        manifest("scheduling.volcano.sh/v1beta1", "Queue", "numaforge", labels={}, spec=queue),
        manifest("batch.volcano.sh/v1alpha1", "Job", "numaforge-example", "default", {}, spec=job),
    )
