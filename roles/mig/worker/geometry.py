"""How GPUs are cut: the state in NVML, the changes needed, and carrying them out."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pynvml as nvml

from numaforge.node.holders import NotDoneError
from numaforge.roles.mig.instance import MigGpu, MigInstance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

ENABLED, DISABLED = "enabled", "disabled"
LARGEST_ENUMERATION = 32  # NVML's profiles: 18 in R580
MOST_INSTANCES = 16  # of one profile; NVML's own limit is wrong for the A30
DRIVER_SECONDS = 60  # until the driver answers after a boot or a reset
BUSY_SECONDS = 10  # the driver releases a process shortly after it has ended

PLAIN = {
    "NVML_ERROR_INVALID_ARGUMENT": "NVML knows no such profile or placement",
    "NVML_ERROR_NOT_SUPPORTED": "it does not support that",
    "NVML_ERROR_NO_PERMISSION": "this machine may not change it, as in a vGPU guest",
    "NVML_ERROR_NOT_FOUND": "it is not there",
    "NVML_ERROR_DRIVER_NOT_LOADED": "the NVIDIA driver is not loaded",
    "NVML_ERROR_LIBRARY_NOT_FOUND": "libnvidia-ml.so.1 is not installed",
    "NVML_ERROR_FUNCTION_NOT_FOUND": "the driver is too old for that",
    "NVML_ERROR_GPU_IS_LOST": "it has fallen off the bus",
    "NVML_ERROR_RESET_REQUIRED": "it has to be reset first",
    "NVML_ERROR_IN_USE": "it is in use",
    "NVML_ERROR_INSUFFICIENT_RESOURCES": "there is no room for it",
    "NVML_ERROR_TIMEOUT": "the driver did not answer in time",
}


@dataclass(frozen=True)
class Wanted(MigGpu):
    """The target of a GPU; with `by_boot`, only a boot changes its MIG mode."""

    by_boot: bool = False


@dataclass(frozen=True)
class Existing:
    """An existing GPU instance; handles are NVML's, `compute` has slices and handle per compute instance."""

    id: int
    cut: MigInstance
    handle: Any
    compute: list[tuple[int, Any]]


def reasoned(error: Exception) -> str:
    """Return NVML's error in plain English, else its own message."""
    name = next((name for name in PLAIN if getattr(nvml, name, None) == getattr(error, "value", 0)), "")
    return PLAIN.get(name, str(error))


def connect(seconds: float) -> None:
    """Open NVML, and retry for this many seconds while the driver is not up yet."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            nvml.nvmlInit()
            return
        except nvml.NVMLError as error:
            if time.monotonic() > deadline:
                raise NotDoneError(f"NVML does not answer: {reasoned(error)}") from error
        time.sleep(1)


def devices() -> dict[str, Any]:
    """Return NVML's handle of each GPU that answers, by PCI address as sysfs writes it."""
    handles = {}
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            device = nvml.nvmlDeviceGetHandleByIndex(index)
            handles[text_of(nvml.nvmlDeviceGetPciInfo(device).busId).lower()[-12:]] = device
        except nvml.NVMLError:
            continue  # the GPU is lost; a plan that names it fails, because it is missing here
    return handles


def offered(ask: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
    """Yield the profiles that `ask` knows, by NVML's enumeration; each has `id` and `sliceCount`."""
    for number in range(LARGEST_ENUMERATION):
        try:
            try:
                yield ask(number, *arguments)
            except nvml.NVMLError_FunctionNotFound:
                yield ask(number, *arguments, version=1)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument, nvml.NVMLError_NotFound):
            continue


def compute_profiles(handle: Any) -> list[Any]:
    """Return the compute instance profiles of a GPU instance."""

    def ask(number: int, **version: int) -> Any:
        return nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(handle, number, 0, **version)

    return list(offered(ask))


