"""The boards of NVIDIA GPUs, by PCI device id.

The name is not enough: "H200" is a part of "GH200", which has no NVSwitch. Ids are those of pci.ids; rules
for boards skip an unlisted GPU.
"""

from numaforge.machine.topology.gpu_models import GRACE
from numaforge.machine.topology.model import Gpu

HGX_BLACKWELL = frozenset({"2901", "2920", "3182"})  # B200, B100, B300
"""GPUs that come only on baseboards with NVSwitches of the fourth generation."""

NVLINKS = {
    "20b0": 12,  # A100 SXM4 40 GB
    "20b2": 12,  # A100 SXM4 80 GB
    "20bd": 8,  # A800 SXM4 40 GB
    "20f3": 8,  # A800 SXM4 80 GB
    "2324": 8,  # H800 SXM5
    "2329": 18,  # H20
    "2330": 18,  # H100 SXM5
    "2335": 18,  # H200 SXM5
    "2901": 18,
    "2941": 18,
    "3182": 18,
    "31c2": 18,
}
"""The active NVLinks of a GPU on a board that joins all of them; cards with bridges may have fewer."""

# Chips have blocks of device ids.
_HBM = ("20", "23", "29", "30", "31")  # GA100, GH100, GB100, GR100, GB110
_FIRST_TURING, _FIRST_BLACKWELL = 0x1E00, 0x2900


def has_hbm(gpu: Gpu) -> bool:
    """Return whether the memory is HBM, which has ECC at no cost; on GDDR, leaving it off is a choice."""
    return gpu.device.startswith(_HBM)


def has_open_module(gpu: Gpu) -> bool:
    """Return whether the open kernel module knows the GPU: Turing and later."""
    return _chip(gpu) >= _FIRST_TURING


def needs_open_module(gpu: Gpu) -> bool:
    """Return whether only the open kernel module drives the GPU: Grace boards, Blackwell and later."""
    return gpu.device in GRACE or _chip(gpu) >= _FIRST_BLACKWELL


def _chip(gpu: Gpu) -> int:
    """Return the device id as a number; 0 where unknown, which no rule judges."""
    return int(gpu.device or "0", 16)
