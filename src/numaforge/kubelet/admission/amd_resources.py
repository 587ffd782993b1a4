"""What AMD's device plugin advertises: GPUs and their partitions.

ROCm/k8s-device-plugin at ed76468: cmd/k8s-device-plugin/main.go (getResourceList),
internal/pkg/amdgpu/amdgpu.go (GetAMDGPUs), internal/pkg/plugin/plugin.go (ListAndWatch). The first partition
of a GPU is its PCI function; the others are platform devices, and the plugin finds only those whose name
begins with "amdgpu_xcp_" (its issue 157).
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from numaforge.kubelet.admission.device_manager import Device
from numaforge.machine.topology.gpu_models import partitions_of
from numaforge.machine.topology.model import Gpu
from numaforge.machine.topology.vendors import AMD

GPU = "amd.com/gpu"
AMD_RESOURCE = re.compile(r"amd\.com/(gpu|[sdtqc]px_nps[0-9])")
"""Matches the plugin's resources, and none of AMD's other plugins, such as amd.com/nic."""
LISTED = "amdgpu_xcp_"
"""Prefix of the device names of partitions that the plugin finds."""
AMD_PREFIXES = ("amd.com/gpu", *(f"amd.com/{mode}_nps" for mode in ("spx", "dpx", "tpx", "qpx", "cpx")))
"""Prefixes of the names of these resources."""
NAMES_SINCE = (1, 31, 0, 7)
"""The first release of the plugin with `-resource_naming_strategy` and the NUMA nodes of partitions."""
NO_NODE = -1
"""The NUMA node that the plugin publishes where the kernel knows none; no machine has it."""


class AmdPlugin(NamedTuple):
    """How AMD's device plugin runs: its `-resource_naming_strategy`, and its release."""

    naming: str = "single"  # "single", "mixed"
    release: tuple[int, ...] = (1, 31, 0, 10)

    @property
    def names_partitions(self) -> bool:
        """Whether this release knows partitions by their modes and NUMA nodes."""
        return self.release >= NAMES_SINCE


AMD_PLUGIN = AmdPlugin()


def kind_of(gpu: Gpu) -> str | None:
    """Return the modes of a GPU in the plugin's notation, "cpx_nps4"; None where it cannot be partitioned."""
    cut = gpu.partition
    return f"{cut.compute}_{cut.memory}".lower() if cut and cut.compute and cut.memory else None


def kinds_of(gpus: Sequence[Gpu]) -> Counter[str]:
    """Return the number of AMD's GPUs by modes."""
    return Counter(kind for gpu in gpus if gpu.vendor == AMD and (kind := kind_of(gpu)))


def amd_devices(gpus: Sequence[Gpu], plugin: AmdPlugin) -> Iterator[tuple[str, Gpu, Device]]:
    """Yield each device of AMD's GPUs with its resource; none where the plugin exits.

    With the strategy `single` everything is amd.com/gpu, and the plugin exits on GPUs of different modes.
    With `mixed` each pair of modes is a resource; where there are several, a GPU without modes is left out.
    """
    kinds = kinds_of(gpus) if plugin.names_partitions else Counter[str]()
    if len(kinds) > 1 and plugin.naming == "single":
        return
    one = f"amd.com/{next(iter(kinds))}" if kinds and plugin.naming == "mixed" else GPU
    for gpu in gpus:
        kind = kind_of(gpu)
        if len(kinds) > 1 and kind is None:
            continue
        resource = f"amd.com/{kind}" if len(kinds) > 1 else one
        for device in _parts(gpu, plugin):
            yield resource, gpu, device


def _parts(gpu: Gpu, plugin: AmdPlugin) -> Iterator[Device]:
    """Yield a GPU, or each of its partitions that the plugin finds.

    A partition of a GPU without a NUMA node is left out, but for the first one.
    """
    count = (gpu.partition and partitions_of(gpu)) or 1
    node = frozenset({NO_NODE if gpu.numa_node is None else gpu.numa_node})
    part_of = gpu.pci_address if count > 1 else None
    yield Device(gpu.pci_address, node, part_of=part_of)
    if gpu.partition and gpu.partition.named not in (None, LISTED):
        return
    if gpu.numa_node is None and plugin.names_partitions:
        return
    for number in range(1, count):
        yield Device(
            f"{gpu.pci_address}/{number}", node if plugin.names_partitions else None, part_of=part_of
        )