def members(ask: Callable[..., Any], handle: Any, profile_id: int, kind: Any) -> list[Any]:
    array, count = (kind * MOST_INSTANCES)(), nvml.c_uint(MOST_INSTANCES)
    ask(handle, profile_id, array, nvml.byref(count))
    return [array[number] for number in range(count.value)]


def instances(device: Any) -> list[Existing]:
    """Return the GPU instances of a GPU; none where its MIG mode is disabled."""

    def ask(number: int, **version: int) -> Any:
        return nvml.nvmlDeviceGetGpuInstanceProfileInfo(device, number, **version)

    if mode(device) != ENABLED:
        return []
    by_id = {}
    for profile in {info.id for info in offered(ask)}:
        handles = members(nvml.nvmlDeviceGetGpuInstances, device, profile, nvml.c_nvmlGpuInstance_t)
        for handle in handles:
            info = nvml.nvmlGpuInstanceGetInfo(handle)
            compute = compute_instances(handle)
            slices = tuple(sorted((slices for slices, _ in compute), reverse=True))
            placement = info.placement
            cut = MigInstance("", info.profileId, placement.start, placement.size, slices)
            by_id[info.id] = Existing(info.id, cut, handle, compute)
    return [by_id[number] for number in sorted(by_id)]


def compute_instances(handle: Any) -> list[tuple[int, Any]]:
    slices = {info.id: info.sliceCount for info in compute_profiles(handle)}
    return [
        (slices[profile], member)
        for profile in sorted(slices)
        for member in members(
            nvml.nvmlGpuInstanceGetComputeInstances, handle, profile, nvml.c_nvmlComputeInstance_t
        )
    ]


def mode(device: Any, *, pending: bool = False) -> str | None:
    """Return a GPU's MIG mode, None without MIG; with `pending`, the mode after a reset."""
    try:
        return ENABLED if nvml.nvmlDeviceGetMigMode(device)[pending] else DISABLED
    except nvml.NVMLError_NotSupported:
        return None


def text_of(answer: Any) -> str:
    """Return NVML's answer as text: older versions of pynvml return bytes."""
    return answer.decode() if isinstance(answer, bytes) else str(answer)


def gpu_now(address: str, device: Any) -> MigGpu:
    cuts = sorted((instance.cut for instance in instances(device)), key=order)
    return MigGpu(address, text_of(nvml.nvmlDeviceGetUUID(device)), mode(device) or "", tuple(cuts))


def order(instance: MigInstance) -> tuple[int, int]:
    """Return the sort key for creating instances: the largest first, then by start."""
    return -instance.size, instance.start


def summary(gpu: MigGpu) -> str:
    """Return a geometry in a few words: "enabled, 9@0 (3), 14@4 (1+1)"."""
    lines = [
        f"{instance.profile_id}@{instance.start} ({'+'.join(map(str, instance.compute_instances)) or 'none'})"
        for instance in sorted(gpu.instances, key=order)
    ]
    return ", ".join([f"MIG mode {gpu.mode or 'not supported'}", *lines])


def gpus_of(path: Path) -> list[Wanted]:
    return [Wanted.read(gpu) for gpu in json.loads(path.read_text(encoding="utf-8"))["gpus"]]


@dataclass
class Work:
    """The work that brings one GPU to its target: which instances go, and whether its mode changes."""

    wanted: Wanted
    device: Any
    now: str | None
    there: list[Existing]

    @property
    def address(self) -> str:
        """The GPU's PCI address."""
        return self.wanted.pci_address

    @property
    def switches(self) -> bool:
        """Whether the MIG mode changes, or a change of it still waits for a reset."""
        later = mode(self.device, pending=True)
        if self.wanted.by_boot:
            return later != self.wanted.mode
        return self.wanted.mode != self.now or later != self.now

    @property
    def waits(self) -> bool:
        """Whether the MIG mode is set, but takes effect only at a boot."""
        return self.wanted.by_boot and self.now != self.wanted.mode and not self.switches

    @property
    def goes(self) -> list[Existing]:
        """The GPU instances that have to go."""
        kept_places = {instance.place for instance in self.wanted.instances}
        return [
            existing
            for existing in self.there
            if self.wanted.mode != ENABLED or existing.cut.place not in kept_places
        ]

    @property
    def recut(self) -> list[Existing]:
        """The GPU instances that stay and get other compute instances."""
        goes = self.goes
        return [
            existing
            for existing in self.there
            if existing not in goes and existing.cut not in self.wanted.instances
        ]

    @property
    def done(self) -> bool:
        """Whether nothing has to change."""
        present = (self.now, frozenset(existing.cut for existing in self.there))
        return self.waits or (present == self.wanted.geometry and not self.switches)


