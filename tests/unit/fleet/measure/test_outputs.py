"""What programs print: recorded and documented outputs are read, everything else is refused."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from numaforge.machine import measure_outputs as outputs
from numaforge.machine.measure_outputs import Reader, UnreadableOutputError
from tests.fixtures.tables import tables

CASES = tables(__file__)

FOLDER = Path(__file__).parents[3] / "fixtures" / "measure"


def text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


READERS: dict[str, Reader] = {
    read.__name__: read
    for read in (
        outputs.cyclictest,
        outputs.mlc_bandwidth,
        outputs.mlc_latency,
        outputs.nccl_all_reduce,
        outputs.nvbandwidth_host,
        outputs.nvbandwidth_pairs,
        outputs.perftest_write,
        outputs.rocm_bandwidth_from,
        outputs.rocm_bandwidth_host,
        outputs.rtla_osnoise,
        outputs.rtla_timerlat,
        outputs.stress_ng_memrate,
        outputs.sysbench_memory,
    )
}
READ = [
    pytest.param(READERS[read], name, values, id=rule) for rule, (read, name, values) in CASES["read"].items()
]


@pytest.mark.parametrize(("read", "name", "values"), READ)
def test_figures_are_read_from_program_output(read, name, values):
    assert read(text(name)) == pytest.approx(dict(values))


REFUSED = [
    pytest.param(READERS[read], said if isinstance(said, str) else text(said["file"]), why, id=rule)
    for rule, (read, said, why) in CASES["refused"].items()
]


@pytest.mark.parametrize(("read", "said", "why"), REFUSED)
def test_unreadable_output_is_refused_and_quoted(read, said, why):
    with pytest.raises(UnreadableOutputError) as refused:
        read(said)
    assert why in str(refused.value)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@given(said=st.text(max_size=400))
def test_any_text_gives_a_figure_or_an_error(read, said):
    with suppress(UnreadableOutputError):
        assert all(value >= 0 for value in read(f"{said}\n").values())


@pytest.mark.parametrize(("read", "name", "values"), READ)
@given(data=st.data())
def test_output_cut_off_within_a_line_is_refused(read, name, values, data):
    complete = text(name)
    said = complete[: data.draw(st.integers(0, len(complete) - 1))]
    assume(not said.endswith("\n"))
    with pytest.raises(UnreadableOutputError):
        read(said)
