"""What is reserved where no admin says an amount: how much, where, and why."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.machine.topology.model import HugepagePool, Nic, NodeTopology, Nvme
from numaforge.machine.topology.read import read_topology
from numaforge.roles.cpus.default_amounts import default_cores, default_memory, most_cores
from tests.fixtures.machines import dgx_h100, kubeadm_kubelet, lab_node, machine, with_cpu_states
from tests.fixtures.plans import after, decided, planned, refusal
from tests.machines import files

MIB = 2**20
GIB = 2**30


def captured(name: str) -> NodeTopology:
    return replace(read_topology(files.stored(name).snapshot()), swap_bytes=0)


def altra_128() -> NodeTopology:
    return machine(cores_per_numa_node=128, threads=1, numa_memory_bytes=512 * GIB, architecture="aarch64")


def l3_as_numa_512() -> NodeTopology:
    return machine(
        packages=2,
        numa_nodes_per_package=16,
        cores_per_numa_node=8,
        cores_per_l3=8,
        numa_memory_bytes=24 * GIB,
    )


def nic(address: str, node: int | None, driver: str = "mlx5_core") -> Nic:
    return Nic(address, None, None, "Ethernet", None, driver, node)


def with_nics(*nodes: int | None, driver: str = "mlx5_core", topology: NodeTopology | None = None):
    nics = tuple(nic(f"0000:{index:02x}:00.0", node, driver) for index, node in enumerate(nodes))
    return replace(topology or machine(packages=2, cores_per_numa_node=32), nics=nics)


# Many NUMA nodes stall the topology manager, which is not the matter here.
plan = partial(planned, kubelet={"topology_manager_policy": "none"})


def reserved(topology: NodeTopology, **profile) -> str:
    return format_cpulist(plan(topology, **profile).cpus.reserved)


# The machines, their CPUs, and how many of those are reserved; tests/machines has others with `cpu-only`.
ON_MACHINES = {
    "altra-4-of-128": (altra_128, 128, "0-3"),
    "l3-as-numa-16-of-512": (l3_as_numa_512, 512, "0-3,128-131,256-259,384-387"),
}


@pytest.mark.parametrize(("build", "cpus", "expected"), ON_MACHINES.values(), ids=ON_MACHINES.keys())
def test_reserved_cpus_fit_the_machine(build, cpus, expected):
    topology = build()
    assert len(topology.online) == cpus
    assert reserved(topology) == expected


@given(st.integers(1, 512), st.integers(1, 8), st.integers(0, 500))
def test_cores_grow_up_to_the_cap(cores, threads, devices):
    count = default_cores(cores, cores * threads, devices)
    assert 1 <= count <= most_cores(cores)
    assert count <= default_cores(cores, cores * threads, devices + 1)
    assert count <= default_cores(cores + 1, (cores + 1) * threads, devices)


@given(st.integers(0, 8 * 2**40), st.integers(0, 2**31 - 1))
def test_memory_grows_up_to_the_cap(usable, pods):
    amounts = default_memory(usable, pods)
    assert 0 <= amounts.kube <= usable // 8
    assert 0 <= amounts.system <= min(usable // 64, 4 * GIB)
    assert not amounts.kube % MIB
    assert not amounts.system % MIB
    assert amounts.kube <= default_memory(usable + GIB, pods).kube
    assert amounts.kube <= default_memory(usable, pods + 1).kube


def test_reasons_name_the_counted_devices_and_pods():
    chosen = plan(dgx_h100())
    assert decided(chosen, "cpus.reserved")[1] == (
        "unset in the profile, so 6 whole cores: one CPU for each 32 of 224, one for each 8 devices (8 "
        "GPUs, 8 NICs), 7 whole cores at most; on the NUMA nodes of devices, where these interrupt, lowest "
        "first, isolated CPUs last: no pod gets one of their threads to itself"
    )
    assert "for each of 110 pods" in decided(chosen, "memory.kube_reserved")[1]


PLACES = {
    "where-devices-interrupt": (with_nics(1, 1), {}, "32-34,96-98"),
    "the-same-from-each-of-these": (with_nics(0, 1, 1), {}, "0-1,32-33,64-65,96-97"),
    "everywhere-where-no-device-is-known-to-be": (with_nics(None), {}, "0-1,32-33,64-65,96-97"),
    "away-from-devices": (with_nics(1, 1), {"avoid": "devices"}, "0-2,64-66"),
    "away-where-there-is-room": (with_nics(0, 1), {"avoid": "devices"}, "0-1,32-33,64-65,96-97"),
    "what-a-guest-has-does-not-count": (with_nics(1, driver="vfio-pci"), {}, "0,32,64,96"),
    "a-number-goes-where-devices-interrupt-first": (with_nics(1), {"reserved": {"cores": 1}}, "32,96"),
    "a-number-away": (with_nics(0), {"reserved": {"cores": 2}, "avoid": "devices"}, "32-33,96-97"),
}


@pytest.mark.parametrize(("topology", "cpus", "expected"), PLACES.values(), ids=PLACES.keys())
def test_reserved_cores_are_spread_by_topology(topology, cpus, expected):
    assert reserved(topology, cpus=cpus) == expected


def test_interrupts_of_drives_and_accelerators_count():
    drives = tuple(Nvme(f"0000:{index:02x}:00.0", "nvme", 1) for index in range(8))
    assert reserved(replace(machine(packages=2, cores_per_numa_node=32), nvmes=drives)) == "32-34,96-98"


ISOLATED = parse_cpulist("0-3,8-11")
KEPT_APART = {
    "isolated": with_cpu_states(lab_node(), isolated=ISOLATED),
    "nohz_full": replace(lab_node(), nohz_full=ISOLATED),
}


@pytest.mark.parametrize("topology", KEPT_APART.values(), ids=KEPT_APART.keys())
def test_housekeeping_cpus_are_reserved_before_isolated_ones(topology):
    assert reserved(topology) == "4-5"
    assert reserved(topology, cpus={"reserved": {"cores": 3}}) == "4-7,12-13"
    assert reserved(topology, cpus={"reserved": {"cores_per_package": 1}}) == "4-5,12-13"


def test_isolated_cpus_are_reserved_last_by_default():
    topology = machine(cores_per_numa_node=64, threads=1)
    isolated = with_cpu_states(topology, isolated=topology.online - {63})
    assert reserved(topology) == "0-1"
    assert reserved(isolated) == "63"
    assert "isolated CPUs last" in decided(plan(isolated), "cpus.reserved")[1]
    assert reserved(with_cpu_states(topology, isolated=topology.online)) == "0-1"


def test_avoid_still_applies_to_cpus_reserved_by_the_kubelet():
    topology = replace(with_nics(1), kubelet=told("reservedSystemCPUs: 40,104\n").kubelet)
    assert reserved(topology) == "40,104"
    assert "cpus.avoid: the profile says CPUs 0-" in refusal(topology, cpus={"avoid": "devices"})


def test_l3_groups_stay_whole_with_l3_alignment():
    built = machine(packages=2, numa_nodes_per_package=2, cores_per_numa_node=32, cores_per_l3=8, threads=1)
    topology = replace(with_nics(*range(4), topology=built), kubelet=kubeadm_kubelet("1.36.3"))
    uncore = {"prefer-align-cpus-by-uncorecache": True, "full-pcpus-only": True}
    assert reserved(topology) == "0-1,32-33,64-65,96-97"
    options = {"cpu_manager_options": uncore, "topology_manager_policy": "none"}
    chosen = planned(topology, kubelet=options).cpus.reserved
    assert (len(chosen), sum(bool(cache.cpus & chosen) for cache in topology.l3_caches)) == (6, 2)


def test_gpu_numa_node_keeps_its_only_core():
    topology = machine(packages=4, cores_per_numa_node=1)
    gpus = tuple(replace(gpu, numa_node=index % 3) for index, gpu in enumerate(dgx_h100().gpus))
    assert reserved(replace(topology, gpus=gpus)) == "3,7"


def test_failed_drive_moves_no_reserved_cpu():
    whole = with_nics(*[0] * 24, 1)
    first, fewer = plan(whole), replace(whole, nics=whole.nics[:1])
    assert plan(fewer).cpus.reserved != first.cpus.reserved
    chosen = plan(after(fewer, first))
    assert chosen.cpus.reserved == first.cpus.reserved
    assert "a new plan would choose" in decided(chosen, "cpus.reserved")[1]


@pytest.mark.parametrize(
    "earlier", [{"reserved": {"cores": 1}}, {"avoid": "devices"}], ids=["number", "avoid"]
)
def test_default_replaces_earlier_explicit_choice(earlier):
    topology = with_nics(1, 1)
    assert reserved(after(topology, plan(topology, cpus=earlier))) == reserved(topology)


def test_earlier_reserved_cpus_that_are_isolated_are_dropped():
    topology = machine(cores_per_numa_node=32)
    isolated = with_cpu_states(after(topology, plan(topology)), isolated=topology.online - {31, 63})
    assert plan(isolated).cpus.reserved == {31, 63}


def amounts(topology: NodeTopology, **memory) -> tuple[int, int]:
    chosen = plan(topology, memory=memory).memory
    return chosen.kube_reserved_bytes, chosen.system_reserved_bytes


def told(text: str) -> NodeTopology:
    install = kubeadm_kubelet()
    return replace(dgx_h100(), kubelet=replace(install, config_text=f"{install.config_text}{text}"))


SPLIT = "reservedMemory:\n- numaNode: 0\n  limits:\n    memory: 100Mi\n"
AMOUNTS = {
    "by-pods-and-memory": (dgx_h100, {}, (1465 * MIB, 4 * GIB)),
    "by-the-kubelets-number-of-pods": (lambda: told("maxPods: 250\n"), {}, (3005 * MIB, 4 * GIB)),
    "the-profiles-own-number-alone": (dgx_h100, {"kube_reserved": "1Gi"}, (GIB, 0)),
    "the-profiles-zero": (dgx_h100, {"system_reserved": 0}, (0, 0)),
    "the-kubelets-own-number": (lambda: told("systemReserved:\n  memory: 2Gi\n"), {}, (0, 2 * GIB)),
    "a-split-that-adds-up-to-what-is-there": (lambda: told(SPLIT), {}, (0, 0)),
    "a-small-machine": (
        lambda: machine(cores_per_numa_node=2, numa_memory_bytes=4 * GIB),
        {},
        (499 * MIB, 62 * MIB),
    ),
}


@pytest.mark.parametrize(("build", "memory", "expected"), AMOUNTS.values(), ids=AMOUNTS.keys())
def test_memory_reservations_follow_machine_and_profile(build, memory, expected):
    assert amounts(build(), **memory) == expected


def test_huge_page_memory_is_not_counted():
    chosen = plan(machine(cores_per_numa_node=8), hugepages=[{"size": "1Gi", "count": 62}])
    assert chosen.memory.kube_reserved_bytes == 243 * MIB
    assert chosen.memory.system_reserved_bytes == 30 * MIB


@given(st.integers(0, 4096))
def test_defaults_fit_beside_huge_pages(free_mib):
    topology = machine(cores_per_numa_node=4, numa_memory_bytes=8 * GIB)
    pages = {"2Mi": HugepagePool(4096 - free_mib // 2, 0)}
    node = replace(topology.numa_nodes[0], hugepages=pages)
    static = {"memory_manager_policy": "Static", "topology_manager_policy": "none"}
    full = replace(topology, numa_nodes=(node,), hugepages=pages, kubelet=kubeadm_kubelet())
    room = free_mib // 2 * 2 * MIB
    if room < 100 * MIB:
        assert refusal(full, kubelet=static), "the kubelet's own eviction threshold does not fit"
        return
    memory = planned(full, kubelet=static).memory
    assert memory.kube_reserved_bytes + memory.system_reserved_bytes + 100 * MIB <= room


def test_gpu_memory_is_not_counted():
    grace = captured("nvidia-gh200")
    assert amounts(grace) == (1465 * MIB, 4 * GIB)
    nodes = tuple(replace(node, memory_bytes=4 * GIB) if node.cpus else node for node in grace.numa_nodes)
    assert amounts(replace(grace, numa_nodes=nodes)) == (499 * MIB, 62 * MIB)


def test_memory_shift_at_reboot_changes_no_amount():
    topology = machine(cores_per_numa_node=8)
    first = plan(topology)
    nodes = tuple(replace(node, memory_bytes=node.memory_bytes - 60 * MIB) for node in topology.numa_nodes)
    moved = replace(topology, memory_bytes=topology.memory_bytes - 60 * MIB, numa_nodes=nodes)
    assert plan(moved).memory.system_reserved_bytes != first.memory.system_reserved_bytes
    assert plan(after(moved, first)).memory.system_reserved_bytes == first.memory.system_reserved_bytes
