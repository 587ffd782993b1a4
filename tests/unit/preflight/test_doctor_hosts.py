"""What `doctor` says of a host by what it answered and by its plan."""

from __future__ import annotations

from typing import Any

import pytest

from numaforge.commands.doctor import _hosts
from numaforge.commands.over_inventory import Answers
from numaforge.findings import Severity

TOLD: dict[str, Any] = {
    "right": "root",
    "answer": (),
    "asked_at": 0.0,
    "answered_at": 0.0,
    "profile": "gb200",
}
MOVED = "the earlier plan counted 744Gi of GPUs' memory, which the driver manages now"


@pytest.mark.parametrize(
    ("more", "warned"),
    [
        pytest.param({}, [], id="as it was planned"),
        pytest.param({"changed": MOVED}, [MOVED], id="the GPUs' memory has changed hands"),
    ],
)
def test_gpu_memory_that_has_changed_hands_since_the_plan_is_a_warning(more, warned):
    found = _hosts(Answers(settings={"gb-1": {}}, told={"gb-1": {**TOLD, **more}}, failed={}))
    assert [check.found for check in found["gb-1"] if check.severity is Severity.WARNING] == warned
