"""Machines of many shapes: uneven memory, memory-only NUMA nodes, offline siblings, several L3s."""

from dataclasses import replace

from hypothesis import strategies as st

from numaforge.machine.topology.model import Core, HugepagePool, NodeTopology, NumaNode
from tests.fixtures.machines import kubeadm_kubelet, machine

MIB = 2**20
KIB = 2**10


@st.composite
def machines(draw: st.DrawFn, *, with_memory_only: bool = True, with_offline: bool = True) -> NodeTopology:
    """Draw a machine with at least two cores and a kubelet laid out by kubeadm."""
    packages = draw(st.integers(1, 3))
    per_package = draw(st.integers(1, 3))
    cores = draw(st.integers(2, 5))
    count = packages * per_package
    memory = draw(st.lists(st.integers(2**19, 2**22), min_size=count, max_size=count))
    minor = draw(st.integers(31, 36))
    topology = machine(
        packages=packages,
        numa_nodes_per_package=per_package,
        cores_per_numa_node=cores,
        threads=draw(st.sampled_from((1, 2, 4))),
        siblings=draw(st.sampled_from(("far", "near"))),
        cores_per_l3=draw(st.integers(1, cores)),
        numa_memory_bytes=tuple(kib * KIB for kib in memory),
        kubelet=kubeadm_kubelet(f"1.{minor}.1"),
    )
    if with_memory_only and draw(st.booleans()):
        topology = _with_memory_only_node(topology, draw(st.integers(1, 2**20)) * KIB)
    if with_offline and draw(st.booleans()):
        topology = _with_cpu_offline(topology, draw(st.sampled_from(sorted(topology.online))))
    return topology


def shuffled(draw: st.DrawFn, topology: NodeTopology) -> NodeTopology:
    """Return the same machine with every sequence and mapping in another order."""
    governors = topology.cpufreq.governors if topology.cpufreq else {}
    order = draw(st.permutations(sorted(governors)))
    return replace(
        topology,
        packages=tuple(draw(st.permutations(topology.packages))),
        numa_nodes=tuple(
            replace(node, hugepages=dict(draw(st.permutations(list(node.hugepages.items())))))
            for node in draw(st.permutations(topology.numa_nodes))
        ),
        cores=tuple(draw(st.permutations(topology.cores))),
        l3_caches=tuple(draw(st.permutations(topology.l3_caches))),
        cpufreq=replace(topology.cpufreq, governors={cpu: governors[cpu] for cpu in order})
        if topology.cpufreq
        else None,
    )


def _with_memory_only_node(topology: NodeTopology, memory_bytes: int) -> NodeTopology:
    own = max(node.id for node in topology.numa_nodes) + 3
    node = NumaNode(
        id=own,
        cpus=frozenset(),
        memory_bytes=memory_bytes,
        distances={**{node.id: 40 for node in topology.numa_nodes}, own: 10},
        hugepages={"2Mi": HugepagePool(0, 0)},
    )
    others = (replace(each, distances={**each.distances, own: 40}) for each in topology.numa_nodes)
    return replace(
        topology,
        numa_nodes=(*others, node),
        memory_bytes=(topology.memory_bytes or 0) + memory_bytes,
    )


def _with_cpu_offline(topology: NodeTopology, cpu: int) -> NodeTopology:
    gone = frozenset({cpu})
    cores = (Core(core.package, core.numa_node, core.cpus - gone) for core in topology.cores)
    return replace(
        topology,
        cpus=replace(topology.cpus, online=topology.online - gone, offline=gone),
        packages=tuple(replace(package, cpus=package.cpus - gone) for package in topology.packages),
        numa_nodes=tuple(replace(node, cpus=node.cpus - gone) for node in topology.numa_nodes),
        cores=tuple(core for core in cores if core.cpus),
        l3_caches=tuple(replace(cache, cpus=cache.cpus - gone) for cache in topology.l3_caches),
    )
