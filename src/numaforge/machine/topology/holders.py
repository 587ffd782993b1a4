"""The holders of GPUs: processes that NVML lists, and containers to which the kubelet gave devices."""

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from numaforge.lib.errors import KubeletConfigError
from numaforge.lib.given import NotJsonError, digits, mapping, parse_json
from numaforge.machine.snapshot import catalogue
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.model import DeviceHolder, Gpu, GpuProcess
from numaforge.machine.topology.units import Units, read_units

DEVICE_STATE = "kubelet_internal_checkpoint"

# The kubelet's control groups: "pod1234..." with cgroupfs, "kubepods-pod1234_....slice" with systemd, where
# underscores stand for hyphens. The UID of a static pod is a hash without any.
_POD = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})\b")


def read_gpu_processes(snapshot: Snapshot, gpus: Iterable[Gpu]) -> dict[int, GpuProcess]:
    """Return the processes on the GPUs, by process id; those that have ended are left out."""
    names, units = _pod_names(snapshot), read_units(snapshot)
    pids = sorted({pid for gpu in gpus for pid in gpu.pids})
    processes = {pid: _process(snapshot.files, pid, names, units) for pid in pids}
    return {pid: process for pid, process in processes.items() if process is not None}


def read_device_holders(snapshot: Snapshot, root_dir: str) -> tuple[DeviceHolder, ...] | None:
    """Return every device of a container, None where unknown; the kubelet's checkpoint lags behind itself."""
    answered = _told(snapshot, root_dir)
    return _kept(snapshot, root_dir) if answered is None else answered


def read_holders_doubt(snapshot: Snapshot, root_dir: str) -> str | None:
    """Return why the kubelet itself has not reported who holds devices; None where it has."""
    if _told(snapshot, root_dir) is not None:
        return None
    return snapshot.commands.get("pod resources") or "it was not asked"


def _told(snapshot: Snapshot, root_dir: str) -> tuple[DeviceHolder, ...] | None:
    try:
        listed = parse_json(snapshot.files.get(posixpath.join(root_dir, catalogue.POD_RESOURCES), ""))
    except NotJsonError:
        return None
    rows: list[Any] = listed if isinstance(listed, list) else [None]
    if not all(isinstance(row, list) and [*map(type, row)] == [str] * 4 for row in rows):
        return None
    return tuple(
        DeviceHolder(device, resource, pod, container, present=True)
        for pod, container, resource, device in rows
    )


def _kept(snapshot: Snapshot, root_dir: str) -> tuple[DeviceHolder, ...] | None:
    text = snapshot.files.get(posixpath.join(root_dir, catalogue.DEVICE_CHECKPOINT))
    if text is None:
        return None
    try:
        state = read_device_state(text)
    except KubeletConfigError:
        return None  # the kubelet, too, discards such a file
    names = _pod_names(snapshot)
    return tuple(
        DeviceHolder(device, resource, names.get(uid, uid), container, present=uid in names)
        for uid, containers in sorted(state.items())
        for container, resources in sorted(containers.items())
        for resource, devices in sorted(resources.items())
        for device in sorted(devices)
    )


def read_device_state(text: str) -> dict[str, dict[str, dict[str, set[str]]]]:
    """Return device ids by pod UID, container and resource (pkg/kubelet/cm/devicemanager/checkpoint)."""
    by_pod: dict[str, dict[str, dict[str, set[str]]]] = {}
    try:
        document: Mapping[str, Any] = json.loads(text)
        for entry in (document.get("Data") or {}).get("PodDeviceEntries") or ():
            container = by_pod.setdefault(entry["PodUID"], {}).setdefault(entry["ContainerName"], {})
            ids = {name for names in entry["DeviceIDs"].values() for name in names}
            container.setdefault(entry["ResourceName"], set()).update(ids)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise KubeletConfigError(f"not a device manager checkpoint: {error}", where=DEVICE_STATE) from error
    return by_pod


def read_plugin_resources(text: str) -> tuple[str, ...] | None:
    """Return the resources of device plugins that have devices now (RegisteredDevices); None: not known."""
    try:
        data = mapping(parse_json(text)).get("Data")
    except NotJsonError:
        return None
    if not isinstance(data, Mapping):
        return None
    return tuple(sorted(name for name, devices in mapping(data.get("RegisteredDevices")).items() if devices))


def pods_on(holders: Iterable[DeviceHolder], uuids: Iterable[str]) -> tuple[str, ...]:
    """Return the pods on the node that hold one of these GPUs or MIG devices, shared ones ("UUID::0") too."""
    asked_ids = frozenset(uuids)
    pods = {one.pod for one in holders if one.present and one.device.partition("::")[0] in asked_ids}
    return tuple(sorted(pods))


def read_daemons(snapshot: Snapshot) -> tuple[GpuProcess, ...] | None:
    """Return NVIDIA's running daemons; None in a snapshot that did not look for them."""
    pids = snapshot.commands.get("daemons")
    if pids is None:
        return None
    units = read_units(snapshot)
    daemons = (
        pid
        for pid in map(digits, pids.split())
        if pid is not None and units.may_be_daemon(pid, snapshot.files.get(f"/proc/{pid}/cgroup", ""))
    )
    return tuple(filter(None, (_process(snapshot.files, pid, {}, units) for pid in daemons)))


def uuids_of(gpu: Gpu) -> Iterator[str]:
    """Yield the UUIDs under which containers get a GPU: its own, and those of its MIG devices."""
    yield from (uuid for uuid in (gpu.uuid, *(mig.uuid for mig in gpu.mig_devices)) if uuid)


def _process(files: Mapping[str, str], pid: int, names: Mapping[str, str], units: Units) -> GpuProcess | None:
    name, group = (files.get(f"/proc/{pid}/{file}", "").rstrip("\n") for file in ("comm", "cgroup"))
    if not name and not group:
        return None
    pod = _POD.search(units.pod_path(group))
    if pod is not None:
        uid = pod[1].replace("_", "-")
        return GpuProcess(name or None, pod=names.get(uid, uid))
    return GpuProcess(name or None, unit=units.unit_of(group))


def _pod_names(snapshot: Snapshot) -> dict[str, str]:
    """Return "namespace/name" by UID; for a pod without a log yet, only its UID is known."""
    names: dict[str, str] = {}
    for folder in snapshot.commands.get("pods", "").split():
        namespace, _, rest = folder.partition("_")
        name, _, uid = rest.rpartition("_")
        if uid:
            names[uid] = f"{namespace}/{name}"
        else:
            names.setdefault(folder, folder)
    return names
