"""How GPUs are cut: instances with their places, the GPUs that have them, and the plan for all GPUs.

Nodes run this, too: the worker includes it before its own modules.
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

    `compute_instances` has the compute slices of each compute instance, largest first.
    """

    profile: str = field(compare=False)  # "3g.40gb", as the driver names it; "" where unknown
    profile_id: int  # NVML's
    start: int
    size: int
    compute_instances: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.profile} at {self.start}:{self.size}"

    @property
    def place(self) -> tuple[int, int]:
        """The key of the instance on its GPU."""
        return self.profile_id, self.start


@dataclass(frozen=True)
class MigGpu:
    """How one GPU is cut, or should be."""

    pci_address: str
    uuid: str | None
    mode: str  # "enabled", "disabled"; "" without MIG
    instances: tuple[MigInstance, ...] = ()

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        instances = []
        for entry in document["instances"]:
            slices = tuple(sorted(entry["compute_instances"], reverse=True))
            instances.append(MigInstance(**{**entry, "compute_instances": slices}))
        return cls(**{**document, "instances": tuple(instances)})

    @property
    def geometry(self) -> tuple[str, frozenset[MigInstance]]:
        """The mode and the instances, for comparison."""
        return self.mode, frozenset(self.instances)


@dataclass(frozen=True)
class MigPlan:
    """The planned cut of a node's GPUs; GPUs that are not named stay as they are.

    `managed_by` carries it out: "numaforge", "gpu-operator" (its MIG manager is handed the same geometry), or
    "dra-driver": then numaforge sets only the mode, and leaves the GPU instances to that driver. `strategy`
    is the device plugin's migStrategy. `label` is the node's label, if any. `pending` are wanted GPUs, not
    among `gpus`, that stay as they are: only a reboot changes their mode, and none is allowed. `may_stop` are
    units that may be stopped for a change, in addition to those that held a GPU at the look.
    """

    gpus: tuple[MigGpu, ...] = ()
    managed_by: str = "numaforge"
    strategy: str = "mixed"  # "mixed", "single", "none"
    label: str | None = None  # "mig-enabled", "mig-disabled"
    pending: tuple[MigGpu, ...] = ()
    may_stop: tuple[str, ...] = ()
