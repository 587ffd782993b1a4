"""What a run of the suite found, as its report in JUnit's XML has it."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest

from numaforge.verification.suite import results

PATH = "/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        pytest.param(
            f"AssertionError: {PATH}\nassert 'schedutil' == 'performance'\n  - performance",
            f"AssertionError: {PATH}: 'schedutil' where the plan says 'performance'",
            id="two-values",
        ),
        pytest.param("AssertionError: x\nassert {} == {'a': 1}", "AssertionError: x", id="two-mappings"),
        pytest.param("AssertionError: x\nassert 1 in (2, 3)", "AssertionError: x", id="no-comparison"),
        pytest.param("Failed: cannot be reached", "Failed: cannot be reached", id="one-line"),
        pytest.param("", "failure", id="nothing"),
    ],
)
def test_a_failure_says_what_was_found(tmp_path: Path, message: str, reason: str) -> None:
    failure = f"<failure message={quoteattr(message)}/>"
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuite><testcase name='test_one[x]'>{failure}</testcase></testsuite>")
    (found,) = results(report)
    assert (found.outcome, found.reason) == ("failed", reason)
