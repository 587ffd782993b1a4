"""What the fake GPUs accept, against a brute force over every multiset of every model's profiles.

The rules are written again here, from NVIDIA's listings: neither numaforge's tables nor the fake's are read.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import product

import pytest

from tests.fakes.nvml.gpus import FakeGpus, gpu_text

ADDRESS = "0000:1b:00.0"

# Profile id: compute slices, memory slices, starts, how many at most, video decoders and OFA engines.
SEVEN = {
    19: (1, 1, (0, 1, 2, 3, 4, 5, 6), 7, (0, 0)),
    20: (1, 1, (0, 1, 2, 3, 4, 5, 6), 1, (1, 1)),
    15: (1, 2, (0, 2, 4, 6), 4, (1, 0)),
    14: (2, 2, (0, 2, 4), 3, (1, 0)),
    9: (3, 4, (0, 4), 2, (2, 0)),
    5: (4, 4, (0,), 1, (2, 0)),
    0: (7, 8, (0,), 1, (5, 1)),
}
FOUR = {
    14: (1, 1, (0, 1, 2, 3), 4, (0, 0)),
    21: (1, 1, (0, 1, 2, 3), 1, (1, 1)),
    5: (2, 2, (0, 2), 2, (2, 0)),
    6: (2, 2, (0, 2), 1, (2, 1)),
    0: (4, 4, (0,), 1, (4, 1)),
}
TWELVE = {
    14: (1, 3, (0, 3, 6, 9), 4, (1, 0)),
    21: (1, 3, (0, 3, 6, 9), 1, (1, 1)),
    47: (1, 3, (0, 3, 6, 9), 4, (1, 0)),
    65: (1, 3, (0, 3, 6, 9), 1, (4, 1)),
    67: (1, 3, (0, 3, 6, 9), 4, (0, 0)),
    5: (2, 6, (0, 6), 2, (2, 0)),
    35: (2, 6, (0, 6), 2, (2, 0)),
    64: (2, 6, (0, 6), 1, (4, 1)),
    66: (2, 6, (0, 6), 2, (0, 0)),
    0: (4, 12, (0,), 1, (4, 1)),
    32: (4, 12, (0,), 1, (4, 1)),
}
RULES = {
    "a100-40gb": (7, SEVEN),
    "a100-80gb": (7, SEVEN),
    "h100-80gb": (7, SEVEN),
    "h200-141gb": (7, SEVEN),
    "b200-180gb": (7, SEVEN),
    "a30-24gb": (4, FOUR),
    "rtx-pro-6000-96gb": (4, TWELVE),
}

# Creates and destroys GPU instances so that each set of placements that the GPU accepts is reached once, and
# answers with their multisets.
EXPLORE = """
def explore(first, held):
    reached.add(tuple(sorted(profile for profile, _ in held)))
    for number, (profile, start, size) in enumerate(offered):
        if number < first:
            continue
        try:
            instance = nvmlDeviceCreateGpuInstanceWithPlacement(gpu, profile, placement(start, size))
        except NVMLError_InsufficientResources:
            continue
        explore(number + 1, [*held, (profile, start)])
        nvmlGpuInstanceDestroy(instance)

def offers():
    for kind in range(18):
        try:
            info = nvmlDeviceGetGpuInstanceProfileInfo(gpu, kind)
        except NVMLError_NotSupported:
            continue
        profile = info.id
        counts[profile] = [info.sliceCount, info.instanceCount]
        count = c_uint()
        nvmlDeviceGetGpuInstancePossiblePlacements(gpu, profile, None, byref(count))
        places = (c_nvmlGpuInstancePlacement_t * count.value)()
        nvmlDeviceGetGpuInstancePossiblePlacements(gpu, profile, places, byref(count))
        yield from ((profile, place.start, place.size) for place in places)

counts = {}
offered = list(offers())
reached = set()
explore(0, [])
answer([counts, offered, sorted(reached)])
"""


@pytest.fixture
def gpus(tmp_path):
    return lambda model, *lines: FakeGpus(tmp_path, gpu_text(model, ADDRESS, *lines, mig="enabled"))


def fits(rules: dict, wanted: list[int], taken: int = 0) -> bool:
    """Try every placement of every profile that is wanted."""
    if not wanted:
        return True
    _, size, starts, _, _ = rules[wanted[0]]
    masks = [((1 << size) - 1) << start for start in starts]
    return any(fits(rules, wanted[1:], taken | mask) for mask in masks if not mask & taken)


def multisets(slices: int, rules: dict) -> Iterator[tuple[int, ...]]:
    """Yield what the limits of profiles and the compute slices allow."""
    for counts in product(*(range(limit + 1) for _, _, _, limit, _ in rules.values())):
        wanted = list(Counter(dict(zip(rules, counts, strict=True))).elements())
        if sum(rules[profile][0] for profile in wanted) <= slices:
            yield tuple(wanted)


def feasible(slices: int, rules: dict) -> set[tuple[int, ...]]:
    return {
        tuple(sorted(wanted))
        for wanted in multisets(slices, rules)
        if has_engines(rules, wanted) and fits(rules, list(wanted))
    }


def has_engines(rules: dict, wanted: tuple[int, ...]) -> bool:
    """Compare with the whole GPU, profile 0: it has all decoders and the OFA."""
    return all(sum(rules[profile][4][kind] for profile in wanted) <= rules[0][4][kind] for kind in (0, 1))


@pytest.mark.parametrize("model", RULES)
def test_creatable_instances_match_a_brute_force_search(gpus, model):
    compute_slices, rules = RULES[model]
    without_state = {"FAKE_NVML_STATE": ""}
    counts, offered, reached = gpus(model).ask(EXPLORE, without_state)
    assert {int(profile): tuple(count) for profile, count in counts.items()} == {
        profile: (slices, limit) for profile, (slices, _, _, limit, _) in rules.items()
    }
    assert sorted(map(tuple, offered)) == sorted(
        (profile, start, size) for profile, (_, size, starts, _, _) in rules.items() for start in starts
    )
    assert {tuple(wanted) for wanted in reached} == feasible(compute_slices, rules)
