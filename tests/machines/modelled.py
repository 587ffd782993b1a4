"""Machines of which no capture may stand here: laid out as their makers document them.

`python -m tests.machines.modelled` writes their trees, reads these back as snapshots and records them; with
names it does so for these alone.
"""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from numaforge.machine.snapshot.capture import from_root
from numaforge.machine.topology.model import NodeTopology, NumaNode
from tests.fixtures.machines import (
    GIB,
    MIB,
    big_512,
    dgx_h100,
    epyc_gpu,
    epyc_l3_gpu,
    epyc_nps4,
    gb10,
    gb200_bluefield,
    gb200_cdmm,
    gb300_host,
    grace_blackwell_tray,
    grace_memory_only,
    hgx_a100,
    hgx_b200,
    kubeadm_kubelet,
    machine,
    mi210,
    mi300x_cpx_kfd,
    quad_gh200,
)
from tests.fixtures.trees import write_tree
from tests.machines.facts import topology_facts
from tests.machines.kubelet_view import SOURCE, ask_kubelet
from tests.machines.record import record

ORIGIN = "tests/machines/modelled.py"


_two_packages = partial(machine, packages=2, kubelet=kubeadm_kubelet())
_epyc = partial(_two_packages, cores_per_l3=8)


def epyc_l3_as_numa() -> NodeTopology:
    """2 EPYC 9654 with "L3 as NUMA domain": 24 NUMA nodes of 8 cores."""
    nodes = {"numa_nodes_per_package": 12, "cores_per_numa_node": 8}
    return _epyc(hostname="epyc-l3", numa_memory_bytes=32 * GIB, **nodes)


def epyc_nps2() -> NodeTopology:
    """2 EPYC 9654 in NPS2: 4 NUMA nodes of 48 cores, 6 L3 groups each."""
    nodes = {"numa_nodes_per_package": 2, "cores_per_numa_node": 48}
    return _epyc(hostname="epyc-nps2", numa_memory_bytes=192 * GIB, **nodes)


def epyc_nps1_cxl() -> NodeTopology:
    """2 EPYC 9654 in NPS1 with 256 GiB of CXL memory as NUMA node 2, without CPUs."""
    host = _epyc(hostname="epyc-cxl", cores_per_numa_node=96, numa_memory_bytes=384 * GIB)
    return _with_memory_only_nodes(host, 1, 256 * GIB, distance=50)


def epyc_smt_off_isolated() -> NodeTopology:
    """2 EPYC 7763 in NPS1 with SMT switched off and CPUs 8-63 isolated on the command line."""
    host = _epyc(
        hostname="epyc-isolated",
        cores_per_numa_node=64,
        threads=1,
        numa_memory_bytes=512 * GIB,
        isolated=frozenset(range(8, 64)),
    )
    cmdline = f"{host.kernel_cmdline} nosmt isolcpus=8-63"
    return replace(host, offline=frozenset(range(128, 256)), kernel_cmdline=cmdline)


