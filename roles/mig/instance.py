"""How GPUs are cut: instances with their places, the GPUs that have them, and what a plan says of all."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MigInstance:
    """A GPU instance that is to be: its profile and where it lies, in memory slices.

    `compute_instances` are the compute slices of each of its compute instances.
    """

    profile: str  # "3g.40gb"
    profile_id: int  # NVML's
    start: int
    size: int
    compute_instances: tuple[int, ...]


@dataclass(frozen=True)
class MigGpu:
    """How one GPU is to be cut."""

    pci_address: str
    uuid: str | None
    mode: str  # "enabled", "disabled"
    instances: tuple[MigInstance, ...] = ()


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
