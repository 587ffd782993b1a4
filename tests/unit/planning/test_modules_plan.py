"""What is decided about kernel modules."""

from typing import Any

import pytest

from numaforge.planning.document import dumps, loads
from numaforge.planning.profiles import load_profile
from numaforge.planning.render import render_plan
from numaforge.roles.modules.plan import ModulesPlan, plan_modules
from tests.fixtures.machines import lab_node
from tests.fixtures.plans import planned, refusal
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)

MLX5 = ("mlx5_ib", "ib_uverbs", "ib_umad", "rdma_ucm", "rdma_cm")


def wished(section: dict[str, Any] | None = None, **host: Any) -> dict[str, Any]:
    """Return a profile with a section `modules` and with `rdma.host`."""
    return {"memory": {"system_reserved": "512Mi"}, "rdma": {"host": host}, "modules": section or {}}


PLANS = {
    "nothing-unless-asked": (wished(), ModulesPlan()),
    "the-set-for-mlx5": (wished(modules="mlx5"), ModulesPlan(MLX5)),
    "both-sections-each-module-once": (
        wished({"load": ["nvidia-peermem", "ib_umad"]}, modules=["ib_umad"]),
        ModulesPlan(("nvidia_peermem", "ib_umad")),
    ),
    "netns-shared": (wished(netns="shared"), ModulesPlan(options={"ib_core": ("netns_mode=1",)})),
    "netns-beside-other-options": (
        wished({"options": {"ib_core": ["recv_queue_size=512"]}}, netns="exclusive"),
        ModulesPlan(options={"ib_core": ("recv_queue_size=512", "netns_mode=0")}),
    ),
    "blocked": (wished({"blocked": ["nouveau"]}), ModulesPlan(blocked=("nouveau",))),
}


@pytest.mark.parametrize(("wish", "expected"), PLANS.values(), ids=PLANS)
def test_module_plan_per_profile(wish: dict[str, Any], expected: ModulesPlan) -> None:
    assert plan_modules(load_profile(wish)).value == expected


@cases("modules, host, message", CASES["refusals"])
def test_impossible_module_settings_are_refused(modules, host, message) -> None:
    assert message in refusal(lab_node(), **wished(modules, **host))


def test_module_files_match_the_plan() -> None:
    section = {"load": ["ib_umad"], "options": {"nvidia": ["a=1", "b=x"]}, "blocked": ["nouveau"]}
    plan = planned(lab_node(), **wished(section))
    texts = render_plan(plan)
    assert texts["/etc/modules-load.d/90-numaforge.conf"].splitlines()[1:] == ["ib_umad"]
    lines = ["options nvidia a=1 b=x", "blacklist nouveau", "install nouveau /bin/false"]
    assert texts["/etc/modprobe.d/90-numaforge.conf"].splitlines()[1:] == lines
    assert loads(dumps(plan)).modules == plan.modules


@pytest.mark.parametrize("reboot", ["never", "allowed"])
def test_notice_states_whether_the_node_reboots_for_modules(reboot: str) -> None:
    wish = load_profile({"modules": {"blocked": ["nouveau"]}, "maintenance": {"reboot": reboot}})
    (notice,) = plan_modules(wish).notices
    assert ("the node reboots for it" in notice.message) is (reboot == "allowed")
