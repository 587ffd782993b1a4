"""Where a roll-out is: within the screen of a terminal, in few lines in a log."""

import re
from io import StringIO

import pytest
from rich.console import Console

from numaforge.report.live import Age, LiveView, fleet_screen
from numaforge.report.terminal import Screen
from numaforge.rollout.fleet import Fleet, FleetSettings, Member
from numaforge.rollout.outcome import Outcome, Progress
from numaforge.rollout.record import Ending
from tests.fixtures.rollout_world import World


class Host:
    """A host's run, which is where the test says."""

    def __init__(self, node: str) -> None:
        self.progress = Progress(node, "connects")

    def outcome(self) -> Outcome | None:
        return None


class Log:
    """A fleet that the test moves on, and the lines that a log gets of it."""

    def __init__(self, hosts: int, capsys: pytest.CaptureFixture[str]) -> None:
        self.now = 0.0
        self.runs: dict[str, Host] = {}
        members = [Member(f"gpu-{number:03}", f"gpu-{number:03}") for number in range(1, hosts + 1)]
        settings = FleetSettings(max_failures=hosts)
        self.fleet = Fleet(World().cluster, members, settings, Host, self.clock, lambda _: None)
        self.view = LiveView(self.fleet, self.runs, as_json=False, clock=self.clock)
        self._capsys = capsys

    def clock(self) -> float:
        return self.now

    def begin(self, host: str) -> None:
        del self.fleet.waiting[host]
        self.runs[host] = self.fleet.running[host] = Host(host)

    def end(self, host: str, ending: Ending = Ending.DONE, reason: str = "as planned") -> None:
        del self.fleet.running[host]
        self.fleet.outcomes[host] = Outcome(ending, reason)

    def lines(self, seconds: float = 2.0) -> list[str]:
        """Return what is said after so many seconds, without the time."""
        self.now += seconds
        self.view.refresh()
        return [line[9:] for line in self._capsys.readouterr().err.splitlines()]


@pytest.mark.parametrize("hosts", [30, 300])
def test_log_of_many_hosts_stays_short(hosts, capsys):
    log = Log(hosts, capsys)
    lines = []
    for number, host in enumerate(list(log.fleet.waiting), start=1):
        log.begin(host)
        for phase in ("cordoned", "drained", "applying", "verified"):
            log.runs[host].progress = Progress(host, phase)
            lines += log.lines(0.5)
        failed = number % 40 == 0
        log.end(
            host, Ending.ROLLED_BACK if failed else Ending.DONE, f"{host} was not Ready" if failed else ""
        )
        lines += log.lines(0.5)
    minutes = log.now / 60
    assert len(lines) <= 21 + minutes + 1
    assert lines[-1].startswith(f"{hosts} of {hosts} ended ({hosts - hosts // 40} done")
    assert sum("was not Ready" in line for line in lines) == (hosts >= 40)


def test_every_change_is_a_line_in_a_small_fleet(capsys):
    log = Log(2, capsys)
    log.begin("gpu-001")
    assert log.lines() == ["0 of 2 ended, 1 in progress; connects: gpu-001"]
    log.runs["gpu-001"].progress = Progress("gpu-001", "cordoned", ("pod a/b is in the way",))
    assert log.lines() == ["0 of 2 ended, 1 in progress; cordoned: gpu-001 (pod a/b is in the way)"]
    assert log.lines() == []
    log.end("gpu-001", Ending.BLOCKED, "the drain did not end")
    assert log.lines() == [
        "blocked: gpu-001: the drain did not end",
        "1 of 2 ended (1 blocked), 0 in progress",
    ]


def test_reason_the_fleet_waits_is_reported_once(capsys):
    log = Log(300, capsys)
    log.fleet.waits_for = "no room in the budget"
    assert log.lines() == ["the fleet waits: no room in the budget"]
    assert log.lines() == []
    log.fleet.waits_for = "another reason"
    assert log.lines() == []
    assert log.lines(60) == ["the fleet waits: another reason"]


def test_phases_are_reported_after_a_minute_without_output(capsys):
    log = Log(300, capsys)
    for host in list(log.fleet.waiting)[:5]:
        log.begin(host)
    assert log.lines() == []
    assert log.lines(60) == ["0 of 300 ended, 5 in progress; connects: gpu-[001-005]"]
    assert log.lines(60) == []


def test_host_time_advances_while_no_events_arrive(capsys):
    log = Log(1, capsys)
    log.begin("gpu-001")
    unchanged = fleet_screen(log.fleet, {}, {"gpu-001": Age(0.0, log.clock)}, Screen())
    console = Console(file=StringIO(), width=80)
    for log.now in (0.0, 7.0):
        console.print(unchanged)
    assert re.findall(r"connects +(\d+) s", console.file.getvalue()) == ["0", "7"]


def test_forced_colours_do_not_turn_a_log_into_a_live_view(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    log = Log(1, capsys)
    log.begin("gpu-001")
    with log.view:
        assert log.lines() == ["0 of 1 ended, 1 in progress; connects: gpu-001"]


@pytest.mark.parametrize("size", [Screen(), Screen(40, 10)], ids=str)
@pytest.mark.parametrize(("begun", "ended"), [(1, 0), (1, 300), (100, 100), (300, 0)])
def test_live_view_stays_within_the_screen(begun, ended, size, capsys):
    log = Log(begun + ended, capsys)
    log.fleet.waits_for = "no room: " + "a long reason " * 20
    for number, host in enumerate(list(log.fleet.waiting)):
        log.begin(host)
        if number < ended:
            log.end(host)
    console = Console(file=StringIO(), width=size.width)
    console.print(fleet_screen(log.fleet, {}, {}, size))
    lines = console.file.getvalue().splitlines()
    assert len(lines) < size.height
    assert max(map(len, lines)) <= size.width
    named = sum(line.split()[0] in log.fleet.running for line in lines)
    hidden = [line for line in lines if "more in progress" in line]
    assert begun == named if not hidden else hidden == [f"and {begun - named} more in progress"]
