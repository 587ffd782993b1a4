"""What a node says it was like when it was looked at; what becomes of that is in tests/ssh."""

from __future__ import annotations

import pytest

from numaforge.errors import HostError
from numaforge.node.fence import Fingerprint, read_fingerprint

LINES = ["boot b1", "uptime 77", "last T1 applied", "content 1f /etc/a", "content absent /etc/b c", "else x"]


def test_a_look_is_read_among_other_lines() -> None:
    contents = {"/etc/a": "1f", "/etc/b c": "absent"}
    assert read_fingerprint(LINES, "/etc/d") == Fingerprint("b1", 77, "T1 applied", contents, "/etc/d")


def test_a_node_that_no_transaction_has_touched_has_no_predecessor() -> None:
    assert read_fingerprint(["boot b1", "uptime 77", "last "], None).predecessor == ""


@pytest.mark.parametrize("missing", ["boot", "uptime", "last"])
def test_a_look_that_is_cut_off_is_refused(missing: str) -> None:
    with pytest.raises(HostError, match="cut off"):
        read_fingerprint([line for line in LINES if not line.startswith(missing)], None)
