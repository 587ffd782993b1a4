"""Each promise that is broken says in one short text what is there and what is planned."""

import inspect
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from numaforge.lib.file_content import PlannedFile
from numaforge.machine.topology.saved import ready_machine
from numaforge.node.bundle import FileState
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile
from numaforge.roles.files.promises import changed_lines
from numaforge.roles.promise import Promise
from numaforge.verification.live import Live
from numaforge.verification.table import all_promises
from tests.fixtures.tables import cases

SWAPPINESS = "/proc/sys/vm/swappiness"
WITHOUT_VALUES = ("does not exist", "does not answer", "has not started since", "is not loaded?")
"""How those speak that find nothing to compare with."""
PLANS = {
    "dgx-h100": {"extends": "training", "name": "a", "tuning": {"sysctls": {"vm.swappiness": 7}}},
    "mi300x": {"extends": "training", "name": "b"},
    "gb200": {"extends": "training", "name": "c"},
    "hgx-a100": {"extends": "inference-mig", "name": "d"},
}


def plan_of(name: str) -> NodePlan:
    return plan_node(ready_machine(name), load_profile(PLANS[name]), "1.36.2")


def node(plan: NodePlan, live: Live) -> Any:
    return SimpleNamespace(plan=plan, live=live, id="ssh://gpu-01", value=live.values.get)


def why_broken(promise: Promise, plan: NodePlan, live: Live, entry: str, expected: object) -> str | None:
    """Return why a promise is broken; None where it is kept or cannot be judged."""
    try:
        promise.holds(node(plan, live), entry, expected)
    except pytest.skip.Exception:
        return None
    except pytest.fail.Exception as failure:
        return str(failure)
    return None


def told_by_the_host_alone() -> Iterator[Promise]:
    """Yield the promises for which no cluster is asked and no traffic is made."""
    for _, promise in all_promises():
        if len(inspect.signature(promise.holds).parameters) == 3:
            yield promise


@pytest.mark.parametrize("name", PLANS)
def test_silent_host_breaks_each_promise_with_one_short_line(name):
    plan, said = plan_of(name), {}
    for promise in told_by_the_host_alone():
        for entry, expected in promise.table(plan).items():
            if (why := why_broken(promise, plan, Live({}), entry, expected)) is not None:
                said[f"{promise.name} {entry}"] = why
    assert len({key.split(" ")[0] for key in said}) > 5
    assert not [
        why for why in said.values() if not any(words in why for words in ("planned ", *WITHOUT_VALUES))
    ]
    assert not [why for why in said.values() if "\n" in why or len(why) > 300 or "assert" in why]


FILE = PlannedFile("/etc/sysctl.d/90-numaforge.conf", "tuning", "sysctl/90-numaforge.conf.j2")


def state(**changes: str) -> FileState:
    return replace(FileState("", "0644", "root", "root"), **changes)


@cases(
    "promise, entry, live, reason",
    {
        "a mode": (
            "file_mode_and_owner",
            "/etc/numaforge/plan.json",
            Live({}, {"/etc/numaforge/plan.json": state(mode="644")}),
            "mode 0644, planned 0600",
        ),
        "an owner": (
            "file_mode_and_owner",
            "/etc/numaforge/plan.json",
            Live({}, {"/etc/numaforge/plan.json": state(mode="600", owner="alice")}),
            "owner alice:root, planned root:root",
        ),
        "no file": ("file_mode_and_owner", "/etc/numaforge/plan.json", Live({}), "does not exist"),
        "a sysctl": (
            "kernel_value",
            "sysctl:vm.swappiness",
            Live({SWAPPINESS: "33"}),
            f"33, planned 7 ({SWAPPINESS})",
        ),
        "no sysctl": ("kernel_value", "sysctl:vm.swappiness", Live({}), f"absent, planned 7 ({SWAPPINESS})"),
        "a unit": (
            "unit_state",
            "kubelet.service",
            Live({}, said={"active": [("kubelet.service", "failed")]}),
            "failed, planned active",
        ),
        "another host": (
            "the_machine_is_the_one_of_the_plan",
            "hostname",
            Live({"/proc/sys/kernel/hostname": "gpu-02"}),
            "gpu-02, planned dgx-01 (/proc/sys/kernel/hostname)",
        ),
    },
)
def test_broken_promise_reports_live_and_planned_value(promise, entry, live, reason):
    plan = plan_of("dgx-h100")
    (kind,) = {each for _, each in all_promises() if each.name == promise and entry in each.table(plan)}
    assert why_broken(kind, plan, live, entry, kind.table(plan)[entry]) == reason


@cases(
    "found, planned, shown",
    {
        "a line": ("a = 1\nb = 2\n", "a = 1\nb = 3\n", "line 2: `b = 2`, planned `b = 3`"),
        "a line that is missing": ("a\n", "a\nb\n", "line 2: no such line, planned `b`"),
        "a line too many": ("a\nmine\n", "a\n", "line 2: `mine`, planned no such line"),
        "the first places of many": (
            "".join(f"x{n}\nsame{n}\n" for n in range(9)),
            "".join(f"y{n}\nsame{n}\n" for n in range(9)),
            (
                "line 1: `x0`, planned `y0`; line 3: `x1`, planned `y1`; line 5: `x2`, planned `y2`; "
                "and 6 more places"
            ),
        ),
        "no secret": ("token: abcdefgh\nb: 1\n", "b: 1\n", "line 1: `token: REDACTED`, planned no such line"),
        "how lines end": ("a\r\n", "a\n", "differs in secrets or in how its lines end"),
        "only so long": ("", f"{'x' * 500}\n", f"line 1: no such line, planned `{'x' * 160}...`"),
    },
)
def test_changed_file_shows_its_first_changed_lines(found, planned, shown):
    assert changed_lines(found, planned) == shown
