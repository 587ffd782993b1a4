"""How many nodes may be out of service together."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.lib.errors import NumaforgeError
from numaforge.lib.kubernetes_objects import CLIQUE
from numaforge.rollout.budget import (
    COMPUTE_DOMAIN,
    FRESH_SECONDS,
    Budget,
    CachedPool,
    Pool,
    Share,
    out_of_service,
)
from numaforge.rollout.cluster import Lease
from numaforge.rollout.names import ENDED, NODE
from numaforge.rollout.record import RECORD, lease_name
from numaforge.rollout.slots import in_progress
from tests.fixtures.memory_cluster import ZONE, workers
from tests.fixtures.tables import cases

NODES = workers(12, zones=3)


@pytest.mark.parametrize(
    ("text", "nodes", "expected"),
    [("3", 100, 3), (3, 2, 3), ("10%", 100, 10), ("10%", 19, 1), ("10%", 5, 1), ("100%", 7, 7), ("1%", 0, 1)],
)
def test_share_rounds_down_to_at_least_one(text, nodes, expected):
    assert Share.parse(text).of(nodes) == expected


@pytest.mark.parametrize("text", ["0", "0%", "101%", "-1", "", "1.5", "many", "5 %"])
def test_invalid_budget_is_refused_with_the_accepted_forms(text):
    with pytest.raises(NumaforgeError, match="a number of nodes from 1, or a percentage"):
        Share.parse(text)


@given(st.integers(1, 100), st.integers(0, 5000))
def test_percentage_budget_is_exceeded_only_by_first_node(percent, nodes):
    count = Share(percent=percent).of(nodes)
    assert count >= 1
    assert count == 1 or count * 100 <= percent * nodes < (count + 1) * 100


@cases(
    "state",
    {
        "cordoned": {"unschedulable": True},
        "not Ready": {"ready": False},
        "being deleted": {"deleting": True},
        "in somebody's maintenance": {"labels": {"nvidia.com/mig.config.state": "pending"}},
    },
)
def test_nodes_in_these_states_count_as_out_of_service(state):
    assert not out_of_service(NODES[0])
    assert out_of_service(replace(NODES[0], **state))


def pool(budget, out=()):
    nodes = [replace(node, unschedulable=number in out) for number, node in enumerate(NODES)]
    return Pool.of(budget, nodes)


def names(*numbers):
    return [NODES[number].name for number in numbers]


@cases(
    "out, in_work, node, said",
    {
        "there is room": ((), (), 0, None),
        "both count": ((5,), (6,), 0, "2 of at most 2 nodes are out of service: node-0005, node-0006"),
        "one that is cordoned and in work counts once": ((5,), (5,), 0, None),
        "one that is out already takes nothing away": ((0,), (5,), 0, None),
    },
)
def test_foreign_outages_count_against_budget(out, in_work, node, said):
    found = pool(Budget(Share(count=2)), out)
    assert found.usage(names(*in_work)).refusal(NODES[node]) == said


@cases(
    "in_work, node, said",
    {
        "the domain is full": ((0, 3), 6, "2 of at most 2 nodes of topology.kubernetes.io/zone=zone-0"),
        "the domain has room": ((0,), 3, None),
        "another domain waits": ((0,), 1, "topology.kubernetes.io/zone=zone-0 comes first"),
        "any domain may begin": ((), 1, None),
    },
)
def test_failure_domains_go_one_after_the_other(in_work, node, said):
    budget = Budget(Share(count=5), domain=ZONE, max_unavailable_per_domain=Share(count=2))
    found = pool(budget).usage(names(*in_work)).refusal(NODES[node])
    assert (found or "").startswith(said or "")
    assert (found is None) == (said is None)


def test_stale_view_never_runs_two_failure_domains_together():
    budget = Budget(Share(count=5), domain=ZONE)
    seen_before = pool(budget, out=(0,))  # it has ended since, and somebody in zone-1 has the slot
    assert seen_before.usage(names(1)).refusal(NODES[3]) == f"{ZONE}=zone-1 comes first"


def test_outages_elsewhere_do_not_hold_a_domain_open():
    budget = Budget(Share(count=5), domain=ZONE)
    assert pool(budget, out=(0,)).usage(()).refusal(NODES[1]) is None


def test_node_with_record_counts_as_in_progress_without_slot():
    budget = Budget(Share(count=5), domain=ZONE)
    found, name = pool(budget), NODES[0].name
    lease = Lease(lease_name(name), annotations={NODE: name, RECORD: "{}"})
    begun = in_progress(found, (), [lease])
    assert found.usage(begun).refusal(NODES[1]) == f"{ZONE}=zone-0 comes first"
    assert in_progress(found, (), [replace(lease, labels={ENDED: "done"})]) == set()


def trays(budget, labels):
    """Return the pool whose nodes have these labels, a mapping for each."""
    return Pool.of(budget, [replace(node, labels=own) for node, own in zip(NODES, labels, strict=False)])


RACKS = [{CLIQUE: "aaaa.1"}, {CLIQUE: "aaaa.2"}, {CLIQUE: "bbbb.1"}, {}, {CLIQUE: "no cluster"}]


@cases(
    "budget, in_work, node, said",
    {
        "trays of one rack go together, of whatever clique": ({}, (0,), 1, None),
        "another rack waits": ({}, (0,), 2, "rack=aaaa comes first"),
        "a node in no rack waits for none": ({}, (0,), 3, None),
        "no rack waits for a node that is in none": ({}, (3, 4), 2, None),
        "two racks go together where that is said": ({"domains_at_once": 2}, (0,), 2, None),
        "a rack keeps its quorum": (
            {"max_unavailable_per_domain": Share(count=1)},
            (0,),
            1,
            "1 of at most 1 nodes of rack=aaaa are out of service: node-0000",
        ),
        "another label takes the place of racks": ({"domain": ZONE}, (0,), 2, None),
    },
)
def test_racks_are_default_failure_domains(budget, in_work, node, said):
    found = trays(Budget(Share(count=5), **budget), RACKS)
    assert found.usage(names(*in_work)).refusal(found.nodes[NODES[node].name]) == said


def test_node_in_compute_domain_waits_unless_ending_is_permitted():
    labels = [{COMPUTE_DOMAIN: "uid-1"}, {COMPUTE_DOMAIN: "uid-1"}, {COMPUTE_DOMAIN: "uid-2"}, {}]
    said = [
        trays(Budget(Share(count=5), ends_compute_domains=ends), labels)
        .usage(())
        .refusal(replace(node, labels=own))
        for ends in (False, True)
        for node, own in zip(NODES, labels, strict=False)
    ]
    assert [(each or "").partition(" more")[0] for each in said[:4]] == [
        "it is in ComputeDomain uid-1 with 1",
        "it is in ComputeDomain uid-1 with 1",
        "it is in ComputeDomain uid-2 with 0",
        "",
    ]
    assert said[4:] == [None] * 4


@given(
    st.sets(st.integers(0, 11)),
    st.integers(1, 12),
    st.none() | st.integers(1, 4),
    st.integers(1, 3),
    st.randoms(),
)
def test_nodes_taken_without_refusal_stay_within_the_budget(out, total, per_domain, domains, chance):
    budget = Budget(Share(count=total), "", ZONE, domains, Share(count=per_domain) if per_domain else None)
    found = pool(budget, out)
    usage = found.usage(())
    order = [node for node in found.nodes.values() if node.name not in found.out]
    chance.shuffle(order)
    for node in order:
        if usage.refusal(node) is None:
            usage = usage.taking(node)
    zones = [found.domain_of(name) for name in usage.in_work]
    assert not usage.in_work or len(usage.in_work | found.out) <= total
    assert len(set(zones)) <= domains
    assert per_domain is None or all(zones.count(zone) <= per_domain for zone in zones)


@given(st.sets(st.integers(0, 11)), st.sets(st.integers(0, 11)))
def test_updated_pool_counts_the_same_as_a_fresh_pool(before, now):
    def nodes(out):
        return [
            replace(node, unschedulable=number in out, resource_version=str(number in out))
            for number, node in enumerate(NODES)
        ]

    budget = Budget()
    assert Pool.of(budget, nodes(now), Pool.of(budget, nodes(before))).out == Pool.of(budget, nodes(now)).out


def test_lookout_lists_nodes_only_when_needed(world):
    cached_pool = CachedPool(world.cluster, Budget(pool=""), world.time)
    for _ in range(10):
        cached_pool.pool()
    assert world.cluster.calls["nodes"] == 1
    world.time.run(FRESH_SECONDS)
    assert len(cached_pool.pool().nodes) == 3
    assert world.cluster.calls["nodes"] == 2
