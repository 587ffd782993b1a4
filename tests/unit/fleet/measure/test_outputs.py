"""What programs print: recorded and documented outputs are read, everything else is refused."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from numaforge.machine import measure_outputs as outputs
from numaforge.machine.measure_outputs import Reader, UnreadableOutputError

FOLDER = Path(__file__).parents[3] / "fixtures" / "measure"
MIB = 1.048576


def text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


READ: Mapping[str, tuple[Reader, str, Mapping[str, float]]] = {
    "sysbench": (outputs.sysbench_memory, "sysbench-1.0.20-memory.txt", {"": 3187.07 * MIB}),
    "stress-ng": (outputs.stress_ng_memrate, "stress-ng-0.15.06-numa-node-0.txt", {"": 2940.36 * MIB}),
    "stress-ng, memory of another node": (
        outputs.stress_ng_memrate,
        "stress-ng-0.15.06-numa-node-0-to-1.txt",
        {"": 1146.01 * MIB},
    ),
    "cyclictest": (outputs.cyclictest, "cyclictest-2.40-two-numa-nodes.txt", {"": 34786.0}),
    "rtla timerlat": (outputs.rtla_timerlat, "documented/rtla-timerlat.txt", {"": 31.0}),
    "rtla timerlat with threads of users": (
        outputs.rtla_timerlat,
        "documented/rtla-timerlat-user.txt",
        {"": 98.0},
    ),
    "rtla osnoise": (outputs.rtla_osnoise, "documented/rtla-osnoise.txt", {"": 100 - 99.97938}),
    "mlc latency": (
        outputs.mlc_latency,
        "documented/mlc-latency.txt",
        {
            "NUMA node 0": 81.5,
            "NUMA node 0 to 1": 138.2,
            "NUMA node 1 to 0": 137.9,
            "NUMA node 1": 82.0,
        },
    ),
    "mlc bandwidth, with tabulators": (
        outputs.mlc_bandwidth,
        "documented/mlc-bandwidth.txt",
        {
            "NUMA node 0": 111388.0,
            "NUMA node 0 to 1": 51085.7,
            "NUMA node 1 to 0": 51081.0,
            "NUMA node 1": 111529.8,
        },
    ),
    "nvbandwidth to GPUs": (
        outputs.nvbandwidth_host,
        "documented/nvbandwidth-to-gpu.txt",
        {"0": 55.31, "1": 55.29},
    ),
    "nvbandwidth to a real GPU": (outputs.nvbandwidth_host, "nvbandwidth-0.8-to-one-gpu.txt", {"0": 54.73}),
    "nvbandwidth between GPUs, the least of each": (
        outputs.nvbandwidth_pairs,
        "documented/nvbandwidth-between.txt",
        {"0": 394.12, "1": 395.14, "2": 393.07},
    ),
    "ib_write_bw": (outputs.perftest_write, "documented/ib-write-bw.txt", {"": 392.41}),
    "all_reduce_perf": (outputs.nccl_all_reduce, "documented/all-reduce.txt", {"": 471.005}),
    "all_reduce_perf of one GPU, over nothing": (
        outputs.nccl_all_reduce,
        "nccl-tests-2.19.6-one-gpu.txt",
        {"": 0.0},
    ),
    "rocm-bandwidth-test, the faster of two processors": (
        outputs.rocm_bandwidth_host,
        "documented/rocm-bandwidth-test.txt",
        {"0000:05:00.0": 27.122, "0000:c8:00.0": 27.248},
    ),
    "rocm-bandwidth-test from GPUs": (
        outputs.rocm_bandwidth_from,
        "documented/rocm-bandwidth-test.txt",
        {"0000:05:00.0": 28.115, "0000:c8:00.0": 28.102},
    ),
}


@pytest.mark.parametrize(("read", "name", "values"), READ.values(), ids=READ.keys())
def test_figures_are_read(read: Reader, name: str, values: Mapping[str, float]):
    assert read(text(name)) == pytest.approx(dict(values))


def line(said: str) -> str:
    return f"{said}\n"


REFUSED = {
    "rtla on a kernel without its tracer": (
        outputs.rtla_timerlat,
        text("rtla-6.1-timerlat-no-tracer.txt"),
        "Could not apply config",
    ),
    "stress-ng that was stopped before it read": (
        outputs.stress_ng_memrate,
        text("stress-ng-0.15.06-too-short.txt"),
        "for read64",
    ),
    "perftest without a device": (
        outputs.perftest_write,
        text("perftest-4.5-no-device.txt"),
        "Unable to find",
    ),
    "nvbandwidth without a second GPU": (
        outputs.nvbandwidth_pairs,
        text("nvbandwidth-0.8-no-peer.txt"),
        "it says 'Waived:'",
    ),
    "all_reduce_perf of more GPUs than there are": (
        outputs.nccl_all_reduce,
        text("nccl-tests-2.19.6-too-few-gpus.txt"),
        "it says 'Invalid number of GPUs: 2 requested but only 1 were found.'",
    ),
    "nothing at all": (outputs.cyclictest, "", "it printed nothing"),
    "a number in another locale": (
        outputs.sysbench_memory,
        line("9708.00 MiB transferred (3.187,07 MiB/sec)"),
        "'3.187,07' is no rate",
    ),
    "another unit": (
        outputs.sysbench_memory,
        line("9708.00 GiB transferred (3.18 GiB/sec)"),
        "no line of sysbench",
    ),
    "a rate that is not a number": (
        outputs.sysbench_memory,
        line("1.00 MiB transferred (nan MiB/sec)"),
        "'nan' is no rate",
    ),
    "a rate without an end": (
        outputs.sysbench_memory,
        line("1.00 MiB transferred (inf MiB/sec)"),
        "'inf' is no rate",
    ),
    "a rate below nothing": (
        outputs.sysbench_memory,
        line("1.00 MiB transferred (-5.00 MiB/sec)"),
        "'-5.00' is no",
    ),
    "a rate with an exponent": (
        outputs.sysbench_memory,
        line("1.00 MiB transferred (1e9 MiB/sec)"),
        "'1e9' is no",
    ),
    "a rate of four hundred digits": (
        outputs.sysbench_memory,
        line(f"1.00 MiB transferred ({'9' * 400} MiB/sec)"),
        "is no rate",
    ),
    "two results": (
        outputs.sysbench_memory,
        line("1.00 MiB transferred (1.00 MiB/sec)\n1.00 MiB transferred (2.00 MiB/sec)"),
        "no line of sysbench",
    ),
    "a thread that never woke up": (
        outputs.cyclictest,
        line("T: 0 (  136) P:95 I:1000 C:      0 Min:1000000 Act:    0 Avg:    0 Max:       0"),
        "has woken up",
    ),
    "a CPU on which rtla counted nothing": (
        outputs.rtla_timerlat,
        text("documented/rtla-timerlat.txt").replace("#5001", "#0"),
        "has counted anything",
    ),
    "more than all of a CPU's time": (
        outputs.rtla_osnoise,
        text("documented/rtla-osnoise.txt").replace("99.97938", "199.97938"),
        "more than all of it",
    ),
    "a row of a matrix that is cut off": (
        outputs.mlc_latency,
        text("documented/mlc-latency.txt").replace("137.9    82.0", "137.9"),
        "a row has 1 values and not 2",
    ),
    "a number that is cut off": (
        outputs.mlc_latency,
        text("documented/mlc-latency.txt")[:-2],
        "its last line is cut off",
    ),
    "a matrix in another unit": (
        outputs.mlc_latency,
        text("documented/mlc-latency.txt").replace("in ns", "in clocks"),
        "no matrix of mlc",
    ),
    "a matrix without rows": (
        outputs.nvbandwidth_host,
        "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n   0   1\n",
        "no row of the matrix",
    ),
    "a latency where bandwidth was asked for": (
        outputs.nvbandwidth_pairs,
        "memory latency SM GPU(row) <-> GPU(column) (ns)\n   0   1\n 0  N/A 830.0\n",
        "no table of nvbandwidth",
    ),
    "pairs of which none can be reached": (
        outputs.nvbandwidth_pairs,
        "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n  0  1\n 0  N/A  N/A\n 1  N/A  N/A\n",
        "no row of the matrix",
    ),
    "sums that are wrong": (
        outputs.nccl_all_reduce,
        text("documented/all-reduce.txt").replace("values : 0 OK", "values : 12 FAILED"),
        "12 wrong sums",
    ),
    "an average in GB": (
        outputs.nccl_all_reduce,
        text("documented/all-reduce.txt").replace("471.005", "471.005 GB/s"),
        "no line '# Avg bus bandwidth'",
    ),
    "MB instead of Gb": (
        outputs.perftest_write,
        text("documented/ib-write-bw.txt").replace("Gb/sec", "MB/sec"),
        "in Gb/sec",
    ),
    "GPUs of which the program says no address": (
        outputs.rocm_bandwidth_host,
        text("documented/rocm-bandwidth-test.txt").replace("05:0.0", "").replace("c8:0.0", ""),
        "no table of rocm-bandwidth-test",
    ),
}


@pytest.mark.parametrize(("read", "said", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_anything_else_is_refused_with_what_was_read(read: Reader, said: str, why: str):
    with pytest.raises(UnreadableOutputError) as refused:
        read(said)
    assert why in str(refused.value)


READERS = sorted({(read.__name__, read) for read, _, _ in READ.values()})


@pytest.mark.parametrize("read", [read for _, read in READERS], ids=[name for name, _ in READERS])
@given(said=st.text(max_size=400))
def test_text_of_any_kind_is_a_figure_or_an_error(read: Reader, said: str):
    with suppress(UnreadableOutputError):
        assert all(value >= 0 for value in read(f"{said}\n").values())


@pytest.mark.parametrize(("read", "name", "values"), READ.values(), ids=READ.keys())
@given(data=st.data())
def test_an_output_that_is_cut_off_in_a_line_is_refused(
    read: Reader, name: str, values: Mapping[str, float], data: st.DataObject
):
    complete = text(name)
    said = complete[: data.draw(st.integers(0, len(complete) - 1))]
    assume(not said.endswith("\n"))
    with pytest.raises(UnreadableOutputError):
        read(said)
