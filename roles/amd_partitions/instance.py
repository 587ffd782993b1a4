"""How AMD's GPUs are partitioned: one GPU, and the plan for all of them.

This runs on nodes, too: the worker's program starts with this module.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self


@dataclass(frozen=True)
class AmdGpu:
    """The current or planned modes of one GPU."""

    pci_address: str
    compute: str  # "SPX", "DPX", "TPX", "QPX", "CPX"; "" where the driver does not report it
    memory: str  # "NPS1" to "NPS8"; "" where the GPU has one memory mode alone
    partitions: int | None = field(default=None, compare=False)  # partitions that the compute mode makes

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        return cls(**document)

    @property
    def modes(self) -> str:
        """Both modes: "CPX NPS4"."""
        return " ".join(filter(None, (self.compute, self.memory))) or "unknown"


@dataclass(frozen=True)
class AmdPartitionsPlan:
    """The planned modes of GPUs; GPUs that are not named stay as they are.

    `managed_by` sets the modes: "numaforge" or "device-config-manager". `naming`
    is the `-resource_naming_strategy` of AMD's device plugin, `plugin` its release. `may_stop` are units that
    may be stopped for a change, in addition to those that held a GPU when the node was looked at.
    """

    gpus: tuple[AmdGpu, ...] = ()
    managed_by: str = "numaforge"
    naming: str = "single"  # "single", "mixed"
    plugin: str = "1.31.0.10"
    may_stop: tuple[str, ...] = ()
