"""NVML's answers (snapshot/nvml_probe.py) as GPUs; what an older probe did not ask stays unknown."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from numaforge.lib.errors import TopologyError
from numaforge.lib.mistakes import shown
from numaforge.machine.topology.model import (
    ComputeInstance,
    Ecc,
    FabricState,
    Gpu,
    GpuInstance,
    MigDevice,
    MigProfileOffer,
    NvidiaDriver,
    PciLink,
    RemappedRows,
)
from numaforge.machine.topology.vendors import NVIDIA

_BUS_ID = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]")

# nvml.h, by number.
_KEPLER_ON = ("kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell")
_ARCHITECTURES = {**dict(enumerate(_KEPLER_ON, 2)), 13: "rubin"}
_VIRTUALIZATION = dict(enumerate(("none", "passthrough", "vgpu", "host-vgpu", "host-vsga")))
_ADDRESSING = dict(enumerate(("none", "hmm", "ats")))
RECOVERY_ACTIONS = (
    "none",
    "reset",
    "reboot",
    "drain-p2p",
    "drain-and-reset",
    "recover-imex-domain",
    "bus-reset",
    "system-reboot",
)
_RECOVERY = dict(enumerate(RECOVERY_ACTIONS))
_FABRIC_STATES = {1: "not-started", 2: "in-progress", 3: "completed"}  # 0: no fabric
_GIGATRANSFERS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}

# Fields of the fabric's health mask that are 0 where it is not told, 1 where it is so, 2 where it is not.
_FAULTS = {
    0: "degraded bandwidth",
    2: "route recovery in progress",
    4: "route unhealthy",
    6: "access timeout recovery",
}
_CONFIGURATION_SHIFT = 8
_CONFIGURATIONS = (
    None,
    "none",
    "incorrect sysguid",
    "incorrect chassis sn",
    "no partition",
    "insufficient nvlinks",
    "incompatible gpu fw",
    "invalid location",
    "gpu state invalid",
)


def _check(nvml: Mapping[str, Any]) -> None:
    from numaforge.machine.topology.nvml_answers import check_answers  # a machine without answers needs none

    check_answers(nvml)


def read_nvml_driver(nvml: Mapping[str, Any]) -> NvidiaDriver:
    """Return the driver, and why it did not start, if so."""
    _check(nvml)
    cuda = nvml.get("cuda_version")
    _, feature, devtools = nvml.get("confidential_computing") or (None, None, None)
    return NvidiaDriver(
        version=nvml.get("driver_version"),
        nvml_version=nvml.get("nvml_version"),
        cuda_version=None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
        confidential_computing={None: None, 0: "off"}.get(feature, "devtools" if devtools else "on"),
        error=nvml.get("error"),
    )


def read_nvml_gpus(nvml: Mapping[str, Any]) -> Iterator[Gpu]:
    """Yield every GPU; one without a handle has "" for an address. Raises TopologyError for other answers."""
    _check(nvml)
    offers: dict[str, tuple[MigProfileOffer, ...]] = {}
    for gpu in nvml.get("gpus", []):
        yield _gpu(gpu, offers)


def sysfs_address(bus_id: str) -> str:
    """Return "0000:1b:00.0" for NVML's "00000000:1B:00.0"; raises TopologyError for what is no address."""
    if not _BUS_ID.fullmatch(bus_id):
        message = f"{shown(bus_id)} is not the address of a PCI function"
        raise TopologyError(message, where="the driver's answer")
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def pci_ids(number: int | None) -> tuple[str, str] | None:
    """Return vendor and device in sysfs' hex digits from NVML's 0x233010DE."""
    return None if number is None else (f"{number & 0xFFFF:04x}", f"{number >> 16:04x}")


def link_of_generations(
    generation: int | None, width: int | None, max_generation: int | None, max_width: int | None
) -> PciLink | None:
    """Return a link from PCIe generations and widths, None where nothing is known of it."""
    speed, max_speed = _GIGATRANSFERS.get(generation or 0), _GIGATRANSFERS.get(max_generation or 0)
    link = PciLink(speed, width, max_speed, max_width)
    return None if link == PciLink(None, None, None, None) else link


