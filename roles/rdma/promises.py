"""RDMA settings of the host; with --active, ports carry traffic.

The least bandwidths of drained nodes are others' figures, measured on their machines, by a port's rate or the
GPUs' model: hardware without a row is not judged.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, NamedTuple

import pytest

from numaforge.lib import shell
from numaforge.machine import measure_outputs as outputs
from numaforge.roles.modules.part import switch
from numaforge.roles.promise import Promise, Table, asks_where, require, require_equal, values_of

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.verification.live import VerifiedNode
    from numaforge.verification.plugin import Active

NETNS = "/sys/module/ib_core/parameters/netns_mode"


class LeastBandwidth(NamedTuple):
    """The least bandwidth of a kind of hardware, and the source of the figure."""

    of: str  # the rate of a port in Gb/s, or vendor and device of GPUs
    least: float
    source: str


_AZURE = "Azure/azurehpc-health-checks"
WRITE_BANDWIDTH = (  # Gb/s of ib_write_bw
    LeastBandwidth("400", 380.0, f"{_AZURE}: nd96isr_h100_v5"),
    LeastBandwidth("200", 180.0, f"{_AZURE}: nd96amsr_a100_v4"),
)
ALL_REDUCE = (  # GB/s, the bus bandwidth of all_reduce_perf over the 8 GPUs of one node
    LeastBandwidth("10de:2330", 460.0, f"{_AZURE}: nd96isr_h100_v5"),
    LeastBandwidth("10de:20b2", 228.0, f"{_AZURE}: nd96amsr_a100_v4"),
    LeastBandwidth("10de:20b0", 228.0, f"{_AZURE}: nd96asr_v4"),
)
ALL_REDUCE_GPUS = 8


def rdma_netns(plan: NodePlan) -> Table:
    """The RDMA subsystem's mode, where reboots are allowed; elsewhere it may still wait for one."""
    mode = plan.rdma.host.netns
    return {"netns": mode} if mode and plan.kernel.reboot == "allowed" else {}


def rdma_character_devices(plan: NodePlan) -> Table:
    """The character devices of each RDMA device that pods may get."""
    devices = plan.rdma.host.character_devices
    return {f"{name}-{kind}": (name, kind) for name, kinds in devices.items() for kind in kinds}


def rail_ports(plan: NodePlan) -> Table:
    """The state of each RDMA port that libraries use."""
    ports = plan.rdma.libraries.ports
    state = "/sys/class/infiniband/{}/ports/{}/state"  # "4: ACTIVE"
    return {port: (state.format(*port.split(":")), "ACTIVE") for port in ports}


def rail_gpus(plan: NodePlan) -> Table:
    """All GPUs with rails, together, where there is a threshold for their number."""
    gpus = tuple(rail.pci_address for rail in plan.rdma.libraries.gpus)
    return {"all-reduce": gpus} if len(gpus) == ALL_REDUCE_GPUS else {}


_SCRIPTS = shell.library("verification/active")
_FIRST_TCP_PORT, _TCP_PORTS = 18515, 512  # starting at ibv_rc_pingpong's default


def _script(function: str, port: str) -> str:
    """Return the script for a port; concurrent tests take different TCP ports."""
    tcp = _FIRST_TCP_PORT + zlib.crc32(port.encode()) % _TCP_PORTS
    return _SCRIPTS + shell.call(function, [*port.split(":"), str(tcp)])


def write_threshold(output: str) -> LeastBandwidth | None:
    """Return the threshold for the rate in the first line of the output of active.sh's `write_bandwidth`."""
    rate = re.match(r"(\d+) Gb/sec", output)
    return next((row for row in WRITE_BANDWIDTH if rate and row.of == rate[1]), None)


def all_reduce_threshold(output: str) -> LeastBandwidth | None:
    """Return the threshold for the GPUs in the first lines of the output of active.sh's `all_reduce`."""
    model = ":".join(word.removeprefix("0x") for word in output.split()[:2])
    return next((row for row in ALL_REDUCE if row.of == model), None)


def bandwidth(output: str, reader: outputs.Reader) -> float | None:
    """Return the bandwidth in a program's output, in its reader's unit; None without one."""
    try:
        return reader(f"{output}\n")[""]
    except outputs.UnreadableOutputError:
        return None


def _reaches(measured: float | None, threshold: LeastBandwidth | None, unit: str) -> None:
    if measured is None:
        pytest.fail("the program's answer holds no bandwidth", pytrace=False)
    if threshold is None:
        pytest.skip(f"{measured:g} {unit}; there is no threshold for this hardware")
    require(
        measured >= threshold.least, f"{measured:g} {unit}, below {threshold.least:g} ({threshold.source})"
    )


def _rdma_netns(node: VerifiedNode, name: str, expected: str) -> None:
    actual = node.value(NETNS)
    require_equal({"1": "shared", "0": "exclusive"}.get(switch(actual or ""), actual), expected, NETNS)


def _rdma_character_device(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    device, kind = expected
    require(
        name in node.live.of("rdma"),
        f"{device} has no {kind} below /dev/infiniband: which module is not loaded?",
    )


def _port_is_active(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    path, state = expected
    actual = node.value(path)
    require_equal(actual and actual.rpartition(" ")[2], state, path)


def _port_reaches_itself(node: VerifiedNode, name: str, expected: tuple[str, str], active: Active) -> None:
    active.need("loopback", node)
    output = node.prove(_script("loopback", name))
    require("iters in" in output, f"no answer of ibv_rc_pingpong: {output.strip()[-200:] or 'nothing'}")


def _port_bandwidth(node: VerifiedNode, name: str, expected: tuple[str, str], active: Active) -> None:
    active.need("bandwidth", node)
    output = node.prove(_script("write_bandwidth", name))
    _reaches(bandwidth(output, outputs.perftest_write), write_threshold(output), "Gb/s")


def _gpus_all_reduce(node: VerifiedNode, name: str, expected: tuple[str, ...], active: Active) -> None:
    active.need("bandwidth", node)
    output = node.prove(_SCRIPTS + shell.call("all_reduce", expected))
    _reaches(bandwidth(output, outputs.nccl_all_reduce), all_reduce_threshold(output), "GB/s")


PROMISES = (
    Promise("rdma_netns", rdma_netns, _rdma_netns, values=lambda _plan: (NETNS,)),
    Promise(
        "rdma_character_device",
        rdma_character_devices,
        _rdma_character_device,
        asks=asks_where(rdma_character_devices, "tell_rdma_devices"),
    ),
    Promise("port_is_active", rail_ports, _port_is_active, values=values_of(rail_ports)),
    Promise("port_reaches_itself", rail_ports, _port_reaches_itself),
    Promise("port_bandwidth", rail_ports, _port_bandwidth),
    Promise("gpus_all_reduce", rail_gpus, _gpus_all_reduce),
)
