"""What can be measured: its name, its unit, and whether more or less is better."""

from typing import NamedTuple


class MeasuredKind(NamedTuple):
    """One kind of figure. `most` exceeds any machine: a higher figure is rejected.

    A figure that is not `steady` is the worst moment of a run, and varies on one machine: only ten times the
    siblings' figure counts against a machine.
    """

    name: str
    title: str
    unit: str
    most: float
    more_is_better: bool = True
    steady: bool = True


KINDS = {
    kind.name: kind
    for kind in (
        MeasuredKind("memory-bandwidth", "memory read, in order", "MB/s", 1e7),
        MeasuredKind("memory-random", "memory read, at random", "MB/s", 1e7),
        MeasuredKind("memory-latency", "memory latency", "ns", 1e6, more_is_better=False),
        MeasuredKind(
            "timer-latency", "timer latency, largest", "us", 1e8, more_is_better=False, steady=False
        ),
        MeasuredKind(
            "timer-latency-loaded",
            "timer latency, largest, load on reserved CPUs",
            "us",
            1e8,
            more_is_better=False,
            steady=False,
        ),
        MeasuredKind("os-noise", "time taken by the system", "%", 100.0, more_is_better=False, steady=False),
        MeasuredKind(
            "os-noise-loaded",
            "time taken by the system, load on reserved CPUs",
            "%",
            100.0,
            more_is_better=False,
            steady=False,
        ),
        MeasuredKind("to-gpu", "host to GPU", "GB/s", 1e4),
        MeasuredKind("from-gpu", "GPU to host", "GB/s", 1e4),
        MeasuredKind("between-gpus", "GPU to GPU", "GB/s", 1e5),
        MeasuredKind("rdma-write", "RDMA write", "Gb/s", 1e4),
        MeasuredKind("all-reduce", "all-reduce, bus bandwidth", "GB/s", 1e5),
    )
}
