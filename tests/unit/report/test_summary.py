"""How a roll-out ended: one screen, whatever the size of the fleet; every host's result elsewhere."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from numaforge.report.summary import report_document, results_text, summary
from numaforge.report.terminal import Screen
from numaforge.rollout.fleet import FleetReport
from numaforge.rollout.outcome import Outcome
from numaforge.rollout.record import Ending

FILE = Path("/home/ops/.local/state/numaforge/rollouts/20261122T084119Z-default-4711/report.txt")
NOT_READY = "not Ready within 300 s; the old configuration is back"
DISRUPTIONS = "the drain did not end within 600 s"


def names(count: int, first: int = 1) -> list[str]:
    return [f"gpu-{number:03}" for number in range(first, first + count)]


def good(count: int) -> dict[str, Outcome]:
    return {name: Outcome(Ending.DONE, "as planned") for name in names(count)}


def seven_fail(count: int) -> dict[str, Outcome]:
    """Five hosts are rolled back for one reason and two are blocked for another."""
    failures = {name: Outcome(Ending.ROLLED_BACK, NOT_READY) for name in names(5)}
    failures |= {name: Outcome(Ending.BLOCKED, DISRUPTIONS, ("pod a/b",)) for name in names(2, 6)}
    return {**good(count), **failures}


def shown(report: FleetReport, screen: Screen | None = None, **more: object) -> list[str]:
    """Return the lines that a terminal of that size is given; it wraps what is longer."""
    screen = screen or Screen()
    console = Console(file=StringIO(), width=screen.width)
    console.print(summary(report, screen, FILE, **more), soft_wrap=True)  # type: ignore[arg-type]
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


@pytest.mark.parametrize("count", [1, 30, 300])
def test_successful_fleet_shows_only_counts_and_file(count: int) -> None:
    lines = shown(FleetReport(good(count), {}))
    assert lines[0] == f"{count} host{'s' if count > 1 else ''}: {count} done"
    assert lines[1].startswith("each host: ")
    assert len(lines) == 3


@pytest.mark.parametrize("count", [30, 300])
def test_failures_are_grouped_by_reason_with_counts_and_host_names(count: int) -> None:
    lines = shown(FleetReport(seven_fail(count), {}))
    assert lines[:6] == [
        f"{count} hosts: {count - 7} done, 5 rolled back, 2 blocked",
        f"5 rolled back: {NOT_READY}",
        "  gpu-[001-005]",
        f"2 blocked: {DISRUPTIONS}",
        "  gpu-[006-007]",
        "  gpu-006: pod a/b",
    ]


def test_single_host_is_listed_with_its_reason_and_details() -> None:
    lines = shown(FleetReport({"gpu-001": Outcome(Ending.HELD, "gpu-001 is held", ("first", "second"))}, {}))
    details = ["  gpu-001: first", "  gpu-001: second"]
    assert lines[:5] == ["1 host: 1 held", "1 held: gpu-001 is held", "  gpu-001", *details]


def test_reasons_that_differ_only_by_host_are_grouped() -> None:
    reason = "its run ended with 1: see /logs/{}.log"
    outcomes = {name: Outcome(Ending.HELD, reason.format(name)) for name in names(300)}
    assert shown(FleetReport(outcomes, {}))[1] == f"300 held: {reason.format('HOST')}"


def everything_at_once(reasons: int) -> FleetReport:
    """Three hundred hosts, each state, long reasons with many lines of details."""
    outcomes = {
        name: Outcome(Ending.ROLLED_BACK, f"reason {number % reasons}: {'long ' * 60}", ("detail",) * 40)
        for number, name in enumerate(names(150))
    }
    return FleetReport(
        outcomes,
        not_begun=dict.fromkeys(names(50, 151), "stopped"),
        stopped="gpu-001 is rolled-back, and no more than 0 may fail " * 5,
        under_way=dict.fromkeys(names(10, 201), "it ends by itself"),
        refused={name: f"{name} cannot be planned" for name in names(40, 211)},
        unreachable={name: f"[{name}] Could not connect" for name in names(40, 251)},
        as_planned=tuple(names(10, 291)),
    )


@pytest.mark.parametrize("size", [Screen(), Screen(40, 20), Screen(200, 60)], ids=str)
@pytest.mark.parametrize("reasons", [1, 2, 150])
def test_report_fits_the_screen(reasons: int, size: Screen) -> None:
    notes = ["the cluster does not know that it has ended: the next one is a `rollout resume`"]
    lines = shown(everything_at_once(reasons), size, notes=notes)
    assert sum(-(-len(line) // size.width) for line in lines) < size.height
    assert all(len(line) <= size.width for line in lines if str(FILE) not in line)
    assert "1 unchanged" not in lines[0]
    assert "rollout resume" in " ".join(map(str.strip, lines))
    assert f"each host: {FILE}" in lines


def test_every_state_is_shown_and_reasons_beyond_the_limit_are_counted() -> None:
    lines = shown(everything_at_once(150))
    (line,) = [line for line in lines if "more reason" in line]
    assert line == f"and {150 - sum('rolled back: reason' in line for line in lines)} more reasons"
    for heading in ("10 left in progress", "1 rolled back", "40 refused", "40 unreachable", "50 not begun"):
        assert any(line.startswith(f"{heading}: ") for line in lines)


def test_count_and_state_stay_on_one_line() -> None:
    lines = shown(everything_at_once(1), Screen(width=40))
    assert lines[1:3] == ["  progress, 150 rolled back, 40 refused,", "  40 unreachable, 50 not begun"]


def test_gravest_state_comes_first() -> None:
    lines = shown(everything_at_once(1), Screen(80, 60))
    headings = [line.partition(":")[0].partition(" ")[2] for line in lines if line[0].isdigit()][1:]
    assert headings == ["left in progress", "rolled back", "refused", "unreachable", "not begun"]


def test_unchanged_hosts_are_counted_and_none_are_reported() -> None:
    assert shown(FleetReport({}, {}))[0] == "no changes needed"
    assert shown(FleetReport({}, {}, as_planned=("a", "b")))[0] == "2 hosts: 2 unchanged"


def test_report_document_lists_undrained_hosts_by_ending() -> None:
    bad = Outcome(Ending.ROLLED_BACK, "its Node is not Ready")
    outcomes = {"drained": Outcome(Ending.DONE), "good": Outcome(Ending.DONE), "bad": bad}
    report = FleetReport(outcomes, {}, as_planned=("same",), undrained=frozenset({"good", "bad"}))
    document = report_document(report, file=FILE)
    assert document["without_restart"] == ["good", "same"]
    assert document["failed"] == {"bad": "its Node is not Ready"}
    assert document["counts"] == {"rolled back": 1, "done": 2, "unchanged": 1}
    assert (len(document["nodes"]), document["file"]) == (3, str(FILE))


def test_report_file_has_every_host_with_every_detail() -> None:
    text = results_text(everything_at_once(150))
    assert all(any(line.startswith(f"{name}: ") for line in text.splitlines()) for name in names(300))
    assert text.count("    detail\n") == 150 * 40


def test_control_sequences_in_host_text_are_removed() -> None:
    report = FleetReport({"a": Outcome(Ending.HELD, "\x1b[2J[red]x", ("\x1b]0;t\x07",))}, {})
    text = "".join(shown(report)) + results_text(report)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[red]" in text


@pytest.mark.parametrize("ending", Ending)
def test_every_ending_has_a_report_line(ending: Ending) -> None:
    report = FleetReport({"gpu-001": Outcome(ending, "why")}, {})
    assert ending.replace("-", " ") in "\n".join(shown(report))
    assert report_document(report)
