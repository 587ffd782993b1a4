"""The kubelet's checkpoint of devices: which containers have which, and which resources have any."""

import json
from collections.abc import Mapping
from typing import Any

from numaforge.lib.errors import KubeletConfigError
from numaforge.lib.given import NotJsonError, mapping, parse_json

DEVICE_STATE = "kubelet_internal_checkpoint"


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
    """Return the resources that device plugins offer with devices (RegisteredDevices); None: not known.

    A plugin that has gone has no devices left.
    """
    try:
        data = mapping(parse_json(text)).get("Data")
    except NotJsonError:
        return None
    if not isinstance(data, Mapping):
        return None
    return tuple(sorted(name for name, devices in mapping(data.get("RegisteredDevices")).items() if devices))
