"""What holds for every plan, whatever the machine and the profile."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from numaforge.lib.errors import PlanError
from numaforge.lib.quantity import parse_bytes
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.saved import ready_machine
from numaforge.planning.document import dumps, loads
from numaforge.planning.plan import NodePlan
from numaforge.roles.memory.plan import Room, split_reservation
from tests.fixtures.plans import planned
from tests.unit.planning.strategies import MIB, machines, shuffled

reservations = st.sampled_from(
    [("cores_per_numa_node", 1), ("cores_per_numa_node", 2), ("cores_per_package", 3), ("cores", 5)]
).map(lambda wish: dict([wish]))
profiles = st.fixed_dictionaries(
    {
        "cpus": st.fixed_dictionaries({"reserved": reservations}),
        "memory": st.fixed_dictionaries(
            {
                "kube_reserved": st.integers(0, 2**28),
                "system_reserved": st.integers(0, 2**28),
                "eviction_hard": st.fixed_dictionaries(
                    {"memory.available": st.sampled_from(["100Mi", "5%", "7.3%", "12345677"])}
                ),
                "split": st.sampled_from(["proportional", "even"]),
            }
        ),
        "hugepages": st.lists(
            st.fixed_dictionaries({"size": st.just("2Mi"), "count": st.integers(0, 200)}), max_size=1
        ),
        "kubelet": st.just({"memory_manager_policy": "Static"}),
    }
)


def plan(topology: NodeTopology, profile: dict[str, Any]) -> NodePlan:
    try:
        return planned(topology, **profile)
    except PlanError:
        assume(False)
        raise


@given(machines(), profiles)
def test_cpus_are_reserved_by_whole_cores_and_workloads_get_the_others(topology, profile):
    chosen = plan(topology, profile)
    cpus = chosen.cpus
    assert cpus.reserved | cpus.allocatable == topology.online
    assert cpus.allocatable
    assert not cpus.reserved & cpus.allocatable
    assert frozenset().union(*(node.reserved_cpus for node in chosen.memory.numa_nodes)) == cpus.reserved
    assert all(core.cpus <= cpus.reserved or not core.cpus & cpus.reserved for core in topology.cores)


@given(machines(), profiles)
def test_reserved_memory_is_the_sum_that_the_kubelet_expects(topology, profile):
    chosen = plan(topology, profile)
    memory, settings_ = chosen.memory, chosen.kubelet.settings
    total = memory.kube_reserved_bytes + memory.system_reserved_bytes + memory.eviction_hard_bytes
    assert sum(node.reserved_memory_bytes for node in memory.numa_nodes) == total
    assert sum(parse_bytes(entry["limits"]["memory"]) for entry in settings_["reservedMemory"]) == (
        parse_bytes(settings_.get("kubeReserved", {}).get("memory", 0))
        + parse_bytes(settings_.get("systemReserved", {}).get("memory", 0))
        + parse_bytes(settings_["evictionHard"]["memory.available"])
    )


@given(machines(), profiles)
def test_numa_node_reserves_at_most_its_memory_and_without_cpus_nothing(topology, profile):
    chosen = plan(topology, profile)
    for node in chosen.memory.numa_nodes:
        pools = chosen.hugepages.planned(node.id)
        pages = sum(count * parse_bytes(size) for size, count in pools.items())
        assert node.reserved_memory_bytes + pages <= node.memory_bytes
        assert node.allocatable_memory_bytes == node.memory_bytes - node.reserved_memory_bytes - pages
        assert node.cpus or not node.reserved_memory_bytes


@given(st.data())
@settings(max_examples=30)
def test_document_survives_a_round_trip_and_input_order_changes_nothing(data):
    topology, profile = data.draw(machines()), data.draw(profiles)
    chosen = plan(topology, profile)
    assert loads(dumps(chosen)) == chosen
    assert dumps(loads(dumps(chosen))) == dumps(chosen)
    assert dumps(plan(shuffled(data.draw, topology), profile)) == dumps(chosen)


rooms = st.lists(st.tuples(st.integers(1, 2**36), st.integers(0, 2**36)), min_size=1, max_size=9).map(
    lambda sizes: [Room(node, memory, min(memory, free)) for node, (memory, free) in enumerate(sizes)]
)
modes = st.sampled_from(["proportional", "even"])


@given(st.data(), rooms, modes)
def test_memory_split_is_exact_and_fits(data, spaces, mode):
    total = data.draw(st.integers(0, sum(room.free_bytes for room in spaces)))
    shares = split_reservation(total, spaces, mode)
    assert sum(shares.values()) == total
    assert all(0 <= shares[room.node] <= room.free_bytes for room in spaces)


@given(st.data(), rooms, modes)
def test_with_room_all_shares_but_the_remainder_are_whole_mib(data, spaces, mode):
    spaces = [Room(room.node, room.memory_bytes, room.free_bytes + 2 * MIB) for room in spaces]
    total = data.draw(st.integers(0, sum(room.free_bytes - MIB for room in spaces)))
    broken = [share for share in split_reservation(total, spaces, mode).values() if share % MIB]
    assert len(broken) == (1 if total % MIB else 0)


@given(rooms, st.integers(0, 2**30))
def test_with_room_an_even_split_differs_by_at_most_one_mib(spaces, total):
    wide = [Room(room.node, room.memory_bytes, 2**40) for room in spaces]
    shares = split_reservation(total, wide, "even").values()
    assert max(shares) - min(shares) < 2 * MIB


@pytest.mark.parametrize("profile", ["training", "inference-mig"])
def test_gpu_uuids_decide_nothing(profile: str) -> None:
    machine = ready_machine("dgx-h100")

    def planned_with(numbers: range) -> str:
        named = {gpu.pci_address: f"GPU-{number}" for gpu, number in zip(machine.gpus, numbers, strict=True)}
        gpus = tuple(replace(gpu, uuid=named[gpu.pci_address]) for gpu in machine.gpus)
        text = dumps(planned(replace(machine, gpus=gpus), extends=profile))
        for address, uuid in named.items():
            text = text.replace(f'"{uuid}"', f'"of {address}"')
        return text

    assert planned_with(range(8)) == planned_with(range(7, -1, -1))
