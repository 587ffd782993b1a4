"""The list in which the device plugin announces a resource's devices, and the longest that a kubelet accepts.

Source: ListAndWatchResponse in kubelet/pkg/apis/deviceplugin/v1beta1, and `dial` of the kubelet's
devicemanager/plugin/v1beta1/client.go, which keeps gRPC's default limit (kubernetes#109304). The kubelet
reads nothing of a longer list.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numaforge.kubelet.admission.device_manager import Device

MOST_BYTES = 4 * 2**20
_UUID = 40  # "GPU-" or "MIG-", and 36 characters
_AROUND = 2 + 2 + _UUID + 9  # the device's own field, its ID's, and the field that says "Healthy"
_BEFORE_A_NUMBER = 2  # "::"


def announced_bytes(devices: Sequence[Device], replicas: int | None) -> int:
    """Return the length in bytes of the list with `replicas` of each device; None: not shared."""
    unit_bytes = sum(_AROUND + _topology(device) for device in devices)
    if replicas is None:
        return unit_bytes
    # of all replicas' numbers, from 0 on
    digits = replicas + sum(replicas - int(f"1{'0' * count}") for count in range(1, len(str(replicas))))
    return replicas * (unit_bytes + _BEFORE_A_NUMBER * len(devices)) + len(devices) * digits


def most_replicas(devices: Sequence[Device]) -> int:
    """Return the most replicas of each device that a kubelet accepts."""
    too_many: int = bisect_right(range(MOST_BYTES), MOST_BYTES, key=partial(announced_bytes, devices))
    return too_many - 1


def _topology(device: Device) -> int:
    if device.numa_nodes is None:
        return 0
    return 2 + sum(2 + (1 + (node.bit_length() + 6) // 7 if node else 0) for node in device.numa_nodes)
