"""Topology hints: which sets of NUMA nodes could serve a request, and which of them are narrowest."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from numaforge.kubelet.admission.masks import ids_of


class Hint(NamedTuple):
    """One answer: a bitmask of NUMA nodes, None for "any", and whether no answer is narrower.

    pkg/kubelet/cm/topologymanager/topology_manager.go, TopologyHint.
    """

    numa: int | None
    preferred: bool

    @property
    def numa_nodes(self) -> frozenset[int] | None:
        """The NUMA nodes as a set of ids, None meaning any."""
        return None if self.numa is None else ids_of(self.numa)


NO_PREFERENCE = Hint(None, True)
IMPOSSIBLE = Hint(None, False)


class Hints:
    """The answers for one resource: sets of NUMA nodes, as bitmasks, and perhaps "any".

    `preferred` are the sets without a narrower alternative. `masks` are all sets, half a million with 19 NUMA
    nodes, and computed only where the preferred ones do not decide. `anywhere` is empty unless "any" is an
    answer; it contains True where "any" is preferred, False where it is not.
    """

    def __init__(
        self,
        preferred: Collection[int],
        masks: Callable[[], Collection[int]],
        anywhere: Collection[bool] = (),
    ) -> None:
        self.preferred = frozenset(preferred)
        self.anywhere = frozenset(anywhere)
        self._masks = masks

    @classmethod
    def of(cls, hints: Iterable[Hint]) -> "Hints":
        """Return the hints for individual answers."""
        answers = tuple(hints)
        masks = frozenset(hint.numa for hint in answers if hint.numa is not None)
        preferred = {hint.numa for hint in answers if hint.numa is not None and hint.preferred}
        return cls(preferred, lambda: masks, {hint.preferred for hint in answers if hint.numa is None})

    @cached_property
    def masks(self) -> frozenset[int]:
        """Every set of NUMA nodes among the answers."""
        return frozenset(self._masks())

    @cached_property
    def narrowest(self) -> int | None:
        """The size of the smallest set, None where no answer is a set."""
        return min(map(int.bit_count, self.masks), default=None)

    def __bool__(self) -> bool:
        return bool(self.preferred or self.anywhere or self.masks)

    def best(self, above: int = 0) -> Hint | None:
        """Return the best superset of `above`: preferred, then narrow, then low (findBestHint)."""
        for masks, preferred in ((self.preferred, True), (self.masks, False)):
            able = [mask for mask in masks if mask & above == above]
            if able:
                return Hint(min(able, key=lambda mask: (mask.bit_count(), mask)), preferred)
        return None


NO_HINTS = Hints.of([])

# By resource: None means "no preference", no hints "impossible". An empty mapping is no opinion at all.
HintsByResource = Mapping[str, Hints | None]


@dataclass(frozen=True)
class Opinion:
    """A manager's preference for the placement of one resource.

    `preferred` are the narrowest sets of NUMA nodes that can serve it, None where any will do. Where it is
    empty, `otherwise` is the best of the wider sets; None where no set can serve it.
    """

    resource: str
    preferred: tuple[frozenset[int], ...] | None
    otherwise: frozenset[int] | None = None

    @classmethod
    def of(cls, resource: str, hints: Hints | None) -> "Opinion":
        """Return the opinion that hints express; call it before the next allocation outdates them."""
        if hints is None or (True in hints.anywhere and not hints.preferred):
            return cls(resource, None)
        if hints.preferred:
            fewest = min(map(int.bit_count, hints.preferred))
            masks = sorted(mask for mask in hints.preferred if mask.bit_count() == fewest)
            return cls(resource, tuple(map(ids_of, masks)))
        best = hints.best()
        return cls(resource, (), best.numa_nodes if best else None)
