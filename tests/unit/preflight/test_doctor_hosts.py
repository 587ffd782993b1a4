"""What `doctor` says of a host by what it answered and by its plan."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from numaforge.commands.doctor import _hosts, _racks
from numaforge.commands.over_inventory import Answers
from numaforge.findings import Severity
from numaforge.machine.topology.trays import BY_HOST, Tray

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
def test_gpu_memory_mode_change_since_the_plan_is_a_warning(more, warned):
    found = _hosts(Answers(settings={"gb-1": {}}, events={"gb-1": {**TOLD, **more}}, failed={}))
    assert [check.evidence for check in found["gb-1"] if check.severity is Severity.WARNING] == warned


TRAY = Tray(("aaaa.1",), "branch 580", "driver", BY_HOST, "0123456789abcdef", 18)


@pytest.mark.parametrize(
    ("other", "found"),
    [
        pytest.param(TRAY, [], id="trays that agree"),
        pytest.param(None, [], id="a host that is in no rack"),
        pytest.param(
            replace(TRAY, nodes="fedcba98"),
            [("error", "list of IMEX nodes: 01234567 (18 nodes) on 1 tray, gb-1; fedcba98")],
            id="another list, which a roll-out refuses",
        ),
        pytest.param(
            replace(TRAY, memory_mode="numa"),
            [("warning", "mode of the GPUs' memory: driver on 1 tray, gb-1; numa on 1 tray, gb-2")],
            id="another mode of memory",
        ),
    ],
)
def test_disagreeing_trays_are_reported_by_group(other, found):
    told = {name: {**TOLD, "tray": tray and asdict(tray)} for name, tray in (("gb-1", TRAY), ("gb-2", other))}
    checks = _racks(Answers(settings={}, events=told, failed={}))
    assert [check.severity for check in checks] == [severity for severity, _ in found]
    assert all(text in check.evidence for check, (_, text) in zip(checks, found, strict=True))


def test_unplannable_host_is_left_out_of_rack_comparison():
    told = {"gb-1": {**TOLD, "tray": asdict(TRAY)}, "gb-2": {**TOLD, "refused": "no such profile"}}
    assert _racks(Answers(settings={}, events=told, failed={})) == ()
