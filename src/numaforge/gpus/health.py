"""Rules about the GPUs themselves and what hangs on them: memory, PCIe, MIG mode, containers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from numaforge.findings import Applicability, MachineRule, Seen, Severity
from numaforge.gpus import scope
from numaforge.gpus.boards import GRACE, has_hbm
from numaforge.gpus.driver import NVML
from numaforge.topology.model import Gpu, NodeTopology
from numaforge.topology.vendors import AMD, NVIDIA

_CGROUPFS = re.compile(r"^cgroupDriver:\s*[\"']?cgroupfs\b", re.MULTILINE)


def _real_with_hbm(gpu: Gpu) -> bool:
    return has_hbm(gpu) and scope.not_vgpu(gpu)


_ecc_off = scope.each(
    _real_with_hbm,
    lambda gpu: gpu.ecc and gpu.ecc.enabled,
    lambda enabled: None if enabled else "ECC is off",
    unknown="the ECC mode was not told",
)


def _has_ecc(gpu: Gpu) -> bool:
    return gpu.ecc is not None and scope.not_vgpu(gpu)


def _ecc_modes(gpu: Gpu) -> tuple[bool, bool] | None:
    if gpu.ecc is None or gpu.ecc.enabled is None or gpu.ecc.pending is None:
        return None
    return gpu.ecc.enabled, gpu.ecc.pending


def _ecc_changes(modes: tuple[bool, bool]) -> str | None:
    now, then = ("on" if mode else "off" for mode in modes)
    return None if now == then else f"ECC is {now}, and {then} after a reset"


_ecc_pending = scope.each(
    _has_ecc, _ecc_modes, _ecc_changes, unknown="the ECC mode after a reset was not told"
)


def _remaps(gpu: Gpu) -> bool:
    return gpu.remapped_rows is not None


_remap_pending = scope.each(
    _remaps,
    lambda gpu: gpu.remapped_rows and gpu.remapped_rows.pending,
    lambda pending: "a row of its memory waits to be remapped" if pending else None,
    unknown="pending remaps were not told",
)

_remap_failed = scope.each(
    _remaps,
    lambda gpu: gpu.remapped_rows and gpu.remapped_rows.failed,
    lambda failed: "a row of its memory could not be remapped" if failed else None,
    unknown="failed remaps were not told",
)

_recovery = scope.each(
    scope.not_vgpu,
    lambda gpu: gpu.recovery_action,
    lambda action: None if action == "none" else f"the driver asks for: {action}",
    unknown="the driver does not tell whether it wants a reset",
)


def _by_pcie(gpu: Gpu) -> bool:
    """Say whether the GPU works over PCIe: Grace talks to its GPU by NVLink-C2C instead."""
    return gpu.vendor in (NVIDIA, AMD) and gpu.link is not None and gpu.device not in GRACE


def _with_own_pcie(gpu: Gpu) -> bool:
    """Say whether the link is the GPU's own; of AMD's no field says whether they are a guest's."""
    return _by_pcie(gpu) and (gpu.vendor == AMD or scope.on_bare_metal(gpu))


def _pcie(machine: NodeTopology) -> Applicability:
    wanted = list(filter(_by_pcie, machine.gpus))
    if not wanted:
        return Applicability(False, "no GPU that works over PCIe")
    if any(map(_with_own_pcie, wanted)):
        return Applicability(True, "GPUs on PCIe of their own")
    if all(gpu.virtualization is None for gpu in wanted):
        return Applicability(None, "no GPU told whether this is a guest")
    return Applicability(False, "the PCIe of a guest is the hypervisor's")


def _narrow(machine: NodeTopology) -> Iterator[Seen]:
    for gpu in filter(_with_own_pcie, machine.gpus):
        width, most = (gpu.link.width, gpu.link.max_width) if gpu.link else (None, None)
        if width is None or most is None:
            yield Seen(unknown="the kernel does not tell the width of the link")
        elif width < most:
            yield Seen(f"its PCIe link has {width} of {most} lanes", gpu.pci_address)


def _slow(machine: NodeTopology) -> Iterator[Seen]:
    for gpu in filter(_with_own_pcie, machine.gpus):
        if gpu.link is None or gpu.link.speed is None or gpu.link.max_speed is None:
            yield Seen(unknown="the kernel does not tell the speed of the link")
        elif gpu.link.speed < gpu.link.max_speed:
            if gpu.pids:
                rate = f"{gpu.link.speed:g} of {gpu.link.max_speed:g} GT/s"
                yield Seen(f"its PCIe link runs at {rate}, with processes on it", gpu.pci_address)
            else:
                yield Seen(unknown="a GPU at rest lowers the speed of its link")


def _mig_capable(gpu: Gpu) -> bool:
    return bool(gpu.mig_capable) and scope.not_vgpu(gpu)


