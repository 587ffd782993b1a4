"""How near two devices are, and which GPUs NVLink joins, with hwloc and NCCL's rule as witnesses."""

from collections import Counter
from dataclasses import replace
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.machine.topology.links import (
    gpu_memory_nodes,
    gpu_names,
    link_between,
    link_matrix,
    nearest_numa_node,
    nodes_of_gpus,
    nvlink_domains,
    pci_distance,
)
from numaforge.machine.topology.model import Gpu, Nic, NumaNode
from numaforge.machine.topology.pci import read_pci_paths
from numaforge.machine.topology.rails import distance_to_device, rails
from numaforge.machine.topology.read import read_topology
from tests.fixtures import machines
from tests.fixtures.tables import cases
from tests.machines import files

A, B, C = "0000:1b:00.0", "0000:43:00.0", "0000:52:00.0"

ROOT = "pci0000:15"
PORT, OTHER_PORT = "0000:15:01.0", "0000:15:05.0"
UP, DOWN, OTHER_DOWN = "0000:16:00.0", "0000:17:00.0", "0000:17:01.0"
INNER_UP, INNER_DOWN = "0000:18:00.0", "0000:19:00.0"


def gpu(address, numa_node=0, **more):
    return Gpu(address, "10de", "2330", numa_node, **more)


def nic(address, numa_node=0, rdma_device=None, interface=None):
    return Nic(address, interface, rdma_device, None, None, None, numa_node)


def distance(one, other, nodes=(0, 0)):
    """Return the distance of a GPU and a NIC that lie at the ends of two paths, on these NUMA nodes."""
    devices = [gpu("0000:a0:00.0", nodes[0]), nic("0000:b0:00.0", nodes[1])]
    paths = {
        device.pci_address: (*path, device.pci_address)
        for device, path in zip(devices, (one, other), strict=True)
        if path
    }
    return pci_distance(*devices, replace(machines.lab_node(), pci_paths=paths))


@cases(
    "one, other, nodes, expected",
    {
        "one-switch": ((ROOT, PORT, UP, DOWN), (ROOT, PORT, UP, OTHER_DOWN), (0, 0), "PIX"),
        "functions-of-one-card": ((ROOT, PORT), (ROOT, PORT), (0, 0), "PIX"),
        "a-switch-below-a-switch": (
            (ROOT, PORT, UP, DOWN, INNER_UP, INNER_DOWN),
            (ROOT, PORT, UP, OTHER_DOWN),
            (0, 0),
            "PXB",
        ),
        "other-root-port": ((ROOT, PORT, UP, DOWN), (ROOT, OTHER_PORT), (0, 0), "PHB"),
        "both-on-the-root-bus-as-in-a-guest": ((ROOT,), (ROOT,), (0, 0), "PHB"),
        "the-path-needs-no-numa-node": ((ROOT, PORT), (ROOT, OTHER_PORT), (None, None), "PHB"),
        "other-host-bridge": ((ROOT, PORT), ("pci0000:37", "0000:37:01.0"), (1, 1), "NODE"),
        "other-numa-node": ((ROOT, PORT), ("pci0000:97", "0000:97:01.0"), (0, 1), "SYS"),
        "a-numa-node-is-unknown": ((ROOT, PORT), ("pci0000:97", "0000:97:01.0"), (None, 1), None),
        "same-numa-node-without-paths-is-anything-up-to-node": ((), (), (0, 0), None),
        "other-numa-nodes-without-paths": ((), (), (0, 1), "SYS"),
    },
)
def test_pcie_distance_is_found_and_symmetric(one, other, nodes, expected):
    assert distance(one, other, nodes) == expected
    assert distance(other, one, nodes[::-1]) == expected


def test_device_without_a_numa_node_is_near_the_only_node_with_cpus():
    grace = machines.grace_memory_only()
    ends = {"0009:01:00.0": ("pci0009:00",), "0002:01:00.0": ("pci0002:00",)}
    topology = replace(grace, pci_paths={end: (*path, end) for end, path in ends.items()})
    assert pci_distance(gpu("0009:01:00.0", None), nic("0002:01:00.0", None), topology) == "NODE"


@cases(
    "numa_node, distances, nearest",
    {
        "its-own": (1, {}, 1),
        "two-nodes-with-cpus-and-none-named": (None, {}, None),
        "a-node-of-memory-is-near-to-the-closer-cpus": (2, {0: 120, 1: 80}, 1),
        "a-node-of-memory-at-the-same-distance-from-both": (2, {0: 80, 1: 80}, None),
        "a-node-that-is-not-shown": (9, {}, 9),
    },
)
def test_device_is_near_a_numa_node_with_cpus(numa_node, distances, nearest):
    host = machines.machine(packages=2, cores_per_numa_node=2)
    memory = NumaNode(2, frozenset(), 2**36, distances, {})
    topology = replace(host, numa_nodes=(*host.numa_nodes, memory))
    assert nearest_numa_node(gpu(A, numa_node), topology) == nearest


