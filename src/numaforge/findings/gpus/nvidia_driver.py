"""Rules about NVIDIA's driver: that it has the GPUs, that they answer, and that its versions agree."""

from collections.abc import Iterator

from numaforge.findings import scope
from numaforge.findings.engine import Applicability, Seen
from numaforge.findings.gpus.nvidia_boards import HGX_BLACKWELL, NVLINKS, has_open_module, needs_open_module
from numaforge.findings.rules import machine_rule
from numaforge.machine.topology.gpu_models import RACK
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.vendors import NVIDIA

NVML = "NVML"


def _driver_loaded(machine: NodeTopology) -> Applicability:
    if not scope.driven(machine):
        return Applicability(False, scope.NO_DRIVER)
    loaded = scope.nvidia_install(machine).loaded
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
    for gpu in scope.lost(machine):
        yield Seen(gpu.unanswered, gpu.pci_address)


def _without_driver(machine: NodeTopology) -> Iterator[Seen]:
    drivers = {gpu.driver for gpu in machine.gpus} | {nic.driver for nic in machine.nics}
    if drivers == {None}:
        yield Seen(unknown="no driver of any device was captured")
        return
    for gpu in scope.own_gpus(machine):
        if gpu.driver is None and not scope.has_driver(gpu):
            yield Seen("no kernel driver has it", gpu.pci_address)


def _on_nouveau(machine: NodeTopology) -> Iterator[Seen]:
    for gpu in scope.own_gpus(machine):
        if gpu.driver == "nouveau":
            yield Seen("nouveau has it", gpu.pci_address)


def _nouveau_may_come(machine: NodeTopology) -> Iterator[Seen]:
    install = scope.nvidia_install(machine)
    if install.nouveau_kept_out is None or install.kernel_modules is None:
        yield Seen(unknown="the files of modprobe.d were not captured")
    elif not install.nouveau_kept_out:
        loaded = ", and it is loaded" if "nouveau" in install.kernel_modules else ""
        yield Seen(f"neither modprobe.d nor the kernel's command line keeps nouveau out{loaded}")


def _closed_module(machine: NodeTopology) -> Iterator[Seen]:
    install = scope.nvidia_install(machine)
    if install.open_module is None:
        yield Seen(unknown="/proc/driver/nvidia/version was not captured")
    elif not install.open_module:
        yield Seen(f"the proprietary module {install.loaded} is loaded")


def _library(machine: NodeTopology) -> Iterator[Seen]:
    install = scope.nvidia_install(machine)
    if install.library is None:
        if machine.nvidia is None or machine.nvidia.error is not None or machine.nvidia.version is None:
            yield Seen(unknown="the file name of libnvidia-ml has no version")
        # A library of another version does not start.
    elif install.library != install.loaded:
        yield Seen(f"the module that runs is {install.loaded}, libnvidia-ml is {install.library}")


def _module_on_disk(machine: NodeTopology) -> Iterator[Seen]:
    install = scope.nvidia_install(machine)
    if install.on_disk is None:
        yield Seen(unknown="modinfo was not asked")
    elif install.on_disk != install.loaded:
        yield Seen(f"the module that runs is {install.loaded}, the next one to load is {install.on_disk}")


_persistence = scope.one_value(
    scope.not_vgpu,
    lambda gpu: gpu.persistence,
    lambda on: None if on else "persistence is off",
    unknown="persistence mode is unknown",
)


def _missing(machine: NodeTopology) -> Iterator[Seen]:
    devices = [gpu.device for gpu in machine.gpus if gpu.vendor == NVIDIA]
    on_rack = any(device in RACK for device in devices)
    # Cards next to a board, as for graphics, are of another model; so may be a replaced GPU on the board.
    on_board = sum(device in NVLINKS for device in devices)
    count = max([on_board, *map(devices.count, devices)])
    sizes = (1, 2, 4) if on_rack else (8, 16)
    if count > sizes[-1]:
        yield Seen(unknown=f"{count} GPUs of one model are more than boards that are known have")
    elif count not in sizes:
        expected = next(size for size in sizes if size > count)
        yield Seen(f"{count} GPUs where a whole board has {expected}")


def _whole_board(machine: NodeTopology) -> Applicability:
    gpus = [gpu for gpu in machine.gpus if gpu.vendor == NVIDIA]
    if not machine.nvswitches and not any(gpu.device in HGX_BLACKWELL | RACK for gpu in gpus):
        return Applicability(False, "no board with a known number of GPUs")
    if not scope.answering(machine):
        return Applicability(None, "unknown whether this is a guest")
    bare = all(map(scope.on_bare_metal, scope.answering(machine)))
    return Applicability(bare, "a whole board" if bare else "a guest has the GPUs that it was given")


RULES = (
    machine_rule("NG101", scope.with_driver, _nvml_error),
    machine_rule("NG102", scope.with_driver, _unanswered),
    machine_rule("NG103", scope.with_own_gpu, _without_driver),
    machine_rule("NG104", scope.with_own_gpu, _on_nouveau),
    machine_rule("NG105", scope.with_driver, _nouveau_may_come),
    machine_rule(
        "NG106",
        scope.with_driven(needs_open_module, none="both kinds of module drive these GPUs"),
        _closed_module,
    ),
    machine_rule(
        "NG107",
        scope.with_driven(
            lambda gpu: has_open_module(gpu) and not needs_open_module(gpu),
            none="no GPU for which it is a choice",
        ),
        _closed_module,
    ),
    machine_rule("NG108", scope.with_real_gpu, _persistence),
    machine_rule("NG109", _whole_board, _missing),
    machine_rule("NG201", _driver_loaded, _library),
    machine_rule("NG202", _driver_loaded, _module_on_disk),
)