def _mig_modes(gpu: Gpu) -> tuple[str, str] | None:
    return None if gpu.mig_mode is None or gpu.mig_pending is None else (gpu.mig_mode, gpu.mig_pending)


def _mig_changes(modes: tuple[str, str]) -> str | None:
    now, then = modes
    return None if now == then else f"MIG mode is {now}, and {then} after a reset"


_mig_pending = scope.each(
    _mig_capable, _mig_modes, _mig_changes, unknown="the MIG mode after a reset was not told"
)


def _systemd_containers(machine: NodeTopology) -> Applicability:
    if not scope.driven(machine):
        return Applicability(False, "NVIDIA's driver has no GPU")
    if machine.kubelet is None:
        return Applicability(False, "no kubelet starts containers here")
    if _CGROUPFS.search(machine.kubelet.config_text or ""):
        return Applicability(False, "the kubelet does not use systemd's control groups")
    return Applicability(True, "systemd holds the containers' control groups")


def _lost_at_reload(machine: NodeTopology) -> Iterator[Seen]:
    install = machine.nvidia_install
    if install is None or install.char_links is None or install.cdi_specs is None:
        yield Seen(unknown="/dev/char was not captured")
    elif not install.char_links and not install.cdi_specs:
        yield Seen("/dev/char has no links to NVIDIA's devices, and there is no CDI specification")


RULES: tuple[MachineRule[NodeTopology], ...] = (
    MachineRule(
        "NG401",
        Severity.WARNING,
        "ECC is off",
        "with a GPU that has HBM and is no vGPU",
        NVML,
        "`nvidia-smi -e 1` and a reset, drained; on HBM it costs neither memory nor speed",
        scope.told(_real_with_hbm, none="no GPU with HBM: on GDDR it is a choice"),
        _ecc_off,
    ),
    MachineRule(
        "NG402",
        Severity.NOTE,
        "a change of the ECC mode waits for a reset",
        "with a GPU that has ECC and is no vGPU",
        NVML,
        "reset the GPU or reboot when the node is drained next",
        scope.told(_has_ecc, none="no GPU tells of ECC"),
        _ecc_pending,
    ),
    MachineRule(
        "NG403",
        Severity.WARNING,
        "a row of memory waits to be remapped",
        "with a GPU that remaps rows: Ampere and later",
        NVML,
        "reset the GPU or reboot when the node is drained next: the row is replaced then",
        scope.told(_remaps, none="no GPU remaps rows"),
        _remap_pending,
    ),
    MachineRule(
        "NG404",
        Severity.ERROR,
        "a row of memory could not be remapped",
        "with a GPU that remaps rows: Ampere and later",
        NVML,
        "take the node out of service and return the GPU",
        scope.told(_remaps, none="no GPU remaps rows"),
        _remap_failed,
    ),
    MachineRule(
        "NG405",
        Severity.ERROR,
        "the driver asks for a reset or a reboot",
        "with a GPU that is no vGPU",
        NVML,
        "drain the node and do what it asks for",
        scope.told(scope.not_vgpu, none="a hypervisor keeps the GPUs of vGPUs"),
        _recovery,
    ),
    MachineRule(
        "NG501",
        Severity.WARNING,
        "a PCIe link has fewer lanes than the GPU",
        "on bare metal with an NVIDIA or AMD GPU, no Grace",
        "/sys/bus/pci",
        "reseat the GPU or its riser, and look whether the slot has as many lanes: a link at rest keeps its "
        "width",
        _pcie,
        _narrow,
    ),
    MachineRule(
        "NG502",
        Severity.NOTE,
        "a PCIe link is slower than the GPU",
        "on bare metal with an NVIDIA or AMD GPU in use, no Grace",
        "/sys/bus/pci",
        "look again under load: a GPU that waits lowers the speed by itself. One that stays slow has a bad "
        "contact, or a slot of an older generation",
        _pcie,
        _slow,
    ),
    MachineRule(
        "NG503",
        Severity.WARNING,
        "a change of the MIG mode waits for a reset",
        "with a GPU that has MIG and is no vGPU",
        NVML,
        "reset the GPU, drained, or reboot where a hypervisor gives it and it cannot be reset",
        scope.told(_mig_capable, none="no GPU with MIG"),
        _mig_pending,
    ),
    MachineRule(
        "NG601",
        Severity.WARNING,
        "a daemon-reload of systemd takes GPUs from containers",
        "where NVIDIA's driver has a GPU and the kubelet uses systemd's control groups",
        "/dev/char, /etc/cdi, /run/cdi",
        "`nvidia-ctk system create-dev-char-symlinks --create-all` at each boot, or give devices by CDI",
        _systemd_containers,
        _lost_at_reload,
    ),
)