# What hwloc read from the bridges' own registers, which bus numbers lie below each: tests/hwloc/linux of its
# 2.9.0, the .output of each machine. A bridge without an address is a host bridge.
HWLOC = {
    "supermicro-4029gp-8-vector-engines": """
        17-1e 17:00.0:18-1e 18:00.0:19-1e 19:04.0:1a-1a 19:08.0:1b-1b 19:0c.0:1c-1c 19:10.0:1d-1d
        19:14.0:1e-1e 3a-41 3a:00.0:3b-41 3b:00.0:3c-41 3c:04.0:3d-3d 3c:08.0:3e-3e 3c:0c.0:3f-3f
        3c:10.0:40-40 3c:14.0:41-41 5d-60 5d:02.0:5e-60 5e:00.0:5f-60""",
    "dell-dcs8000z-xeon-phi": """
        00-06 00:01.0:01-01 00:01.1:02-02 00:1c.0:04-05 04:00.0:05-05 00:1e.0:06-06 80-83 80:02.0:81-81
        80:02.2:82-82 80:03.0:83-83 7f-7f ff-ff""",
    "dell-r910-e7-4870": """
        00-09 00:03.0:01-01 00:05.0:02-02 00:06.0:03-03 00:07.0:04-04 00:08.0:05-05 00:09.0:06-06
        00:0a.0:07-07 00:1c.0:08-08 00:1e.0:09-09 40-46 40:01.0:42-42 40:03.0:43-43 40:05.0:44-44
        40:07.0:45-45 40:09.0:46-46""",
}


def by_hwloc(one, other, table):
    """Return PIX, PXB or PHB by the bridges whose buses hold both functions; None for other host bridges."""
    bridges = [entry.rpartition(":") for entry in table.split()]
    above = []
    for address in (one, other):
        bus = int(address[5:7], 16)
        ranges = [(bridge, [int(end, 16) for end in held.split("-")]) for bridge, _, held in bridges]
        above.append([(bridge, first) for bridge, (first, last) in ranges if first <= bus <= last])
    shared = [bridge for bridge in above[0] if bridge in above[1]]
    if not shared:
        return None
    if len(shared) == 1:
        return "PHB"
    return "PIX" if all(len(bridges) - len(shared) <= 1 for bridges in above) else "PXB"


@pytest.mark.parametrize("name", HWLOC)
def test_distances_below_one_host_bridge_match_hwlocs_tree(name):
    snapshot = next(file for file in files.machine_files() if file.name == name).snapshot()
    addresses = [path.rpartition("/")[2] for path in snapshot.links if path.count("/") == 5 and "pci" in path]
    paths = read_pci_paths(snapshot, addresses)
    inner = {bridge for path in paths.values() for bridge in path[:-1]}
    ends = sorted(address for address in paths if address not in inner)
    topology = replace(machines.lab_node(), pci_paths=paths)
    seen = set()
    for one, other in combinations(ends, 2):
        expected = by_hwloc(one, other, HWLOC[name])
        ours = pci_distance(nic(one), nic(other), topology)
        assert (ours if expected else None) == expected, (one, other)
        seen.add(ours)
    assert len(seen) > 1


def by_nccl(one, other, nodes):
    """Return NCCL's answer: from a function climb two folders at a time, to the CPU where no function is."""
    chains = []
    for path in (one, other):
        chain, place = [], len(path) - 1
        while place - 2 > 0:
            place -= 2
            chain.append(path[place])
        chains.append(chain)
    shared = [switch for switch in chains[0] if switch in chains[1]]
    if not shared:
        return "PHB" if nodes[0] == nodes[1] else "SYS"
    hops = max(chain.index(shared[0]) for chain in chains)
    return "PXB" if hops else "PIX"


@st.composite
def ends_of_a_tree(draw):
    """Two functions below host bridges, root ports and switches; a root port has a card or a switch."""

    def path():
        root, depths = draw(st.integers(0, 2)), draw(st.integers(0, 3))
        port = draw(st.integers(0, 1)) + (0 if depths else 2)
        parts = [f"pci0000:{root:x}0", f"0000:{root:x}0:0{port}.0"]
        for depth in range(depths):
            bus = f"0000:{root:x}{port + 1}"
            parts += [f"{bus}:{depth:x}0.0", f"{bus}:{depth:x}{draw(st.integers(1, 2))}.0"]
            if parts[-1].endswith("2.0"):  # below another port lies another switch
                port += 4
        return tuple(parts)

    return path(), path()