def _gpu(gpu: Mapping[str, Any], offers: dict[str, tuple[MigProfileOffer, ...]]) -> Gpu:
    address = gpu.get("pci_address")
    vendor, device = pci_ids(gpu.get("pci_device_id")) or (NVIDIA, "")
    subsystem = pci_ids(gpu.get("pci_subsystem_id"))
    capability = gpu.get("compute_capability")
    processes = gpu.get("processes") or ()
    node = gpu.get("memory_numa_node")
    ecc, rows = gpu.get("ecc_mode"), gpu.get("remapped_rows")
    fabric = _FABRIC_STATES.get(gpu.get("fabric_state") or 0)
    return Gpu(
        pci_address="" if address is None else sysfs_address(address),
        vendor=vendor,
        device=device,
        numa_node=None,
        uuid=gpu.get("uuid"),
        name=gpu.get("name"),
        memory_bytes=gpu.get("memory_bytes"),
        mig_capable=gpu.get("mig_capable"),
        mig_mode=_mode(gpu.get("mig_current")),
        nvlinks=gpu.get("nvlinks"),
        fabric=gpu.get("fabric"),
        index=gpu.get("index"),
        minor=gpu.get("minor"),
        mig_pending=_mode(gpu.get("mig_pending")),
        gpu_instances=_gpu_instances(gpu, processes),
        # GPUs that offer the same share one tuple: comparing many machines costs less.
        mig_profiles=offers.setdefault(str(gpu.get("mig_profiles")), _offers(gpu.get("mig_profiles") or ())),
        pids=tuple(sorted({pid for pid, _, _ in processes})),
        nvlink_peers={
            sysfs_address(peer) if ":" in peer else peer: count
            for peer, count in sorted((gpu.get("nvlink_peers") or {}).items())
        },
        memory_numa_node=node if node is not None and node >= 0 else None,
        virtualization=_VIRTUALIZATION.get(gpu.get("virtualization", -1)),
        unanswered=gpu.get("unanswered"),
        subsystem=None if subsystem is None else ":".join(subsystem),
        architecture=_ARCHITECTURES.get(gpu.get("architecture", -1)),
        compute_capability=None if capability is None else ".".join(map(str, capability)),
        persistence=None if gpu.get("persistence") is None else bool(gpu["persistence"]),
        ecc=ecc and Ecc(*map(bool, ecc), *(gpu.get("ecc_uncorrected") or (None, None))),
        remapped_rows=rows and RemappedRows(*rows[:2], *map(bool, rows[2:])),
        recovery_action=_RECOVERY.get(gpu.get("recovery_action", -1)),
        fabric_state=None
        if fabric is None
        else FabricState(fabric, gpu.get("fabric_status"), _faults(gpu.get("fabric_health_mask"))),
        driver_link=link_of_generations(
            *(gpu.get(f"pcie_{name}") for name in ("generation", "width", "max_generation", "max_width"))
        ),
        addressing_mode=_ADDRESSING.get(gpu.get("addressing_mode", -1)),
        gsp_firmware=gpu.get("gsp_firmware") or None,
        max_mig_devices=gpu.get("max_mig_devices"),
        mig_devices=tuple(
            MigDevice(mig["gpu_instance"], mig["compute_instance"], mig["uuid"])
            for mig in gpu.get("mig_devices") or ()
        ),
        vbios=gpu.get("vbios") or None,
    )


def _mode(enabled: bool | None) -> str | None:
    return None if enabled is None else "enabled" if enabled else "disabled"


def _gpu_instances(
    gpu: Mapping[str, Any], processes: Iterable[Sequence[int]]
) -> tuple[GpuInstance, ...] | None:
    instances = gpu.get("gpu_instances")
    if instances is None:
        return None
    return tuple(
        GpuInstance(
            id=one["id"],
            profile_id=one["profile"],
            start=one["start"],
            size=one["size"],
            compute_instances=tuple(
                ComputeInstance(mig["compute_instance"], mig["slices"], mig["uuid"])
                for mig in gpu.get("mig_devices") or ()
                if mig["gpu_instance"] == one["id"]
            ),
            pids=tuple(sorted({pid for pid, instance, _ in processes if instance == one["id"]})),
        )
        for one in instances
    )


def _offers(profiles: Iterable[Mapping[str, Any]]) -> tuple[MigProfileOffer, ...]:
    return tuple(
        MigProfileOffer(
            id=profile["id"],
            name=profile["name"] and profile["name"].removeprefix("MIG "),
            slices=profile["slices"],
            limit=profile["limit"],
            memory_bytes=profile["memory_mib"] * 2**20,
            size=profile["size"],
            starts=tuple(profile["starts"]),
        )
        for profile in profiles
    )


def _faults(mask: int | None) -> tuple[str, ...] | None:
    if not mask:
        return None
    configuration = mask >> _CONFIGURATION_SHIFT & 0xF
    faults = [fault for shift, fault in _FAULTS.items() if mask >> shift & 3 == 1]
    if 1 < configuration < len(_CONFIGURATIONS):
        faults.append(f"incorrect configuration: {_CONFIGURATIONS[configuration]}")
    return tuple(faults)
