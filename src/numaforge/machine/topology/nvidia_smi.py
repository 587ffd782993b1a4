"""The output of `nvidia-smi -q -x`, where NVML was not asked: its XML of DTD versions 11 to 13."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from numaforge.lib.errors import TopologyError
from numaforge.lib.given import digits
from numaforge.machine.topology.model import (
    Ecc,
    FabricState,
    Gpu,
    MigDevice,
    NvidiaDriver,
    PciLink,
    RemappedRows,
)
from numaforge.machine.topology.nvml import RECOVERY_ACTIONS, link_of_generations, pci_ids, sysfs_address
from numaforge.machine.topology.vendors import NVIDIA

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_HEXADECIMAL = re.compile("(?:0x)?[0-9A-Fa-f]{1,16}")
_LOST = ("GPU is lost", "GPU requires reset", "GPU requires restart")
_NO_ANSWER = ("N/A", "[N/A]", "Not Supported", "Unknown Error", "Insufficient Permissions", "ERR!", *_LOST)
_DEPRECATED = "Requested functionality has been deprecated"
_VIRTUALIZATION = {
    "None": "none",
    "Pass-Through": "passthrough",
    "VGPU": "vgpu",
    "Host VGPU": "host-vgpu",
    "Host VSGA": "host-vsga",
}
_FABRIC_STATES = {"Not Started": "not-started", "In Progress": "in-progress", "Completed": "completed"}
_KINDS_OF_ERRORS = ("", "_parity", "_secded")
_SWITCHES = {"Enabled": True, "Disabled": False, "Yes": True, "No": False}

# Elements of a fabric's health, and the word that is a fault.
_FAULTS = {
    "bandwidth": ("Degraded", "degraded bandwidth"),
    "route_recovery_in_progress": ("True", "route recovery in progress"),
    "route_unhealthy": ("True", "route unhealthy"),
    "access_timeout_recovery": ("True", "access timeout recovery"),
}


def read_smi_driver(text: str) -> NvidiaDriver:
    """Return the driver that the document names."""
    log = _log(text)
    return NvidiaDriver(version=_said(log, "driver_version"), cuda_version=_said(log, "cuda_version"))


def read_smi_gpus(text: str) -> Iterator[Gpu]:
    """Yield every GPU: no NVLinks, no NUMA node, ids of instances alone; raises TopologyError for bad XML."""
    log = _log(text)
    gpus = list(log.iter("gpu"))
    # They are in NVML's order; where one is missing, positions are not indexes.
    complete = _said(log, "attached_gpus") == str(len(gpus))
    for index, gpu in enumerate(gpus):
        address = gpu.get("id") or _said(gpu, "pci/pci_bus_id")
        if address is not None:
            yield _gpu(gpu, sysfs_address(address), index if complete else None)


def _log(text: str) -> Element:
    from xml.etree import ElementTree  # most hosts have answered NVML

    # Without its DOCTYPE the document can define no entities.
    xml = re.sub(r"<!DOCTYPE[^>]*>", "", text)
    try:
        return ElementTree.fromstring(xml.strip())  # noqa: S314
    except ElementTree.ParseError as error:
        raise TopologyError(f"the XML of nvidia-smi is broken: {error}") from error


def _gpu(gpu: Element, address: str, index: int | None) -> Gpu:
    current, pending = (_said(gpu, f"mig_mode/{name}_mig") for name in ("current", "pending"))
    mig_mode = gpu.findtext("mig_mode/current_mig", "").strip()
    pids = (digits(pid.text) for pid in gpu.iterfind("processes/process_info/pid"))
    memory = re.fullmatch(r"([0-9]{1,12}) MiB", _said(gpu, "fb_memory_usage/total") or "")
    vendor, device = pci_ids(_hexadecimal(_said(gpu, "pci/pci_device_id"))) or (NVIDIA, "")
    subsystem = pci_ids(_hexadecimal(_said(gpu, "pci/pci_sub_system_id")))
    architecture = _said(gpu, "product_architecture")
    return Gpu(
        pci_address=address,
        vendor=vendor,
        device=device,
        numa_node=None,
        uuid=_said(gpu, "uuid"),
        name=_said(gpu, "product_name"),
        memory_bytes=int(memory[1]) * 2**20 if memory else None,
        mig_capable={"Enabled": True, "Disabled": True, "N/A": False}.get(mig_mode),
        mig_mode=current and current.lower(),
        fabric=_fabric(gpu),
        index=index,
        minor=_number(gpu, "minor_number"),
        mig_pending=pending and pending.lower(),
        gpu_instances=() if current == "Disabled" else None,
        pids=tuple(sorted({pid for pid in pids if pid is not None})),
        virtualization=_VIRTUALIZATION.get(_said(gpu, "gpu_virtualization_mode/virtualization_mode") or ""),
        unanswered=_unanswered(gpu),
        subsystem=subsystem and ":".join(subsystem),
        architecture=architecture and architecture.split()[0].lower(),
        persistence=_switch(gpu, "persistence_mode"),
        ecc=_ecc(gpu),
        remapped_rows=_remapped_rows(gpu),
        recovery_action=_recovery_action(gpu),
        fabric_state=_fabric_state(gpu),
        driver_link=_link(gpu),
        addressing_mode=(_said(gpu, "addressing_mode") or "").lower() or None,
        gsp_firmware=_said(gpu, "gsp_firmware_version"),
        mig_devices=tuple(
            MigDevice(gpu_instance, compute_instance, _said(mig, "uuid"))  # some drivers leave it out
            for mig in gpu.iterfind("mig_devices/mig_device")
            if (gpu_instance := _number(mig, "gpu_instance_id")) is not None
            and (compute_instance := _number(mig, "compute_instance_id")) is not None
        ),
        vbios=_said(gpu, "vbios_version"),
    )


def _unanswered(gpu: Element) -> str | None:
    """Return why the GPU itself does not answer; a single value that failed does not count."""
    texts = {(element.text or "").strip() for element in gpu.iter()}
    lost = next((reason for reason in _LOST if reason in texts), None)
    identity = {gpu.findtext(path, "").strip() for path in ("uuid", "fb_memory_usage/total")}
    return lost or ("Unknown Error" if "Unknown Error" in identity else None)


def _fabric(gpu: Element) -> str | None:
    cluster, clique = (_said(gpu, f"fabric/{name}") for name in ("clusterUuid", "cliqueId"))
    completed = _said(gpu, "fabric/state") == "Completed"
    return f"{cluster}.{clique}" if completed and cluster and clique and cluster.strip("0-") else None


def _fabric_state(gpu: Element) -> FabricState | None:
    state = _FABRIC_STATES.get(_said(gpu, "fabric/state") or "")
    if state is None:
        return None
    health = {name: _said(gpu, f"fabric/health/{name}") for name in (*_FAULTS, "incorrect_configuration")}
    configuration = health["incorrect_configuration"] or "None"
    faults = [fault for name, (word, fault) in _FAULTS.items() if health[name] == word]
    faults += [f"incorrect configuration: {configuration.lower()}"] if configuration != "None" else []
    return FabricState(state, _said(gpu, "fabric/status"), tuple(faults) if any(health.values()) else None)


def _ecc(gpu: Element) -> Ecc | None:
    enabled, pending = (_switch(gpu, f"ecc_mode/{name}_ecc") for name in ("current", "pending"))
    if enabled is None and pending is None:
        return None
    return Ecc(enabled, pending, _uncorrected(gpu, "volatile"), _uncorrected(gpu, "aggregate"))


def _uncorrected(gpu: Element, since: str) -> int | None:
    """Return the sum over memories: newer documents split SRAM's, those before Ampere count double bits."""
    split = [f"{memory}_uncorrectable{kind}" for memory in ("sram", "dram") for kind in _KINDS_OF_ERRORS]
    counts = [_number(gpu, f"ecc_errors/{since}/{counter}") for counter in (*split, "double_bit/total")]
    known_counts = [count for count in counts if count is not None]
    return sum(known_counts) if known_counts else None


