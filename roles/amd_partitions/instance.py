"""How AMD's GPUs are partitioned, and what a plan says of all of them.

Nodes run this, too: the worker has it before its own modules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self


@dataclass(frozen=True)
class AmdGpu:
    """The modes of one GPU, or those that it is to have."""

    pci_address: str
    compute: str  # "SPX", "DPX", "TPX", "QPX", "CPX"; "" where the driver does not tell
    memory: str  # "NPS1" to "NPS8"; "" where the GPU has one memory mode alone
    partitions: int | None = field(default=None, compare=False)  # how many the compute mode makes

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Return a GPU from the form that it has in documents."""
        return cls(**document)

    @property
    def modes(self) -> str:
        """Both modes: "CPX NPS4"."""
        return " ".join(filter(None, (self.compute, self.memory))) or "unknown"


@dataclass(frozen=True)
class AmdPartitionsPlan:
    """The modes that GPUs are to have; those that are not named stay as they are.

    `managed_by` carries it out: "numaforge", or "device-config-manager", which is handed the same. `naming`
    is the `-resource_naming_strategy` of AMD's device plugin, `plugin` its release. `may_stop` are units that
    may be stopped for a change beside those that held a GPU when the node was looked at.
    """

    gpus: tuple[AmdGpu, ...] = ()
    managed_by: str = "numaforge"
    naming: str = "single"  # "single", "mixed"
    plugin: str = "1.31.0.10"
    may_stop: tuple[str, ...] = ()
