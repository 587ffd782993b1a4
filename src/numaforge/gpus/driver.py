"""Rules about NVIDIA's driver: that it has the GPUs, that they answer, and that its versions agree."""

from __future__ import annotations

from collections.abc import Iterator

from numaforge.findings import Applicability, MachineRule, Seen, Severity
from numaforge.gpus import scope
from numaforge.gpus.boards import HGX_BLACKWELL, RACK, has_open_module, needs_open_module
from numaforge.topology.model import Gpu, NodeTopology, NvidiaInstall
from numaforge.topology.vendors import NVIDIA

NVML = "NVML"
_FILES = "/proc/driver/nvidia, /sys/module, modinfo"


def _install(machine: NodeTopology) -> NvidiaInstall:
    return machine.nvidia_install or NvidiaInstall()


def _driver_loaded(machine: NodeTopology) -> Applicability:
    if not scope.driven(machine):
        return Applicability(False, "NVIDIA's driver has no GPU")
    loaded = _install(machine).loaded
    if loaded is None:
        return Applicability(None, "the version of the loaded module was not captured")
    return Applicability(True, f"driver {loaded}")


def _nvml_error(machine: NodeTopology) -> Iterator[Seen]:
    if machine.nvidia is None:
        yield Seen(unknown="neither NVML nor nvidia-smi was asked")
    elif machine.nvidia.error is not None:
        yield Seen(f"NVML says: {machine.nvidia.error}")


def _unanswered(machine: NodeTopology) -> Iterator[Seen]:
    if machine.nvidia is None:
        yield Seen(unknown="neither NVML nor nvidia-smi was asked")
    elif machine.nvidia.error is None:
        for gpu in scope.driven(machine):
            if gpu.unanswered is not None:
                yield Seen(gpu.unanswered, gpu.pci_address)


def _without_driver(machine: NodeTopology) -> Iterator[Seen]:
    drivers = {gpu.driver for gpu in machine.gpus} | {nic.driver for nic in machine.nics}
    if drivers == {None}:
        yield Seen(unknown="no driver of any device was captured")
        return
    for gpu in scope.own_gpus(machine):
        if gpu.driver is None and gpu.uuid is None:
            yield Seen("no kernel driver has it", gpu.pci_address)


def _on_nouveau(machine: NodeTopology) -> Iterator[Seen]:
    for gpu in scope.own_gpus(machine):
        if gpu.driver == "nouveau":
            yield Seen("nouveau has it", gpu.pci_address)


def _nouveau_may_come(machine: NodeTopology) -> Iterator[Seen]:
    install = _install(machine)
    if install.nouveau_kept_out is None or install.kernel_modules is None:
        yield Seen(unknown="the files of modprobe.d were not captured")
    elif not install.nouveau_kept_out:
        loaded = ", and it is loaded" if "nouveau" in install.kernel_modules else ""
        yield Seen(f"neither modprobe.d nor the kernel's command line keeps nouveau out{loaded}")


def _closed_module(machine: NodeTopology) -> Iterator[Seen]:
    install = _install(machine)
    if install.open_module is None:
        yield Seen(unknown="/proc/driver/nvidia/version was not captured")
    elif not install.open_module:
        yield Seen(f"the proprietary module {install.loaded} is loaded")


def _only_recommended(gpu: Gpu) -> bool:
    return has_open_module(gpu) and not needs_open_module(gpu)


def _library(machine: NodeTopology) -> Iterator[Seen]:
    install = _install(machine)
    if install.library is None:
        if machine.nvidia is None or machine.nvidia.error is not None or machine.nvidia.version is None:
            yield Seen(unknown="the file name of libnvidia-ml tells no version")
        # A library of another version does not start.
    elif install.library != install.loaded:
        yield Seen(f"the module that runs is {install.loaded}, libnvidia-ml is {install.library}")


def _module_on_disk(machine: NodeTopology) -> Iterator[Seen]:
    install = _install(machine)
    if install.on_disk is None:
        yield Seen(unknown="modinfo was not asked")
    elif install.on_disk != install.loaded:
        yield Seen(f"the module that runs is {install.loaded}, the next one to load is {install.on_disk}")


def _fits(machine: NodeTopology, prefix: str) -> Iterator[Seen]:
    """Yield the packages of that name whose version is not the driver's."""
    install = _install(machine)
    found = {name: version for name, version in (install.packages or {}).items() if name.startswith(prefix)}
    if install.packages is None or install.loaded is None:
        yield Seen(unknown="the versions of packages were not asked for")
    elif not found:
        yield Seen(unknown="it is not installed as a package of this host")
    for name, version in found.items():
        if version != install.loaded is not None:
            yield Seen(f"{name} is {version}, the driver is {install.loaded}")


_persistence = scope.each(
    scope.not_vgpu,
    lambda gpu: gpu.persistence,
    lambda on: None if on else "persistence is off",
    unknown="persistence was not told",
)


def _missing(machine: NodeTopology) -> Iterator[Seen]:
    gpus = [gpu for gpu in machine.gpus if gpu.vendor == NVIDIA]
    on_rack = any(gpu.device in RACK for gpu in gpus)
    whole = (1, 2, 4) if on_rack else (8, 16)
    if len(gpus) not in whole:
        expected = next((size for size in whole if size > len(gpus)), whole[-1])
        yield Seen(f"{len(gpus)} GPUs where a whole board has {expected}")