def _remapped_rows(gpu: Element) -> RemappedRows | None:
    rows = RemappedRows(
        correctable=_number(gpu, "remapped_rows/remapped_row_corr"),
        uncorrectable=_number(gpu, "remapped_rows/remapped_row_unc"),
        pending=_switch(gpu, "remapped_rows/remapped_row_pending"),
        failed=_switch(gpu, "remapped_rows/remapped_row_failure"),
    )
    return None if rows == RemappedRows(None, None, None, None) else rows


def _recovery_action(gpu: Element) -> str | None:
    action = (_said(gpu, "gpu_recovery_action") or "").lower().replace(" ", "-")
    if action in RECOVERY_ACTIONS:
        return action
    # Before R570 two other fields give it.
    if _switch(gpu, "gpu_reset_status/reset_required"):
        return "reset"
    advised = _switch(gpu, "gpu_reset_status/drain_and_reset_recommended")
    return None if advised is None else "drain-and-reset" if advised else "none"


def _link(gpu: Element) -> PciLink | None:
    info = "pci/pci_gpu_link_info"
    widths = (_said(gpu, f"{info}/link_widths/{name}_link_width") for name in ("current", "max"))
    width, max_width = (digits((text or "").rstrip("x")) for text in widths)
    generation, most = (_number(gpu, f"{info}/pcie_gen/{name}_link_gen") for name in ("current", "max"))
    return link_of_generations(generation, width, most, max_width)


def _said(element: Element, path: str) -> str | None:
    text = element.findtext(path, "").strip()
    return text if text and text not in (*_NO_ANSWER, _DEPRECATED) else None


def _switch(gpu: Element, path: str) -> bool | None:
    return _SWITCHES.get(_said(gpu, path) or "")


def _number(gpu: Element, path: str) -> int | None:
    return digits(_said(gpu, path))


def _hexadecimal(text: str | None) -> int | None:
    return int(text, 16) if _HEXADECIMAL.fullmatch(text or "") and text else None