def work_on(targets: Iterable[Wanted]) -> list[Work]:
    """Return the work left; GPUs at their targets, or as near as possible without a boot, have none."""
    return [work for work in looked_at(targets) if not work.done]


def looked_at(targets: Iterable[Wanted]) -> list[Work]:
    """Return the present state of the wanted GPUs."""
    handles = devices()
    works = []
    for gpu in targets:
        device = handles.get(gpu.pci_address)
        if device is None or (gpu.uuid and text_of(nvml.nvmlDeviceGetUUID(device)) != gpu.uuid):
            raise NotDoneError(f"{gpu.pci_address}: the GPU {gpu.uuid or ''} is not there any more")
        if mode(device) is None and gpu.mode:
            raise NotDoneError(f"{gpu.pci_address}: this GPU has no MIG")
        works.append(Work(gpu, device, mode(device), instances(device)))
    return works


def patiently(failure: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call NVML, and retry for a while where it reports something in use."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return call(*arguments)
        except nvml.NVMLError as error:
            if error.value != nvml.NVML_ERROR_IN_USE or time.monotonic() > deadline:
                raise NotDoneError(f"{failure}: {reasoned(error)}") from error
        time.sleep(0.5)


def clear(work: Work) -> None:
    """Destroy the instances that go."""
    for existing in [*work.goes, *work.recut]:
        failure = f"{work.address}: the GPU instance {existing.id} cannot be destroyed"
        for _, handle in existing.compute:
            patiently(failure, nvml.nvmlComputeInstanceDestroy, handle)
        if existing in work.goes:
            patiently(failure, nvml.nvmlGpuInstanceDestroy, existing.handle)


def create(work: Work) -> None:
    """Create what is missing, each instance where it is wanted."""
    by_place = {existing.cut.place: existing for existing in work.there}
    for planned in sorted(work.wanted.instances, key=order):
        name = f"{work.address}: the GPU instance {planned.profile or planned.profile_id} at {planned.start}"
        if existing_instance := by_place.get(planned.place):
            if existing_instance.compute:
                continue
            handle = existing_instance.handle
        else:
            placement = nvml.c_nvmlGpuInstancePlacement_t(planned.start, planned.size)
            ask = nvml.nvmlDeviceCreateGpuInstanceWithPlacement
            failure = f"{name} cannot be created"
            handle = patiently(failure, ask, work.device, planned.profile_id, nvml.byref(placement))
        profiles = {info.sliceCount: info.id for info in reversed(compute_profiles(handle))}
        for slices in planned.compute_instances:
            failure = f"{name} cannot get a compute instance of {slices} slices"
            if slices not in profiles:
                raise NotDoneError(f"{failure}: it offers {sorted(profiles)}")
            patiently(failure, nvml.nvmlGpuInstanceCreateComputeInstance, handle, profiles[slices])


def read_back(gpu: MigGpu) -> None:
    """Compare a GPU with its target; raises NotDoneError where it differs."""
    device = devices().get(gpu.pci_address)
    if device is None:
        raise NotDoneError(f"{gpu.pci_address}: the GPU does not answer any more")
    current = gpu_now(gpu.pci_address, device)
    if current.geometry != gpu.geometry:
        raise NotDoneError(f"{gpu.pci_address}: wanted {summary(gpu)}, and there is {summary(current)}")