def xeon_max_snc4() -> NodeTopology:
    """2 Xeon Max 9480 in SNC4, flat mode: 8 NUMA nodes of 14 cores, and 8 of 16 GiB of HBM without CPUs."""
    nodes = {"numa_nodes_per_package": 4, "cores_per_numa_node": 14, "l3_bytes": 112 * MIB + MIB // 2}
    host = _two_packages(hostname="xeon-max", numa_memory_bytes=64 * GIB, **nodes)
    return _with_memory_only_nodes(host, 8, 16 * GIB, distance=13)


def ampere_altra() -> NodeTopology:
    """2 Ampere Altra of 80 cores, whose system cache the kernel does not show."""
    cores = {"cores_per_numa_node": 80, "threads": 1, "numa_memory_bytes": 256 * GIB}
    host = _two_packages(hostname="altra", architecture="aarch64", **cores)
    cache = replace(host.l3_caches[0], size_bytes=MIB, level=2)
    return replace(host, l3_caches=tuple(replace(cache, cpus=core.cpus) for core in host.cores))


def _with_memory_only_nodes(host: NodeTopology, count: int, memory_bytes: int, distance: int) -> NodeTopology:
    first = len(host.numa_nodes)
    added = range(first, first + count)
    far = dict.fromkeys(added, distance)
    old = tuple(replace(node, distances={**node.distances, **far}) for node in host.numa_nodes)
    every, pools = dict.fromkeys(range(first + count), distance), host.numa_nodes[0].hugepages
    new = tuple(NumaNode(n, frozenset(), memory_bytes, {**every, n: 10}, pools) for n in added)
    total = (host.memory_bytes or 0) + count * memory_bytes
    return replace(host, memory_bytes=total, numa_nodes=(*old, *new))


MODELLED: dict[str, tuple[Callable[[], NodeTopology], str]] = {
    "ampere-altra-2p": (ampere_altra, "2 ARM64 Ampere Altra of 80 cores without an L3 that the kernel shows"),
    "epyc-512-cpus": (big_512, "2 packages of 128 cores on 16 NUMA nodes: 512 CPUs"),
    "epyc-7763-smt-off-isolated": (epyc_smt_off_isolated, "2 EPYC 7763 with SMT off and CPUs 8-63 isolated"),
    "epyc-9654-8-h100-nps4": (
        epyc_gpu,
        "2 EPYC 9654 in NPS4, an H100 and 8 huge pages of 1 GiB on each NUMA node",
    ),
    "epyc-9654-l3-as-numa": (epyc_l3_as_numa, "2 EPYC 9654 with each L3 as a NUMA node: 24 of 8 cores"),
    "epyc-9654-l3-as-numa-8-h100": (
        epyc_l3_gpu,
        "2 EPYC 9654 with each L3 as a NUMA node, 24 of 8 cores, an H100 on the first of each quadrant",
    ),
    "epyc-9654-nps1-cxl": (epyc_nps1_cxl, "2 EPYC 9654 in NPS1, CXL memory as a NUMA node without CPUs"),
    "epyc-9654-nps2": (epyc_nps2, "2 EPYC 9654 in NPS2"),
    "epyc-9654-nps4": (epyc_nps4, "2 EPYC 9654 in NPS4"),
    "amd-8-mi210": (mi210, "2 EPYC of 32 cores, 8 Instinct MI210 in two groups of 4 that XGMI joins"),
    "amd-8-mi300x-cpx": (
        mi300x_cpx_kfd,
        "2 EPYC of 48 cores, 8 Instinct MI300X in CPX and NPS4: 64 GPU nodes of the kernel's KFD",
    ),
    "nvidia-dgx-h100": (
        dgx_h100,
        "NVIDIA DGX H100: 2 packages of 56 cores, 8 H100, 8 InfiniBand NICs, one per rail",
    ),
    "nvidia-dgx-spark": (gb10, "NVIDIA DGX Spark: 20 cores of two kinds, a GB10 that shares their memory"),
    "nvidia-gb200-bluefield": (
        gb200_bluefield,
        "NVIDIA GB200 tray of an NVL72: 4 ConnectX-7 on other host bridges than the GPUs, 2 BlueField-3",
    ),
    "nvidia-gb200-cdmm": (
        gb200_cdmm,
        "NVIDIA GB200 tray whose driver manages the GPUs' memory (CDMM): 32 of 34 NUMA nodes are empty",
    ),
    "nvidia-gb200-tray": (
        grace_blackwell_tray,
        "NVIDIA GB200 tray: 2 Grace of 72 cores, 4 GPUs, 34 NUMA nodes",
    ),
    "nvidia-gb300-host": (
        gb300_host,
        "NVIDIA GB300 host: 2 Grace of 72 cores, 4 GPUs, sizes and PCI addresses of a real one",
    ),
    "nvidia-gh200": (grace_memory_only, "NVIDIA GH200: a Grace of 72 cores, the GPU's memory as a NUMA node"),
    "nvidia-quad-gh200": (quad_gh200, "4 NVIDIA GH200 on one board: 288 cores, 4 GPUs, 36 NUMA nodes"),
    "nvidia-hgx-a100": (
        hgx_a100,
        "HGX A100 on 8 NUMA nodes: 2 A100 and 2 InfiniBand NICs below each outer switch, 2 NICs for storage",
    ),
    "nvidia-hgx-b200": (
        hgx_b200,
        "HGX B200 on 6 NUMA nodes: 8 B200 with a NIC each, 4 that manage NVSwitches (places made up)",
    ),
    "xeon-max-9480-snc4-flat": (xeon_max_snc4, "2 Xeon Max 9480 in SNC4, HBM as 8 NUMA nodes without CPUs"),
}


def main(names: list[str]) -> int:
    """Write modelled machines anew, all where no name is given."""
    for name, (build, text) in MODELLED.items():
        if names and name not in names:
            continue
        laid_out = build()
        with tempfile.TemporaryDirectory() as folder:
            snapshot = from_root(write_tree(Path(folder), laid_out))
        told = {
            "topology": {"source": f"{ORIGIN}: what was laid out", **topology_facts(laid_out)},
            "kubelet": {"source": SOURCE, **ask_kubelet(snapshot)},
        }
        header = {"machine": text, "kind": "modelled", "origin": ORIGIN, "licence": "Apache-2.0"}
        record(name, snapshot, header, told)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
