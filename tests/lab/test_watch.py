"""The node's own watch on a virtual node: a hand edit is told within a period of its timer, and clears."""

import json
import re
import time
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import pytest

from lab.cluster import Lab
from lab.node import Node
from lab.paths import REPOSITORY
from numaforge.roles.watch.files import PERIOD_SECONDS, WATCH_SCRIPT_PATH, WATCH_TIMER, WATCH_UNIT
from numaforge.roles.watch.section import DIRECTORY
from tests.fixtures.tables import cases
from tests.lab.conftest import INVENTORY
from tests.lab.rollouts import in_repository

METRICS = f"{DIRECTORY}/numaforge.prom"
CONDITION = "numaforge.io/PlanDrift"
POOL = "/sys/devices/system/node/node2/hugepages/hugepages-2048kB/nr_hugepages"
GOVERNOR = "/sys/devices/system/cpu/cpu5/cpufreq/scaling_governor"
RUN_SECONDS = 60
"""What a run may take there: the node's processor is emulated, and seventy times as slow as a real one."""


def profile() -> dict[str, Any]:
    """Return the profile with which the lab's nodes are provisioned."""
    spec = spec_from_file_location("lab_data", next((REPOSITORY / "inventories/lab/group_data").glob("*.py")))
    assert spec is not None
    assert spec.loader is not None
    data = module_from_spec(spec)
    spec.loader.exec_module(data)
    return dict(data.numaforge_profile)


def site(node: Node, wish: dict[str, Any]) -> str:
    data = ("--data", f"numaforge_profile={json.dumps(wish)}", "--data", "kubelet_stable_seconds=3")
    return in_repository("pyinfra", "-y", *data, "--limit", node.name, INVENTORY, "deploys/site.py")


@pytest.fixture(scope="module")
def watched(provisioned: Node) -> Iterator[Node]:
    """The provisioned node, which watches itself until the last of these tests."""
    kubelet = provisioned.run("systemctl show -p MainPID kubelet.service")
    site(provisioned, {**profile(), "watch": {"enabled": True}})
    assert provisioned.run("systemctl show -p MainPID kubelet.service") == kubelet
    yield provisioned
    site(provisioned, profile())


def drift(node: Node) -> dict[str, str]:
    """Return what is not as planned, with what its metric says."""
    pattern = r'^numaforge_plan_drift\{.*what="(.*)"\} (\S+)$'
    found = re.findall(pattern, node.run(f"cat {METRICS}"), re.MULTILINE)
    return {what: value for what, value in found if value != "0"}


def within_a_period(node: Node, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PERIOD_SECONDS + RUN_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(node.run(f"systemctl status {WATCH_TIMER} {WATCH_UNIT}; cat {METRICS}"))
        time.sleep(1)


def condition(lab: Lab, node: Node) -> tuple[str, str]:
    """Return the status and the message of the Node's condition; "" where it has none."""
    conditions = lab.control_plane.get(f"/api/v1/nodes/{node.name}")["status"]["conditions"]
    found = [each for each in conditions if each["type"] == CONDITION]
    return (found[0]["status"], found[0]["message"]) if found else ("", "")


@pytest.mark.long
def test_freshly_provisioned_node_is_as_planned(lab, watched):
    assert drift(watched) == {}, "the metrics are there when the maintenance ends"
    assert "NaN" not in watched.run(f"grep -v '^#' {METRICS}")
    assert watched.run(f"systemctl is-enabled {WATCH_TIMER}").strip() == "enabled"
    assert watched.run(f"systemctl is-active {WATCH_TIMER}").strip() == "active"
    watched.run(f"systemd-analyze verify /etc/systemd/system/{WATCH_TIMER}")
    within_a_period(watched, lambda: condition(lab, watched) == ("False", "as planned"))


@pytest.mark.long
@cases(
    "edit, back, what",
    {
        "one pool": (f"echo 63 > {POOL}", f"echo 64 > {POOL}", "hugepages:2Mi on NUMA node 2"),
        "one governor": (f"echo powersave > {GOVERNOR}", f"echo performance > {GOVERNOR}", "governor"),
    },
)
def test_hand_edit_is_reported_within_a_timer_period_and_clears(lab, watched, edit, back, what):
    watched.run(edit)
    try:
        within_a_period(watched, lambda: drift(watched) == {what: "1"})
        within_a_period(watched, lambda: condition(lab, watched) == ("True", f"not as planned: {what}"))
        said = watched.run(f"journalctl --unit={WATCH_UNIT} --output=cat --lines=20")
        assert re.search(
            r"^/sys/devices/system/.*: (63|powersave), planned (64|performance)$", said, re.MULTILINE
        )
    finally:
        watched.run(back)
    within_a_period(watched, lambda: drift(watched) == {})
    within_a_period(watched, lambda: condition(lab, watched) == ("False", "as planned"))


@pytest.mark.long
def test_reserved_cpu_pressure_is_reported_when_kernel_has_it(watched):
    said = watched.run(f"cat {METRICS}")
    has_pressure = watched.try_run("cat /sys/fs/cgroup/system.slice/cpu.pressure").returncode == 0
    assert ("numaforge_reserved_cpu_pressure_seconds_total{" in said) is has_pressure
    assert ('what="reserved_cpu_pressure"' in said) is not has_pressure


@pytest.mark.long
def test_plan_without_a_watch_leaves_no_metric_and_no_condition(lab, watched):
    site(watched, profile())
    try:
        units = f"/etc/systemd/system/{WATCH_TIMER} /etc/systemd/system/{WATCH_UNIT}"
        left = watched.run(f"ls {METRICS} {WATCH_SCRIPT_PATH} {units} 2> /dev/null || true")
        assert left == ""
        assert watched.run(f"systemctl is-active {WATCH_TIMER} || true").strip() == "inactive"
        assert condition(lab, watched) == ("", "")
    finally:
        site(watched, {**profile(), "watch": {"enabled": True}})