@given(ends_of_a_tree())
def test_distances_agree_with_nccl_for_every_tree_of_switches(ends):
    one, other = ends
    nodes = tuple(int(path[0][-2], 16) // 2 for path in ends)
    ours = distance(one, other, nodes)
    theirs = by_nccl((*one, "gpu"), (*other, "nic"), nodes)
    if one == other and len(one) == 2:  # functions of one card: NCCL looks for a switch
        assert (ours, theirs) == ("PIX", "PHB")
    else:
        assert {"NODE": "PHB"}.get(ours, ours) == theirs


SWITCH = {"switch": 18}


@cases(
    "one, other, expected",
    {
        "a-bridge": ({"nvlink_peers": {B: 4}}, {"nvlink_peers": {A: 4}}, "NV4"),
        "one-side-tells-both": ({"nvlink_peers": {B: 4}}, {}, "NV4"),
        "a-switch": ({"nvlink_peers": SWITCH}, {"nvlink_peers": SWITCH}, "NV18"),
        "the-fewer-links-count": ({"nvlink_peers": SWITCH}, {"nvlink_peers": {"switch": 17}}, "NV17"),
        "other-cliques-are-not-joined": (
            {"nvlink_peers": SWITCH, "fabric": "a.1"},
            {"nvlink_peers": SWITCH, "fabric": "a.2"},
            "SYS",
        ),
        "a-link-to-another-gpu": ({"nvlink_peers": {C: 4}}, {}, "SYS"),
        "one-hive": ({"xgmi_hive": "1"}, {"xgmi_hive": "1"}, "XGMI"),
        "two-hives": ({"xgmi_hive": "1"}, {"xgmi_hive": "2"}, "SYS"),
        "no-links": ({}, {}, "SYS"),
    },
)
def test_gpu_link_is_found_and_symmetric(one, other, expected):
    gpus = (gpu(A, 0, **one), gpu(B, 1, **other))
    assert link_between(*gpus, machines.lab_node()) == expected
    assert link_between(*gpus[::-1], machines.lab_node()) == expected


@cases(
    "gpus, domains",
    {
        "none-without-links": ([{}, {}], []),
        "a-switch-joins-all": ([{"nvlink_peers": SWITCH}] * 3, [(A, B, C)]),
        "a-bridge-joins-two": ([{"nvlink_peers": {B: 4}}, {}, {}], [(A, B)]),
        "links-join-by-way-of-others": ([{"nvlink_peers": {B: 4, C: 4}}, {}, {}], [(A, B, C)]),
        "cliques": ([{"fabric": "a.1"}, {"fabric": "a.1"}, {"fabric": "a.2"}], [(A, B), (C,)]),
        "a-peer-that-is-not-here": ([{"nvlink_peers": {"0000:ff:00.0": 4}}], []),
    },
)
def test_nvlink_domains_are_found(gpus, domains):
    listed = [gpu(address, 0, **more) for address, more in zip((A, B, C), gpus, strict=False)]
    assert [domain.gpus for domain in nvlink_domains(listed)] == domains


def test_nvlink_domain_across_hosts_has_its_fabric():
    (domain,) = nvlink_domains(machines.gb200_nvl72_tray().gpus)
    assert (len(domain.gpus), domain.fabric) == (4, "12345678-1234-4123-8123-123456789abc.32766")


def test_gpu_memory_is_on_numa_nodes_without_cpus():
    tray = machines.gb200_nvl72_tray()
    assert gpu_memory_nodes(tray) == {
        2: "0008:01:00.0",
        10: "0009:01:00.0",
        18: "0018:01:00.0",
        26: "0019:01:00.0",
    }
    assert gpu_memory_nodes(machines.gb200_cdmm()) == {}


def _without_initiators(topology, *, told: bool):
    """The machine by a kernel that names none, or (5.9 and older) does not tell of them."""
    initiator = False if told else None
    nodes = (replace(node, generic_initiator=initiator) for node in topology.numa_nodes)
    return replace(topology, numa_nodes=tuple(nodes))


@cases(
    "topology, nodes",
    {
        "the driver onlines their memory": (machines.gb200_nvl72_tray(), range(2, 34)),
        "NVML does not say whose it is": (machines.grace_blackwell_tray(), range(2, 34)),
        "CDMM leaves them empty": (machines.gb200_cdmm(), range(2, 34)),
        "a guest sees none": (machines.gb200_vm(), []),
        "four GH200": (machines.quad_gh200(), range(4, 36)),
        "a GB10 shares the CPU's memory": (machines.gb10(), []),
        "an old kernel: those that are empty": (
            _without_initiators(machines.gb200_cdmm(), told=False),
            range(2, 34),
        ),
        "the kernel says: none": (_without_initiators(machines.gb200_cdmm(), told=True), []),
        "cards": (machines.dgx_h100(), []),
    },
)
def test_grace_numa_nodes_reserved_by_firmware_belong_to_gpus(topology, nodes):
    assert nodes_of_gpus(topology) == set(nodes)


def test_generic_initiator_without_a_gpu_belongs_to_no_gpu():
    (file,) = (each for each in files.machine_files() if each.name == "xeon-6230-memory-without-cpus")
    assert nodes_of_gpus(read_topology(file.snapshot())) == set()


def test_gpu_memory_nodes_match_hwloc():
    file = next(file for file in files.machine_files() if file.name == "ibm-ac922-power9-6-v100")
    # NUMANode(GPUMemory) with PCIBusID in hwloc's nvidiagpunumanodes.kept.output.
    assert gpu_memory_nodes(read_topology(file.snapshot())) == {
        250: "0035:05:00.0",
        251: "0035:04:00.0",
        252: "0007:00:00.0",
        253: "0006:00:00.0",
        254: "0004:06:00.0",
        255: "0004:05:00.0",
    }


@cases(
    "indexes, names",
    {
        "by-pci-address-without-nvml": ((None, None, None), ["GPU0", "GPU1", "GPU2"]),
        "by-nvmls-index": ((0, 1, 2), ["GPU0", "GPU1", "GPU2"]),
        "a-lost-gpu-takes-no-number": ((0, None, 1), ["GPU0", "GPUa", "GPU1"]),
    },
)
def test_gpus_are_named_by_nvml_index_or_pci_order(indexes, names):
    gpus = [gpu(address, index=index) for address, index in zip((A, B, C), indexes, strict=True)]
    assert list(map(gpu_names(gpus).get, (A, B, C))) == names


def test_nics_are_listed_once_and_in_rdma_device_order():
    listed = [
        nic("0000:01:00.0", rdma_device="mlx5_10"),
        nic("0000:02:00.0", rdma_device="mlx5_2", interface="ib0"),
        nic("0000:02:00.0", rdma_device="mlx5_2", interface="ib0.8001"),
        nic("0000:03:00.0", interface="eno1"),
    ]
    devices = link_matrix(replace(machines.lab_node(), nics=tuple(listed))).devices
    assert [(device.name, device.label) for device in devices] == [("NIC0", "mlx5_2"), ("NIC1", "mlx5_10")]
    without_rdma = link_matrix(replace(machines.lab_node(), nics=(listed[3],))).devices
    assert [(device.name, device.label) for device in without_rdma] == [("NIC0", "eno1")]


@pytest.mark.parametrize(
    "build", [machines.dgx_h100, machines.hgx_a100, machines.mi300x_cpx, machines.gaudi2]
)
def test_link_matrix_is_symmetric_with_each_device_on_the_diagonal(build):
    matrix = link_matrix(build())
    for one, other in product(range(len(matrix.devices)), repeat=2):
        assert matrix.links[one][other] == matrix.links[other][one]
        assert (matrix.links[one][other] == "X") == (one == other)


@cases(
    "build, row, numa_nodes",
    {
        "dgx-a100-as-in-nvidia-nccl-1505-and-1435": (
            machines.hgx_a100,
            {"PXB": 2, "SYS": 6},
            [3, 3, 1, 1, 7, 7, 5, 5],
        ),
        "b200-with-two-gpus-a-numa-node-as-in-unsloth-3872": (
            machines.hgx_b200,
            {"PIX": 1, "NODE": 1, "SYS": 6},
            None,
        ),
    },
)
def test_modelled_distances_match_nvidia_smi_on_real_machines(build, row, numa_nodes):
    """Of each GPU to the NICs of the rails; which NUMA nodes a B200's GPUs are on differs by maker."""
    machine = build()
    on_rails = [one.device for one in rails(machine) if one.gpus]
    for gpu in machine.gpus:
        assert Counter(distance_to_device(gpu, device, machine) for device in on_rails) == row
    assert numa_nodes in (None, [gpu.numa_node for gpu in machine.gpus])
