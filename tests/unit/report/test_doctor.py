"""The table of `numaforge doctor` for many hosts, and its JSON twin."""

import click
import pytest

from numaforge.findings import Severity
from numaforge.preflight import Check
from numaforge.report.doctor import doctor_document, doctor_lines
from numaforge.report.terminal import Screen

FLOCK = Check("programs", "there is no flock", Severity.ERROR, "install util-linux")
HOSTS = {f"gpu-{number:03}": (Check("/etc", f"writable, {number}Gi free"),) for number in range(1, 301)}


def text(found, width=80):
    return [click.unstyle(line) for line in doctor_lines(found, Screen(width))]


def test_hosts_with_equal_results_are_one_row_despite_different_evidence():
    assert text(HOSTS) == ["gpu-[001-300]", "  ok  /etc  ok on all of them", "", "ready"]


def test_failed_checks_are_grouped_by_host_with_the_remedy_below():
    assert text({**HOSTS, "gpu-007": (FLOCK,), "gpu-009": (FLOCK,)}) == [
        "gpu-[001-006,008,010-300]",
        "  ok     /etc      ok on all of them",
        "gpu-[007,009]",
        "  error  programs  there is no flock",
        f"{'':19}install util-linux",
        "",
        "not ready: 1 error",
    ]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_words_are_never_broken(width):
    path = "/opt/" + "long-name-of-a-folder/" * 5 + "numaforge"
    found = {"this machine": (Check("numaforge", f"1.0 in {path}, Python 3.13"),)}
    lines = text(found, width)
    assert any(f"{path}," in line for line in lines)
    assert all(len(line) <= width or path in line for line in lines)


def test_document_has_every_check_of_every_place():
    document = doctor_document({"here": (Check("pyinfra", "3.10.0"),), "gpu-001": (FLOCK,)})
    assert document["ready"] is False
    assert [(row["where"], row["result"], row["remedy"]) for row in document["checks"]] == [
        ("here", "ok", None),
        ("gpu-001", "error", "install util-linux"),
    ]
