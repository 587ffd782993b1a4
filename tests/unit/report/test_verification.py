"""What a verification shows of a fleet: hosts that are alike together, and its exit code."""

from collections.abc import Sequence

import click
import pytest

from numaforge.lib.errors import ExitCode
from numaforge.report import verification
from numaforge.report.terminal import Screen
from numaforge.verification.suite import CaseResult


def kept(host: str) -> CaseResult:
    return CaseResult(f"test_governor[ssh://{host}-cpu5]", "passed", host=f"ssh://{host}")


def differs(host: str) -> CaseResult:
    reason = "schedutil, planned performance"
    return CaseResult(f"test_governor[ssh://{host}-cpu5]", "failed", reason, f"ssh://{host}")


def silent(host: str) -> CaseResult:
    why = f"ssh: connect to host {host} (10.0.0.{host[-2:]}) port 22: Connection refused"
    reason = f"ssh://{host}: cannot be reached: {why}"
    name = f"test_the_host_has_a_plan[ssh://{host}]"
    return CaseResult(name, "failed", reason, f"ssh://{host}", unreachable=True)


def shown(found: Sequence[CaseResult]) -> list[str]:
    return [click.unstyle(line) for line in verification.lines(found, Screen(80))]


def test_hosts_with_identical_results_are_shown_together() -> None:
    away = [silent(f"gpu-{number:02}") for number in range(11, 41)]
    found = [kept("gpu-01"), kept("gpu-02"), differs("gpu-03"), differs("gpu-04"), *away]
    assert shown(found) == [
        "34 hosts: 2 as planned, 30 unreachable, 2 not as planned (2 promises kept)",
        "2 hosts not as planned: gpu-[03-04]",
        "  governor cpu5: schedutil, planned performance",
        "30 hosts unreachable: gpu-[11-40]",
        "  cannot be reached: ssh: connect to host HOST (ADDRESS) port 22: Connection",
        "    refused",
        "2 hosts as planned: gpu-[01-02]",
    ]


def test_long_difference_list_shows_first_ones_and_a_count() -> None:
    found = [
        CaseResult(f"test_governor[ssh://a-cpu{cpu}]", "failed", f"cpu{cpu} differs", "ssh://a")
        for cpu in range(224)
    ]
    assert len(shown(found)) == 15
    assert shown(found)[-1] == "  and 212 more differences: -o json has all of them"


@pytest.mark.parametrize(
    ("found", "code"),
    [
        pytest.param([kept("a")], ExitCode.YES, id="all kept"),
        pytest.param([kept("a"), silent("b")], ExitCode.UNREACHABLE, id="one away"),
        pytest.param([differs("a"), silent("b")], ExitCode.NO, id="one differs and one is away"),
    ],
)
def test_worst_result_sets_exit_code(found: list[CaseResult], code: ExitCode) -> None:
    assert verification.exit_code(found) == code
