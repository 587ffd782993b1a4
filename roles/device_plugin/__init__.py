"""How NVIDIA's device plugin shares GPUs, and the labels of the Node."""

from numaforge.roles.role import role

__all__ = ["device_plugin"]

device_plugin = role(__name__, "Device plugin")
