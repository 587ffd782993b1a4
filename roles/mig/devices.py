"""The GPUs of a machine as NVML lists them, and the MIG devices of each."""

from dataclasses import replace
from itertools import count

from numaforge.machine.topology.gpu_models import mig_devices
from numaforge.machine.topology.model import Gpu, GpuInstance, MigProfileOffer, NodeTopology
from numaforge.machine.topology.vendors import NVIDIA, listed_by_nvml
from numaforge.roles.mig.instance import MigInstance
from numaforge.roles.mig.models import known_model


def nvidia_gpus(topology: NodeTopology) -> dict[int, Gpu]:
    """Return NVIDIA's GPUs by NVML's index; GPUs without one get the unused numbers, in PCI order."""
    gpus = sorted((gpu for gpu in topology.gpus if gpu.vendor == NVIDIA), key=lambda gpu: gpu.pci_address)
    indexed = {gpu.index: gpu for gpu in gpus if gpu.index is not None}
    free_numbers = (number for number in count() if number not in indexed)
    unindexed = {next(free_numbers): gpu for gpu in gpus if gpu.index is None}
    return dict(sorted({**indexed, **unindexed}.items()))


def nvml_gpus(machine: NodeTopology) -> dict[int, Gpu]:
    """Return the GPUs that NVML lists, by its index: without those of other drivers, such as vfio-pci."""
    return {index: gpu for index, gpu in nvidia_gpus(machine).items() if listed_by_nvml(gpu)}


def as_instance(instance: GpuInstance, profile: str = "") -> MigInstance:
    """Return a GPU instance found by NVML, in the form of a plan.

    `profile` is its profile's name. A compute instance has 0 slices where NVML does not report them.
    """
    slices = sorted((one.slices or 0 for one in instance.compute_instances), reverse=True)
    return MigInstance(profile, instance.profile_id, instance.start, instance.size, tuple(slices))


def mig_device_names(gpu: Gpu) -> tuple[str, ...] | None:
    """Return the profile names of a GPU's MIG devices; None where they are unknown."""
    if gpu.gpu_instances is None:
        return None
    names = [name for name, _ in mig_devices(gpu)]
    return None if None in names else tuple(name for name in names if name)


def with_profile_names(gpu: Gpu) -> Gpu:
    """Return a GPU with the names of its used profiles filled in where the driver does not report them."""
    offers = {offer.id: offer for offer in gpu.mig_profiles}
    used = {one.profile_id for one in gpu.gpu_instances or ()}
    unnamed = {one for one in used if one not in offers or offers[one].name is None}
    if not unnamed:
        return gpu
    model = known_model(gpu)
    for profile in model.profiles if model else ():
        if profile.id in unnamed:
            blank = MigProfileOffer(profile.id, None, profile.slices, profile.limit, None, profile.size)
            offers[profile.id] = replace(offers.get(profile.id, blank), name=profile.name)
    return replace(gpu, mig_profiles=tuple(offers.values()))