def _whole_board(machine: NodeTopology) -> Applicability:
    gpus = [gpu for gpu in machine.gpus if gpu.vendor == NVIDIA]
    if not machine.nvswitches and not any(gpu.device in HGX_BLACKWELL | RACK for gpu in gpus):
        return Applicability(False, "no board with a known number of GPUs")
    if not scope.answering(machine):
        return Applicability(None, "no GPU told whether this is a guest")
    bare = all(map(scope.on_bare_metal, scope.answering(machine)))
    return Applicability(bare, "a whole board" if bare else "a guest has the GPUs that it was given")


UNANSWERED: MachineRule[NodeTopology] = MachineRule(
    "NG102",
    Severity.ERROR,
    "a GPU does not answer",
    "where NVIDIA's driver has a GPU",
    NVML,
    "drain the node, look for its Xid in the kernel's log, reset it or power-cycle the host; a GPU that "
    "is lost again is one to return",
    scope.any_gpu(scope.driven, none="NVIDIA's driver has no GPU"),
    _unanswered,
)
"""Of a GPU that the kernel shows and NVML cannot reach."""

RULES: tuple[MachineRule[NodeTopology], ...] = (
    MachineRule(
        "NG101",
        Severity.ERROR,
        "NVML does not start",
        "where NVIDIA's driver has a GPU",
        NVML,
        "load the driver whose libraries are installed: the versions are in NG201; a reboot does it where a "
        "newer driver was installed beside the one that runs",
        scope.any_gpu(scope.driven, none="NVIDIA's driver has no GPU"),
        _nvml_error,
    ),
    UNANSWERED,
    MachineRule(
        "NG103",
        Severity.WARNING,
        "no driver has a GPU",
        "with an NVIDIA GPU that is not given to a guest",
        "/sys/bus/pci",
        "install NVIDIA's driver, or let the GPU operator bring it",
        scope.any_gpu(scope.own_gpus, none=scope.NO_NVIDIA),
        _without_driver,
    ),
    MachineRule(
        "NG104",
        Severity.ERROR,
        "nouveau has a GPU",
        "with an NVIDIA GPU that is not given to a guest",
        "/sys/bus/pci",
        "keep nouveau out (`blacklist nouveau` below /etc/modprobe.d, then rebuild the initramfs) and reboot",
        scope.any_gpu(scope.own_gpus, none=scope.NO_NVIDIA),
        _on_nouveau,
    ),
    MachineRule(
        "NG105",
        Severity.WARNING,
        "nouveau is not kept out",
        "where NVIDIA's driver has a GPU",
        "modprobe.d, /proc/cmdline",
        "write `blacklist nouveau` to a file below /etc/modprobe.d and rebuild the initramfs: after a boot "
        "nouveau may be first",
        scope.any_gpu(scope.driven, none="NVIDIA's driver has no GPU"),
        _nouveau_may_come,
    ),
    MachineRule(
        "NG106",
        Severity.ERROR,
        "the GPUs need the open kernel module",
        "with a GPU of Blackwell or later, or on a board with Grace",
        _FILES,
        "install the open kernel module of the same version (packages named `-open`)",
        scope.any_gpu(scope.driven, needs_open_module, none="both kinds of module drive these GPUs"),
        _closed_module,
    ),
    MachineRule(
        "NG107",
        Severity.NOTE,
        "the open kernel module is recommended",
        "with a GPU from Turing to Hopper, no Grace",
        _FILES,
        "install the open kernel module (packages named `-open`) when the driver is next changed: DMA-BUF "
        "and GPUDirect Storage need it",
        scope.any_gpu(scope.driven, _only_recommended, none="no GPU for which it is a choice"),
        _closed_module,
    ),
    MachineRule(
        "NG108",
        Severity.WARNING,
        "persistence is off",
        "with a GPU that is no vGPU",
        NVML,
        "enable nvidia-persistenced.service: without it the driver lets go of a GPU that is not used, which "
        "takes seconds to come back and forgets its settings",
        scope.told(scope.not_vgpu, none="a hypervisor keeps the GPUs of vGPUs"),
        _persistence,
    ),
    MachineRule(
        "NG109",
        Severity.ERROR,
        "a GPU of the board is missing",
        "on bare metal with NVSwitches, a B100, B200, B300, GB200 or GB300",
        "/sys/bus/pci",
        "power-cycle the host; a GPU that stays away has fallen off the bus or is broken",
        _whole_board,
        _missing,
    ),
    MachineRule(
        "NG201",
        Severity.ERROR,
        "kernel module and libraries are of two versions",
        "where NVIDIA's driver has a GPU",
        _FILES,
        "reboot, or unload and load the module, drained: containers that run live on, no new one gets a GPU. "
        "Hold the driver's packages against unattended upgrades",
        _driver_loaded,
        _library,
    ),
    MachineRule(
        "NG202",
        Severity.WARNING,
        "another version of the module is loaded next",
        "where NVIDIA's driver has a GPU",
        _FILES,
        "reboot when the node is drained next, and hold the driver's packages against unattended upgrades",
        _driver_loaded,
        _module_on_disk,
    ),
    MachineRule(
        "NG203",
        Severity.ERROR,
        "fabric manager and driver are of two versions",
        "that needs a fabric manager (NG301)",
        "the package database",
        "install the fabric manager of exactly the driver's version and restart it: it does not start with "
        "another one",
        scope.needs_fabric_manager,
        lambda machine: _fits(machine, "nvidia-fabric"),
    ),
    MachineRule(
        "NG204",
        Severity.WARNING,
        "IMEX and driver are of two versions",
        "with GPUs of a rack (GB200, GB300) and the host's own IMEX service enabled",
        "the package database",
        "install nvidia-imex of the driver's version on every node of the rack",
        scope.imex_of_the_host,
        lambda machine: _fits(machine, "nvidia-imex"),
    ),
)
