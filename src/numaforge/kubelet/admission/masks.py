"""Sets of small integers (CPUs, NUMA nodes, devices) as int bitmasks, which keeps the simulator fast."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

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
    """Return the ids in a bitmask."""
    return frozenset(bits(mask))


def lowest_bits(mask: int, count: int) -> int:
    """Return the bitmask of the `count` lowest ids in `mask`, or all of it where it holds fewer."""
    taken = 0
    while mask and count > 0:
        lowest = mask & -mask
        taken |= lowest
        mask ^= lowest
        count -= 1
    return taken


@lru_cache(maxsize=256)
def masks_by_size(nodes: int) -> tuple[int, ...]:
    """Return every non-empty subset of a bitmask, by size, then lexicographically by its ids.

    pkg/kubelet/cm/topologymanager/bitmask/bitmask.go, IterateBitMasks: hints are generated in this order.
    Raises KubeletHangError for more ids than a kubelet comes to the end of.
    """
    if nodes.bit_count() >= ENDLESS_NUMA_NODES:
        raise KubeletHangError(
            f"the kubelet would walk every set of {nodes.bit_count()} NUMA nodes, "
            f"2^{nodes.bit_count()} of them, for each container",
            remedy="with memoryManagerPolicy None, only NUMA nodes that have CPUs or devices are walked",
        )
    single = [1 << number for number in bits(nodes)]
    found: list[int] = []
    for size in range(1, len(single) + 1):
        _extend(single, 0, size, 0, found)
    return tuple(found)


def _extend(single: list[int], start: int, size: int, mask: int, found: list[int]) -> None:
    if size == 0:
        found.append(mask)
        return
    for index in range(start, len(single) - size + 1):
        _extend(single, index + 1, size - 1, mask | single[index], found)
