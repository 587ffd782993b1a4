"""Sets of small integers (CPUs, NUMA nodes, devices) as int bitmasks, which keeps the simulator fast."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import accumulate, combinations

from numaforge.kubelet.admission.hint_work import ENDLESS_NUMA_NODES
from numaforge.kubelet.admission.refusal import KubeletHangError


def mask_of(ids: Iterable[int]) -> int:
    """Return the bitmask with one bit set for each id."""
    mask = 0
    for number in ids:
        mask |= 1 << number
    return mask


def bits(mask: int) -> Iterator[int]:
    """Yield the ids in a bitmask, lowest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def ids_of(mask: int) -> frozenset[int]:
    return frozenset(bits(mask))


def lowest_bits(mask: int, count: int) -> int:
    """Return the bitmask of the `count` lowest ids in `mask`, or all of it where it holds fewer."""
    lowest_ids = 0
    while mask and count > 0:
        lowest = mask & -mask
        lowest_ids |= lowest
        mask ^= lowest
        count -= 1
    return lowest_ids


def refuse_endless(nodes: int) -> None:
    """Raise KubeletHangError for a bitmask with too many ids for a kubelet to walk all their sets."""
    if nodes.bit_count() >= ENDLESS_NUMA_NODES:
        raise KubeletHangError(
            f"the kubelet would walk every set of {nodes.bit_count()} NUMA nodes, "
            f"2^{nodes.bit_count()} of them, for each container",
            remedy="with memoryManagerPolicy None, only NUMA nodes that have CPUs or devices are walked",
        )


@lru_cache(maxsize=16)
def subsets(nodes: int) -> tuple[int, ...]:
    """Return every subset of a bitmask, the empty one too, in ascending order.

    pkg/kubelet/cm/topologymanager/bitmask/bitmask.go, IterateBitMasks, orders by size; the hints do not
    depend on the order.
    """
    masks = [0]
    for number in bits(nodes):
        masks += [mask | 1 << number for mask in masks]
    return tuple(masks)


def sums(nodes: int, amounts: Mapping[int, int]) -> list[int]:
    """Return the summed amounts for each of `subsets(nodes)`."""
    totals = [0]
    for number in bits(nodes):
        amount = amounts[number]
        totals += [total + amount for total in totals]
    return totals


def unions(nodes: int, members: Mapping[int, int]) -> list[int]:
    """Return the union of the members, bitmasks themselves, for each of `subsets(nodes)`."""
    masks = [0]
    for number in bits(nodes):
        more = members.get(number, 0)
        masks += [union | more for union in masks]
    return masks


def of_size(nodes: int, size: int) -> Iterator[int]:
    """Yield the subsets of a bitmask with `size` ids."""
    return map(sum, combinations([1 << number for number in bits(nodes)], size))


def fewest(amounts: Iterable[int], target: int) -> int:
    """Return how few amounts sum up to at least `target`; one more than all where they fall short."""
    largest = sorted(amounts, reverse=True)
    return next((1 + at for at, total in enumerate(accumulate(largest)) if total >= target), len(largest) + 1)
