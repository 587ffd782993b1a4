"""Merging hints: the short way gives what the kubelet's walk over all permutations gives."""

import time
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numaforge.kubelet.admission.hints import Hint, Hints
from numaforge.kubelet.admission.masks import bits, refuse_endless, subsets
from numaforge.kubelet.admission.merge import MergePolicy, counted_intersections
from numaforge.kubelet.admission.refusal import KubeletHangError


def walk(policy: MergePolicy, lists: list[list[Hint]]) -> Hint:
    """Merge as HintMerger in pkg/kubelet/cm/topologymanager/policy.go does, permutation by permutation."""
    sizes = [[h.numa.bit_count() for h in hints if h.numa is not None] for hints in lists]
    need = max((min(known) for known in sizes if known), default=0)
    best: Hint | None = None
    for permutation in product(*lists):
        mask, masks = policy.nodes, [hint.numa for hint in permutation if hint.numa is not None]
        for other in masks:
            mask &= other
        candidate = Hint(mask, all(h.preferred for h in permutation) and len(set(masks)) <= 1)
        best = compare(policy, need, best, candidate)
    return best or Hint(policy.nodes, False)


def compare(policy: MergePolicy, need: int, current: Hint | None, candidate: Hint) -> Hint | None:
    if not candidate.numa:
        return current
    if current is None or current.numa is None:
        return candidate
    if current.preferred != candidate.preferred:
        return current if current.preferred else candidate
    have, offer = current.numa.bit_count(), candidate.numa.bit_count()
    if current.preferred or have > need:
        return fitter(policy, current, candidate)
    if have == need:
        return current if offer != need else fitter(policy, current, candidate)
    if offer > need:
        return current
    if offer in (need, have) and offer != have:
        return candidate
    if offer != have:
        return candidate if offer > have else current
    return fitter(policy, current, candidate)


def fitter(policy: MergePolicy, current: Hint, candidate: Hint) -> Hint:
    if current.numa == candidate.numa:
        return current
    sizes = current.numa.bit_count(), candidate.numa.bit_count()
    if sizes[0] != sizes[1]:
        return current if sizes[0] < sizes[1] else candidate
    if policy.prefer_closest and policy.name != "single-numa-node":
        distances = distance(policy, current.numa), distance(policy, candidate.numa)
        if distances[0] != distances[1]:
            return current if distances[0] < distances[1] else candidate
    return current if current.numa < candidate.numa else candidate


def distance(policy: MergePolicy, mask: int) -> float:
    nodes = list(bits(mask))
    return sum(float(policy.distances[a][b]) for a in nodes for b in nodes) / len(nodes) ** 2


def given_hints(provider: dict[str, list[Hint] | None]) -> dict[str, Hints | None]:
    return {
        resource: None if hints is None else Hints.of(hints or [Hint(None, False)])
        for resource, hints in provider.items()
    }


NODES = 0b1111
MASKS = st.sampled_from(subsets(NODES)[1:])
HINTS = st.one_of(
    st.none(),
    st.just([]),
    st.lists(st.builds(Hint, st.one_of(MASKS, st.none()), st.booleans()), min_size=1, max_size=8),
)
PROVIDERS = st.lists(st.dictionaries(st.sampled_from(["a", "b"]), HINTS, max_size=2), max_size=3)
DISTANCES = {a: {b: 10 if a == b else 12 if a // 2 == b // 2 else 32 for b in range(4)} for a in range(4)}


@pytest.mark.parametrize("name", ["best-effort", "restricted", "single-numa-node"])
@given(providers=PROVIDERS, prefer_closest=st.booleans())
def test_merge_equals_the_walk_over_all_permutations(name, providers, prefer_closest):
    policy = MergePolicy(name, NODES, prefer_closest, DISTANCES)
    lists = [
        [Hint(None, True)] if hints is None else hints or [Hint(None, False)]
        for provider in providers
        for hints in (provider.values() or [None])
    ]
    if name == "single-numa-node":
        lists = [
            [h for h in hints if h.preferred and (h.numa is None or h.numa.bit_count() == 1)]
            for hints in lists
        ]
    expected = walk(policy, lists)
    if name == "single-numa-node" and expected.numa == NODES:
        expected = Hint(None, expected.preferred)
    asked = [given_hints(provider) for provider in providers]
    assert policy.merge(asked) == (expected, expected.preferred or name == "best-effort")
    assert policy.admits(asked) == policy.merge(asked)[1]


MANY = subsets((1 << 12) - 1)[1:]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(MANY), min_size=1, max_size=60),
    st.lists(st.sampled_from(MANY), min_size=1, max_size=60),
)
def test_pair_count_covers_every_intersection(left, right):
    expected = {one & other for one in left for other in right} - {0}
    assert counted_intersections({*left}, {*right}) == expected


def test_nineteen_numa_nodes_with_every_hint_merge_quickly():
    nodes = (1 << 19) - 1
    every = Hints((), lambda: subsets(nodes)[1:])
    policy = MergePolicy("best-effort", nodes)
    started = time.process_time()
    assert policy.merge([{"cpu": every}, {"memory": every}]) == (Hint(1, False), True)
    assert time.process_time() - started < 10


def test_too_many_numa_nodes_for_the_hint_walk_are_an_error():
    with pytest.raises(KubeletHangError, match=r"every set of 34 NUMA nodes, 2\^34 of them"):
        refuse_endless((1 << 34) - 1)


def test_every_subset_appears_once():
    assert [sorted(bits(mask)) for mask in subsets(0b1011)] == [
        [],
        [0],
        [1],
        [0, 1],
        [3],
        [0, 3],
        [1, 3],
        [0, 1, 3],
    ]
