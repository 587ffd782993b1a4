"""The kubelet that is there: its version, and what it is told already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from numaforge.kubelet.minors.versions import LATEST_MINOR, KubeletVersion
from numaforge.reasons import Reasoned
from numaforge.roles.kubelet.existing import ExistingSettings, read_existing
from numaforge.roles.kubelet.plan import kubelet_version
from numaforge.roles.role import Turn, Working

if TYPE_CHECKING:
    from numaforge.roles.node import Decisions, NodeProfile
    from numaforge.topology.model import MachineShape


TURN = Turn.KIND
NEEDS: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Decided:
    """The kubelet that is there: its version, and what it is told already. Not in the document."""

    version: Annotated[KubeletVersion | None, Working]
    existing: Annotated[ExistingSettings, Working]


def decide(machine: MachineShape, profile: NodeProfile, decided: Decisions) -> Reasoned[Decided]:
    """Return what the kubelet of this host is, and what its admin has set."""
    earlier = decided.previous
    version = kubelet_version(machine, profile, decided.asked_version, earlier)
    existing = read_existing(
        machine.kubelet, earlier.kubelet if earlier else None, version.value or KubeletVersion(LATEST_MINOR)
    )
    unreadable = (decided.unreadable,) if decided.unreadable else ()
    return Reasoned(
        Decided(version=version.value, existing=existing), version.decisions, (*unreadable, *version.notices)
    )
