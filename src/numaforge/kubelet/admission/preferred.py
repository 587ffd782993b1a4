"""Which devices NVIDIA's plugin prefers, of those that the kubelet offers it (GetPreferredAllocation).

k8s-device-plugin v0.20, internal/rm: whole GPUs by their links (go-gpuallocator v0.6, besteffort_policy.go),
replicas and MIG devices by the replicas that are taken of each (allocate.go). The kubelet offers devices in
random order, so that each of several equal sets may be the one.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from numaforge.kubelet.admission.masks import bits, lowest_bits, mask_of

DISTRIBUTED, PACKED = "distributed", "packed"
MOST_CHOICES = 256
"""The most equal sets that are told apart; more MIG devices or replicas than that are all alike."""

Scores = tuple[tuple[int, ...], ...]


class Preferred(NamedTuple):
    """The equal sets of devices, as bitmasks, lowest positions first; and whether the plugin may crash."""

    sets: tuple[int, ...]
    may_crash: bool = False


class ByLinks(NamedTuple):
    """Prefer the sets of GPUs with the highest scores; `scores` has a row per GPU, with one to each GPU."""

    scores: Scores

    def of(self, available: int, required: int, size: int) -> Preferred:
        """Return the sets of `size` GPUs that may be preferred; all have the required ones."""
        return _by_links(self.scores, available, required, size)


class ByReplicas(NamedTuple):
    """Prefer the devices with the fewest taken replicas, or the most (`packed`).

    `replicas` has the bitmask of each device's replicas; a MIG device that is not shared is alone.
    """

    replicas: tuple[int, ...]
    packed: bool

    def of(self, available: int, required: int, size: int) -> Preferred:
        """Return the sets of `size` devices that may be preferred; all have the required ones.

        Replicas of a device are alike: of each device the lowest stand for all.
        """
        missing = size - required.bit_count()
        candidates = available & ~required
        free = [replicas & candidates for replicas in self.replicas]
        taken = [
            mine.bit_count() - unused.bit_count() for mine, unused in zip(self.replicas, free, strict=True)
        ]
        picks = {(0,) * len(free)}
        for _ in range(missing):
            picks = {more for pick in sorted(picks)[-MOST_CHOICES:] for more in self._next(pick, free, taken)}
        masks = {
            sum((lowest_bits(unused, count) for unused, count in zip(free, pick, strict=True)), required)
            for pick in picks
        }
        return Preferred(tuple(sorted(masks, key=lambda mask: tuple(bits(mask)))))

    def _next(
        self, pick: tuple[int, ...], free: Sequence[int], taken: Sequence[int]
    ) -> Iterator[tuple[int, ...]]:
        """Yield the picks after one more replica: by the taken ones, then by those picked in this turn."""
        ranks = {
            at: ((taken[at] + count) * (-1 if self.packed else 1), count)
            for at, count in enumerate(pick)
            if count < free[at].bit_count()
        }
        best = min(ranks.values(), default=None)
        for at, rank in ranks.items():
            if rank == best:
                yield (*pick[:at], pick[at] + 1, *pick[at + 1 :])


Preference = ByLinks | ByReplicas


@lru_cache(maxsize=4096)
def _by_links(scores: Scores, available: int, required: int, size: int) -> Preferred:
    """Return the best sets within the divisions of all available GPUs that have the highest sum of scores.

    The last set of a division may be smaller: the policy fills it up with nil, and the plugin crashes where
    it takes that one. Divisions in which no set has all required GPUs are not considered.
    """
    if not 0 < size <= available.bit_count():
        return Preferred(())
    divisions, free = _Divisions(scores, size), available & ~required
    if required:
        sets = (required | more for more in _subsets(free, size - required.bit_count()))
        complete, smaller = {gpus: divisions.sum_with(gpus, available, None) for gpus in sets}, {}
    else:  # every set has all that is required, and the one with the highest score is taken
        score = divisions.score
        complete = {gpus: divisions.sum_with(gpus, free, score(gpus)) for gpus in _subsets(free, size)}
        rests = _subsets(free, free.bit_count() % size)
        smaller = {gpus: divisions.sum_with(gpus, free, score(gpus) - 1) for gpus in rests if gpus}
    highest = max(total for total in (*complete.values(), *smaller.values()) if total is not None)
    return Preferred(
        tuple(gpus for gpus, total in complete.items() if total == highest), highest in smaller.values()
    )


class _Divisions:
    """Divisions of GPUs into sets of `size`, the last one smaller, by the sum of their scores."""

    def __init__(self, scores: Scores, size: int) -> None:
        self._scores, self._size, self._alike = scores, size, _alike(scores)
        self._best: dict[tuple[int, int | None], int | None] = {}

    def score(self, gpus: int) -> int:
        return sum(self._scores[one][second] for one, second in combinations(bits(gpus), 2))

    def sum_with(self, gpus: int, available: int, most: int | None) -> int | None:
        """Return the highest sum of a division with a set, no other one with a higher score than `most`."""
        rest = self._best_of(available & ~gpus, most)
        return None if rest is None else self.score(gpus) + rest

    def _best_of(self, gpus: int, most: int | None) -> int | None:
        """Return the highest sum of a division; GPUs that are alike stand for each other."""
        gpus = sum(lowest_bits(members, (members & gpus).bit_count()) for members in self._alike)
        if (gpus, most) not in self._best:
            self._best[gpus, most] = max(self._sums(gpus, most), default=None) if gpus else 0
        return self._best[gpus, most]

    def _sums(self, gpus: int, most: int | None) -> Iterator[int]:
        """Yield the highest sum with each set that has the first of the GPUs."""
        first, count = gpus & -gpus, gpus.bit_count()
        for size in {count % self._size, min(self._size, count)} - {0}:
            for rest in _subsets(gpus ^ first, size - 1):
                chosen = first | rest
                total = self.sum_with(chosen, gpus, most)
                if total is not None and (most is None or self.score(chosen) <= most):
                    yield total


def _alike(scores: Scores) -> list[int]:
    """Return the GPUs in groups, as bitmasks: those of a group have the same scores to all others."""
    groups: list[int] = []
    for gpu, row in enumerate(scores):
        for at, group in enumerate(groups):
            representative = next(bits(group))
            if all(
                row[peer] == scores[representative][peer]
                for peer in range(len(row))
                if peer not in (gpu, representative)
            ):
                groups[at] |= 1 << gpu
                break
        else:
            groups.append(1 << gpu)
    return groups


def _subsets(mask: int, size: int) -> Iterator[int]:
    """Yield the subsets with `size` members, lowest members first; none for a negative size."""
    if size >= 0:
        yield from (mask_of(members) for members in combinations(bits(mask), size))
