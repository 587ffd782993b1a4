"""The least bandwidth of drained nodes, by a port's rate or the GPUs' model, each with its source.

These are others' figures, measured on their machines: hardware without a row is not judged.
"""

import re
from typing import NamedTuple

from numaforge.machine import measure_outputs as outputs


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


def write_threshold(output: str) -> LeastBandwidth | None:
    """Return the threshold for the rate in the first line of the output of active.sh's `write_bandwidth`."""
    rate = re.match(r"(\d+) Gb/sec", output)
    return next((row for row in WRITE_BANDWIDTH if rate and row.of == rate[1]), None)


def write_bandwidth(output: str) -> float | None:
    """Return Gb/s from the table of ib_write_bw; None without one."""
    return _read(outputs.perftest_write, output)


def all_reduce_threshold(output: str) -> LeastBandwidth | None:
    """Return the threshold for the GPUs in the first lines of the output of active.sh's `all_reduce`."""
    model = ":".join(word.removeprefix("0x") for word in output.split()[:2])
    return next((row for row in ALL_REDUCE if row.of == model), None)


def all_reduce_bandwidth(output: str) -> float | None:
    """Return the average bus bandwidth in GB/s at the end of all_reduce_perf's output; None without one."""
    return _read(outputs.nccl_all_reduce, output)


def _read(reader: outputs.Reader, output: str) -> float | None:
    try:
        return reader(f"{output}\n")[""]
    except outputs.UnreadableOutputError:
        return None
