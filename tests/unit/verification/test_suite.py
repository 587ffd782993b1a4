"""What a run of the suite found, as its report in JUnit's XML has it."""

from pathlib import Path
from xml.sax.saxutils import quoteattr

from numaforge.verification.suite import results
from tests.fixtures.tables import cases


@cases(
    "message, reason",
    {
        "of-a-promise": ("Failed: 33, planned 7", "33, planned 7"),
        "of-a-promise-in-several-lines": ("Failed: line 2\nline 9", "line 2\nline 9"),
        "only-so-long": (f"Failed: {'x' * 3000}", f"{'x' * 2000}..."),
        "of-an-assertion-the-first-line": ("AssertionError: x\nassert 1 in (2, 3)", "x"),
        "nothing": ("", "failure"),
    },
)
def test_failure_reports_the_found_value(tmp_path: Path, message: str, reason: str) -> None:
    failure = f"<failure message={quoteattr(message)}/>"
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuite><testcase name='test_one[x]'>{failure}</testcase></testsuite>")
    (found,) = results(report)
    assert (found.outcome, found.reason) == ("failed", reason)
