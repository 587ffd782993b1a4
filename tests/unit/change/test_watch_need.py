"""What a host needs of its own watch, given what it says of itself."""

import os
import subprocess
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from numaforge.change.goal import Goal
from numaforge.node.bundle import FileState
from numaforge.node.part import NodeState
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.roles.watch import part as watch
from numaforge.roles.watch import promises
from numaforge.roles.watch.files import WATCH_CONF_PATH, WATCH_TIMER
from numaforge.verification.live import probe, read_live
from tests.fixtures.machines import kubeadm_kubelet, lab_node
from tests.fixtures.tables import cases

ENABLED, ACTIVE = "unit enabled", "timer active"
HERE, ELSEWHERE = "/srv/here", "/srv/elsewhere"


def goal(wish: dict[str, Any]) -> Goal:
    machine = replace(lab_node(), kubelet=kubeadm_kubelet())
    plan = plan_node(machine, load_profile({"memory": {"system_reserved": "512Mi"}, "watch": wish}))
    return Goal(plan, machine, frozenset({"topology"}))


WATCHED = goal({"enabled": True, "directory": HERE})
UNWATCHED = goal({})


def found(*said: str, folder: str | None = None, login: str = "") -> NodeState:
    state = FileState(f"# ours\nnode\tn\nfolder\t{folder}\n{login}", "0644", "root", "root")
    return NodeState({WATCH_CONF_PATH: state} if folder else {}, (), said={watch.NAME: said})


MOVES = [
    pytest.param(UNWATCHED, found("unit disabled"), [], id="nothing is left and nothing is wanted"),
    pytest.param(WATCHED, found(ENABLED, ACTIVE, folder=HERE), [], id="it watches as it has to"),
    pytest.param(WATCHED, found(ENABLED, folder=HERE), [], id="without systemd nothing is started"),
    pytest.param(
        WATCHED,
        found("unit disabled", "timer inactive"),
        [f"{WATCH_TIMER}: disabled -> enabled", f"{WATCH_TIMER}: inactive -> active"],
        id="it begins",
    ),
    pytest.param(
        WATCHED,
        found(ENABLED, "timer failed", folder=HERE),
        [f"{WATCH_TIMER}: failed -> active"],
        id="a timer that does not run is started",
    ),
    pytest.param(
        WATCHED,
        found(ENABLED, ACTIVE, folder=ELSEWHERE),
        [f"{ELSEWHERE}/numaforge.prom: removed"],
        id="metrics leave the folder of before",
    ),
    pytest.param(
        UNWATCHED,
        found(ENABLED, ACTIVE, folder=HERE),
        [f"{WATCH_TIMER}: enabled -> disabled", f"{HERE}/numaforge.prom: removed"],
        id="it ends, and its metrics with it",
    ),
    pytest.param(
        UNWATCHED,
        found(ENABLED, ACTIVE),
        [f"{WATCH_TIMER}: enabled -> disabled"],
        id="it ends without a trace of where",
    ),
]


MOVES += [
    pytest.param(
        goal({"enabled": True, "directory": HERE, "condition": False}),
        found(ENABLED, ACTIVE, folder=HERE, login="kubeconfig\t/etc/kubernetes/kubelet.conf\n"),
        ["the Node's condition numaforge.io/PlanDrift: removed"],
        id="a Node that is not told any more loses the condition",
    ),
    pytest.param(
        WATCHED,
        found(ENABLED, ACTIVE, folder=HERE, login="kubeconfig\t/etc/kubernetes/kubelet.conf\n"),
        [],
        id="a Node that is told goes on to be",
    ),
]


@pytest.mark.parametrize(("on", "host", "moves"), MOVES)
def test_only_differing_settings_change(on: Goal, host: NodeState, moves: list[str]) -> None:
    part = watch.need(on, host, ())
    assert list(part.moves if part else ()) == moves


def test_watch_disturbs_no_pod_and_delays_no_boot() -> None:
    part = watch.need(WATCHED, found("unit disabled", "timer inactive"), ())
    assert (part.drains, part.reboots, part.restarts_kubelet, part.units) == (False, False, False, ())


def test_timer_is_queried_only_where_it_may_run() -> None:
    assert watch.look(WATCHED).call == ("look_watch", watch.BOOT_LINK, "timer")
    assert watch.look(UNWATCHED).call == ("look_watch", watch.BOOT_LINK, "")


@cases(
    "age, why",
    {"none": (None, "does not exist"), "an hour old": (3600, "written 36"), "just written": (0, "")},
)
def test_verification_checks_the_age_of_the_metrics(age: int | None, why: str, tmp_path: Path) -> None:
    plan = replace(goal({"enabled": True, "directory": str(tmp_path)}).plan, files=(), kubelet=None)
    metrics = tmp_path / "numaforge.prom"
    if age is not None:
        metrics.touch()
        os.utime(metrics, times=(time.time() - age, time.time() - age))
    done = subprocess.run(["sh", "-c", probe(plan)], capture_output=True, text=True, check=True)
    (promise,) = promises.PROMISES
    (limit,) = promise.table(plan).values()
    asked = SimpleNamespace(live=read_live(done.stdout, plan))
    with pytest.raises(pytest.fail.Exception, match=why) if why else nullcontext():
        promise.holds(asked, str(metrics), limit)
    assert "tell_watch" not in probe(UNWATCHED.plan)
