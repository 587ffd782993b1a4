"""The MIG devices of a machine once its plan is applied: what NVML lists then, GPU by GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from numaforge.errors import PlanError
from numaforge.planning.mig.machine import nvidia_gpus
from numaforge.planning.mig.models import model_of
from numaforge.planning.model import MigGpu, MigInstance, MigPlan
from numaforge.topology.model import Gpu, NodeTopology

_NVIDIA_DRIVER = (None, "nvidia")


@dataclass(frozen=True)
class FoundGpu:
    """A GPU as NVML lists it. `mig_devices` are profile names, None where its MIG mode is off."""

    index: int
    mig_devices: tuple[str, ...] | None = None


def found_gpus(topology: NodeTopology, plan: MigPlan) -> tuple[FoundGpu, ...]:
    """Return the GPUs of a machine after its plan was applied; those that it does not name are as they are.

    GPUs that another driver has, such as vfio-pci, are not NVML's. Raises PlanError for a GPU instance whose
    profile is not known.
    """
    planned = {gpu.pci_address: gpu for gpu in plan.gpus}
    return tuple(
        FoundGpu(index, _planned(planned[gpu.pci_address]) if gpu.pci_address in planned else _present(gpu))
        for index, gpu in nvidia_gpus(topology).items()
        if gpu.driver in _NVIDIA_DRIVER
    )


def _planned(gpu: MigGpu) -> tuple[str, ...] | None:
    if gpu.mode != "enabled":
        return None
    return tuple(name for instance in gpu.instances for name in device_names(instance))


def device_names(instance: MigInstance) -> Iterator[str]:
    """Yield the profile names of the MIG devices of a GPU instance, one for each compute instance."""
    slices = int(instance.profile.partition("g.")[0])
    for compute in instance.compute_instances:
        yield instance.profile if compute == slices else f"{compute}c.{instance.profile}"


def _present(gpu: Gpu) -> tuple[str, ...] | None:
    if gpu.mig_mode != "enabled":
        return None
    names = {offer.id: offer.name for offer in gpu.mig_profiles}
    devices: list[str] = []
    for found in gpu.gpu_instances or ():
        name = names.get(found.profile_id) or _name_by_id(gpu, found.profile_id)
        slices = int(name.partition("g.")[0])
        sizes = tuple(one.slices or slices for one in found.compute_instances)
        devices += device_names(MigInstance(name, found.profile_id, found.start, found.size, sizes))
    return tuple(devices)


def _name_by_id(gpu: Gpu, profile_id: int) -> str:
    model = model_of(gpu)
    for profile in model.profiles:
        if profile.id == profile_id:
            return profile.name
    raise PlanError(
        f"a GPU instance has the profile {profile_id}, which {model.products[0]} is not known to have",
        where=f"GPU {gpu.pci_address}",
    )
