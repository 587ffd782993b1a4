"""The table of `numaforge doctor` for many hosts, and its JSON twin."""

from __future__ import annotations

from rich.console import Console

from numaforge.findings import Severity
from numaforge.preflight import Check
from numaforge.report.doctor import doctor_document, doctor_table

FLOCK = Check("programs", "there is no flock", Severity.ERROR, "install util-linux")
HOSTS = {f"gpu-{number:03}": (Check("/etc", f"writable, {number}Gi free"),) for number in range(1, 301)}


def text(found):
    console = Console(width=100)
    with console.capture() as printed:
        console.print(doctor_table(found))
    return printed.get().splitlines()


def test_hosts_with_equal_rows_are_one_row_though_what_was_found_differs():
    lines = text(HOSTS)
    assert sum("/etc" in line for line in lines) == 1
    assert any("gpu-001, gpu-002, gpu-003 and 297 others" in line and "ok on all" in line for line in lines)
    assert lines[-1] == "ready"


def test_what_is_amiss_has_rows_and_ways_out_of_its_own():
    lines = text({**HOSTS, "gpu-007": (FLOCK,), "gpu-009": (FLOCK,)})
    assert "gpu-007, gpu-009: programs: install util-linux" in lines
    assert lines[-1] == "not ready: 1 error"


def test_the_document_has_every_check_of_every_place():
    document = doctor_document({"here": (Check("pyinfra", "3.10.0"),), "gpu-001": (FLOCK,)})
    assert document["ready"] is False
    assert [(row["where"], row["result"], row["remedy"]) for row in document["checks"]] == [
        ("here", "ok", None),
        ("gpu-001", "error", "install util-linux"),
    ]
