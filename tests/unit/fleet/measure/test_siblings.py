"""Machines beside their siblings: who is slow, and what keeps a node from service."""

from dataclasses import replace

import pytest

from numaforge.fleet.measure.record import MEASUREMENT, Measurement, MeasurementError, NotMeasured
from numaforge.fleet.measure.siblings import outliers_first, slow_of, why_held, with_siblings
from numaforge.report import measure as report
from numaforge.report.terminal import Screen
from tests.fixtures.measurements import figure, measured
from tests.fixtures.tables import cases

COMMAND = "numaforge measure INVENTORY --limit n"


def fleet(**machines: Measurement) -> dict[str, Measurement]:
    return with_siblings(machines)


def alike(value: float = 1000.0, count: int = 3, kind: str = "memory-bandwidth") -> dict[str, Measurement]:
    return {f"s{number}": measured(figure(value, kind)) for number in range(count)}


SLOW = {
    "a tenth of its siblings' bandwidth": ("memory-bandwidth", 100.0, True),
    "a little less than its siblings": ("memory-bandwidth", 810.0, False),
    "less than four fifths": ("memory-bandwidth", 790.0, True),
    "more than its siblings": ("memory-bandwidth", 5000.0, False),
    "ten times the latency": ("memory-latency", 10000.0, True),
    "a tenth of the latency": ("memory-latency", 100.0, False),
    "three times the worst moment is no outlier": ("timer-latency", 3000.0, False),
    "eleven times the worst moment is": ("timer-latency", 11000.0, True),
}


@cases("kind, value, slow", SLOW)
def test_figure_much_worse_than_its_siblings_is_slow(kind: str, value: float, slow: bool):
    found = fleet(n=measured(figure(value, kind)), **alike(kind=kind))
    assert bool(slow_of(found["n"])) is slow
    assert not slow_of(found["s0"])


UNKNOWN = {
    "two siblings are too few": (measured(figure(100.0)), 2, "memory-bandwidth"),
    "siblings of another make do not count": (measured(figure(100.0), make="HGX"), 3, "memory-bandwidth"),
    "nor does another program": (measured(figure(100.0, program="mlc")), 3, "memory-bandwidth"),
    "nor another kind that this version does not know": (measured(figure(100.0, "warp")), 3, "warp"),
}


@cases("machine, count, kind", UNKNOWN)
def test_figure_without_comparison_is_not_slow(machine: Measurement, count: int, kind: str):
    assert not slow_of(fleet(n=machine, **alike(count=count, kind=kind))["n"])


def test_sibling_median_excludes_the_machine_and_resists_an_outlier():
    found = fleet(n=measured(figure(1000.0)), liar=measured(figure(9e6)), **alike())
    (of,) = found["n"].siblings.values()
    assert (of.median, of.machines) == (1000.0, 4)


def test_slowest_machine_is_named_first():
    found = fleet(n=measured(figure(500.0)), worse=measured(figure(100.0)), **alike(count=5))
    assert outliers_first(found)[:2] == ["worse", "n"]


def test_timers_are_compared_across_different_pod_cpus():
    others = {
        f"s{number}": measured(figure(10.0, "timer-latency", f"CPUs {number}-15", program="cyclictest"))
        for number in range(3)
    }
    own = measured(figure(1000.0, "timer-latency", "CPUs 8-15", program="cyclictest"))
    assert slow_of(fleet(n=own, **others)["n"])


HELD = {
    "no measurement": (None, "it was not measured: run `numaforge measure"),
    "a measurement without a figure": (measured(), "no figure was measured: run"),
    "siblings that are too few": (measured(figure(1000.0)), "fewer than 3 siblings: run"),
    "a tenth of its siblings": (
        fleet(n=measured(figure(100.0)), **alike())["n"],
        "memory read, in order of NUMA node 0: 100 MB/s, where 3 siblings have 1000",
    ),
    "what siblings have and it has not": (
        fleet(
            n=measured(figure(1000.0), not_measured=(NotMeasured("to-gpu", "", "there is no nvbandwidth"),)),
            **{
                name: replace(each, figures=(*each.figures, figure(55.0, "to-gpu", "GPU 0")))
                for name, each in alike().items()
            },
        )["n"],
        "host to GPU of GPU 0 was not measured (there is no nvbandwidth), 3 siblings have 55 GB/s: run",
    ),
}


@cases("machine, why", HELD)
def test_node_with_a_bad_or_missing_figure_is_held(machine: Measurement | None, why: str):
    (reason, *_) = why_held(machine, 0.8, COMMAND)
    assert why in reason


@pytest.mark.parametrize(("share", "held"), [(0.8, False), (0.95, False), (0.99, True)])
def test_node_is_held_below_the_minimum_share_of_its_siblings(share, held):
    assert bool(why_held(fleet(n=measured(figure(950.0)), **alike())["n"], share, COMMAND)) is held


def test_measurement_survives_a_round_trip():
    machine = fleet(n=measured(figure(950.0, limit=1200.0)), **alike())["n"]
    assert MEASUREMENT.loads(MEASUREMENT.dumps(machine)) == machine


BROKEN = {
    "half of it": lambda text: text[: len(text) // 2],
    "a figure that is text": lambda text: text.replace("950.0", '"fast"'),
    "a figure that is no number": lambda text: text.replace("950.0", "NaN"),
    "another schema": lambda text: text.replace('"schema": 1', '"schema": 7'),
    "a field that nobody knows": lambda text: text.replace('"make"', '"made"'),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_invalid_kept_measurement_is_refused(broken):
    text = MEASUREMENT.dumps(measured(figure(950.0)))
    with pytest.raises(MeasurementError):
        MEASUREMENT.loads(broken(text))


def shown(machines: dict[str, Measurement], width: int = 80) -> str:
    return "\n".join(report.lines(machines, {}, 0.8, Screen(width)))


def test_machine_report_shows_units_runs_spread_limit_and_siblings():
    own = measured(figure(55.0, "to-gpu", "GPU 0", unit="GB/s", lowest=54.0, highest=56.0, limit=63.0))
    others = {name: measured(figure(55.5, "to-gpu", "GPU 0")) for name in ("a", "b", "c")}
    text = shown({"n": fleet(n=own, **others)["n"]}, width=200)
    assert (
        "host to GPU, GPU 0: 55 GB/s (54 to 56 in 3 runs of sysbench); 87% of the link's 63; "
        "3 siblings have 55.5" in text
    )


def test_fleet_report_names_slow_machines_and_counts_the_others():
    text = shown(fleet(n=measured(figure(100.0)), **alike(count=5)), width=160)
    first, *others = text.splitlines()
    assert "n: memory read, in order of NUMA node 0: 100 MB/s, where 5 siblings have 1000" in first
    assert "6 machines, DGX: 1 slower than siblings" in others[0]
    assert "100, 1000, 1000 MB/s (lowest, median, highest of 6 machines, sysbench)" in others[1]


def test_node_text_cannot_move_the_cursor():
    text = shown({"n": measured(figure(1.0, program="x\x1b[2J"))})
    assert "\x1b[2J" not in text


@cases(
    "kind, near, far, ratio",
    {
        "more is better": ("memory-bandwidth", 1000.0, 400.0, 2.5),
        "of latency less is": ("memory-latency", 80.0, 140.0, 1.75),
    },
)
def test_alignment_is_the_ratio_of_two_figures_of_one_program(kind, near, far, ratio):
    (row,) = report.alignment(measured(figure(near, kind), figure(far, kind, "NUMA node 0 to 3")))
    assert (row["aligned"], row["not_aligned"], row["ratio"]) == (near, far, ratio)
