"""Sysctls by purpose, as data: what peers set on GPU nodes, with the reason and the source of each value.

To add a sysctl, add a row here: it is planned, written for each boot, set, verified, watched and audited like
the others. A profile sets any other one by its name (`tuning.sysctls`); one with a key of its own in profiles
is a row of machine/knobs.py, and one that must never be set is a row of dangers.py.

A limit (sysctls.py) is only raised, and so is each number of a row with several. Left out on
purpose: the scheduler's latencies, gone since Linux 6.6 (EEVDF); default socket buffers of 128 MiB, which
every socket of every pod would take; rp_filter, which belongs to the network plugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from numaforge.lib.given import digits
from numaforge.lib.reasons import Notice

if TYPE_CHECKING:
    from numaforge.machine.topology.model import NodeTopology

CONGESTION_CONTROLS = "net.ipv4.tcp_available_congestion_control"
QDISC = "net.core.default_qdisc"

_NVIDIA = "NVIDIA nvidia-tuned"
_GB200 = f"{_NVIDIA}, gb200-performance"
_MULTI_NODE = f"{_NVIDIA}, h100-multiNodeTraining"
_BASE = f"{_NVIDIA}, nvidia-base"
_KERNEL_KBYTES = 1024


class Row(NamedTuple):
    """One sysctl of a set, for machines that have `module` and at least `rails` rails.

    `share_of_memory` caps a value in kB, so it is less on a small machine: 100 is a hundredth.
    """

    name: str
    value: str
    reason: str
    source: str
    module: str | None = None
    rails: int = 0
    share_of_memory: int | None = None


_CONTAINERS = (
    Row("fs.inotify.max_user_instances", "65535", "each log reader and file watcher takes one", _GB200),
    Row("fs.inotify.max_user_watches", "524288", "each watched file takes one", _GB200),
    Row("vm.max_map_count", "1048576", "frameworks and loaders map many files", "systemd 255"),
    Row(
        "vm.min_free_kbytes",
        "65536",
        "buffers of network and storage are allocated where nothing may wait",
        f"{_GB200}; at most a hundredth of memory is ours",
        share_of_memory=100,
    ),
    Row(
        "vm.overcommit_memory",
        "1",
        "the kubelet demands it (protectKernelDefaults)",
        f"the kubelet; {_GB200}",
    ),
)

SETS: Mapping[str, tuple[Row, ...]] = {
    "training": (
        *_CONTAINERS,
        Row("kernel.threads-max", "16512444", "loaders start processes and threads by thousands", _GB200),
        Row("vm.swappiness", "1", "memory of jobs stays in memory", f"{_NVIDIA}, h100-inference"),
    ),
    "inference": (
        *_CONTAINERS,
        Row("vm.swappiness", "1", "memory of servers stays in memory", f"{_NVIDIA}, h100-inference"),
        Row(
            "vm.stat_interval",
            "10",
            "fewer wake-ups of busy CPUs",
            "Documentation/admin-guide/sysctl/vm.rst; the number is our choice",
        ),
    ),
    "fabric": (
        Row(
            "net.core.rmem_max",
            "536870912",
            "a socket may hold what a fast network has on its way",
            _MULTI_NODE,
        ),
        Row(
            "net.core.wmem_max",
            "536870912",
            "a socket may hold what a fast network has on its way",
            _MULTI_NODE,
        ),
        Row(
            "net.ipv4.tcp_rmem",
            "4096 87380 268435456",
            "the window grows to what the network holds; none of the numbers falls below the host's",
            _MULTI_NODE,
        ),
        Row(
            "net.ipv4.tcp_wmem",
            "4096 65536 268435456",
            "the window grows to what the network holds; none of the numbers falls below the host's",
            _MULTI_NODE,
        ),
        Row("net.core.netdev_max_backlog", "10000", "bursts of a fast NIC wait for a CPU", _MULTI_NODE),
        Row("net.ipv4.tcp_max_syn_backlog", "8192", "a job's ranks connect at once", _MULTI_NODE),
        Row(
            "net.ipv4.tcp_congestion_control",
            "bbr",
            "a lost packet does not halve the rate",
            _MULTI_NODE,
            module="tcp_bbr",
        ),
        Row(
            QDISC,
            "fq",
            "it paces for bbr, on interfaces that come up from then on",
            _MULTI_NODE,
            module="sch_fq",
        ),
        Row(
            "net.ipv4.conf.all.arp_ignore",
            "1",
            "only the interface that has an address answers for it",
            _BASE,
            rails=2,
        ),
        Row(
            "net.ipv4.conf.all.arp_announce",
            "2",
            "only the interface that has an address announces it",
            _BASE,
            rails=2,
        ),
    ),
}


def names(sets: Iterable[str]) -> Iterator[str]:
    """Yield every sysctl whose value on the host may affect a plan with these sets."""
    if chosen := tuple(sets):
        yield CONGESTION_CONTROLS
        yield from (row.name for set_name in chosen for row in SETS[set_name])


def rows_for(
    topology: NodeTopology, sysctls: Mapping[str, str], sets: Iterable[str], notices: list[Notice]
) -> dict[str, tuple[str, Row]]:
    """Return the sets' rows that apply to this machine, by sysctl, each with the name of its set.

    `sysctls` are the values that the kernel has now.
    """
    chosen: dict[str, tuple[str, Row]] = {}
    for name in sets:
        for row in SETS[name]:
            if not _has_rails(topology, row.rails):
                continue
            if row.module and not _has_module(topology, sysctls, row):
                text = f"this kernel is not known to have {row.module}: {row.name} left alone"
                notices.append(Notice("no-such-module", text))
                continue
            chosen.setdefault(row.name, (name, row))
    return chosen


def value_for(topology: NodeTopology, current: str, row: Row) -> str:
    """Return a row's value on this machine; one capped by memory is rounded down to a power of two.

    `current` is the kernel's value now. Of several numbers, such as the minimum, default and maximum
    buffer of a TCP socket, each keeps the host's where that is larger: a newer kernel's default of 131072
    bytes is not lowered to an older one's 87380.
    """
    row_words, current_words = row.value.split(), current.split()
    if len(row_words) > 1:
        comparable = len(current_words) == len(row_words) and None not in map(
            digits, (*row_words, *current_words)
        )
        return (
            " ".join(str(max(map(int, pair))) for pair in zip(row_words, current_words, strict=True))
            if comparable
            else row.value
        )
    if row.share_of_memory is None or topology.memory_bytes is None:
        return row.value
    most = topology.memory_bytes // _KERNEL_KBYTES // row.share_of_memory
    return row.value if most >= int(row.value) else str(1 << max(0, most.bit_length() - 1))


def _has_rails(topology: NodeTopology, rails: int) -> bool:
    ethernet = [
        device
        for device in topology.rdma_devices
        if not device.management and any(port.link_layer == "Ethernet" for port in device.ports)
    ]
    return len(ethernet) >= rails


def _has_module(topology: NodeTopology, sysctls: Mapping[str, str], row: Row) -> bool:
    available = sysctls.get(CONGESTION_CONTROLS if row.value == "bbr" else row.name, "").split()
    return row.value in available or row.module in topology.loadable_modules
