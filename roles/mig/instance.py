"""How GPUs are cut: instances with their places, the GPUs that have them, and what a plan says of all.

Nodes run this, too: the worker has it before its own modules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self


@dataclass(frozen=True)
class MigInstance:
    """A GPU instance: its profile and where it lies, in memory slices.

    `compute_instances` are the compute slices of each of its compute instances, the largest first.
    """

    profile: str = field(compare=False)  # "3g.40gb", as the driver names it; "" where that is not known
    profile_id: int  # NVML's
    start: int
    size: int
    compute_instances: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.profile} at {self.start}:{self.size}"

    @property
    def place(self) -> tuple[int, int]:
        """What tells it from the other instances of its GPU."""
        return self.profile_id, self.start


@dataclass(frozen=True)
class MigGpu:
    """How one GPU is cut, or is to be."""

    pci_address: str
    uuid: str | None
    mode: str  # "enabled", "disabled"; "" without MIG
    instances: tuple[MigInstance, ...] = ()

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Return a GPU from the form that it has in documents."""
        instances = []
        for each in document["instances"]:
            slices = tuple(sorted(each["compute_instances"], reverse=True))
            instances.append(MigInstance(**{"profile": "", **each, "compute_instances": slices}))
        return cls(**{**document, "instances": tuple(instances)})

    @property
    def geometry(self) -> tuple[str, frozenset[MigInstance]]:
        """What tells one geometry from another."""
        return self.mode, frozenset(self.instances)


@dataclass(frozen=True)
class MigPlan:
    """How the GPUs of a node are to be cut; GPUs that are not named stay as they are.

    `managed_by` carries it out: "numaforge", "gpu-operator" (its MIG manager is handed the same), or
    "dra-driver": then the mode alone is numaforge's, and the GPU instances are left to that driver.
    `strategy` is the device plugin's migStrategy. `label` is what the node is to be labelled, if anything.
    `pending` are GPUs as they were asked for that stay as they are, and are not among `gpus`: only a reboot
    changes their mode, and none is allowed. `may_stop` are units that may be stopped for a change beside
    those that held a GPU when the node was looked at.
    """

    gpus: tuple[MigGpu, ...] = ()
    managed_by: str = "numaforge"
    strategy: str = "mixed"  # "mixed", "single", "none"
    label: str | None = None  # "mig-enabled", "mig-disabled"
    pending: tuple[MigGpu, ...] = ()
    may_stop: tuple[str, ...] = ()
