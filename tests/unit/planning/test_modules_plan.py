"""What is decided about kernel modules."""

from typing import Any

import pytest

from numaforge.lib.errors import NumaforgeError
from numaforge.planning.document import dumps, loads
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.planning.render import render_plan
from numaforge.roles.modules.plan import ModulesPlan, plan_modules
from tests.fixtures.machines import lab_node

MLX5 = ("mlx5_ib", "ib_uverbs", "ib_umad", "rdma_ucm", "rdma_cm")


def profile(section: dict[str, Any] | None = None, **host: Any) -> Any:
    """Return a profile with a section `modules` and with `rdma.host`."""
    wish = {"name": "t", "memory": {"system_reserved": "512Mi"}, "rdma": {"host": host}}
    return load_profile({**wish, "modules": section or {}})


PLANS = {
    "nothing-unless-asked": (profile(), ModulesPlan()),
    "the-set-for-mlx5": (profile(modules="mlx5"), ModulesPlan(MLX5)),
    "both-sections-each-module-once": (
        profile({"load": ["nvidia-peermem", "ib_umad"]}, modules=["ib_umad"]),
        ModulesPlan(("nvidia_peermem", "ib_umad")),
    ),
    "netns-shared": (profile(netns="shared"), ModulesPlan(options={"ib_core": ("netns_mode=1",)})),
    "netns-beside-other-options": (
        profile({"options": {"ib_core": ["recv_queue_size=512"]}}, netns="exclusive"),
        ModulesPlan(options={"ib_core": ("recv_queue_size=512", "netns_mode=0")}),
    ),
    "blocked": (profile({"blocked": ["nouveau"]}), ModulesPlan(blocked=("nouveau",))),
}


@pytest.mark.parametrize(("wish", "planned"), PLANS.values(), ids=PLANS)
def test_module_plan_per_profile(wish: Any, planned: ModulesPlan) -> None:
    assert plan_modules(wish).value == planned


REFUSALS = {
    "a-space": ({"load": ["ib umad"]}, {}, "'ib umad' is not the name of a kernel module"),
    "a-path": ({"load": ["/bin/sh"]}, {}, "not the name of a kernel module"),
    "quotes": ({"options": {"nvidia": ['a="b c"']}}, {}, "not an option of a module"),
    "said-twice": ({"options": {"nvidia": ["a=1", "a=2"]}}, {}, "has a more than once"),
    "both": ({"load": ["nouveau"], "blocked": ["nouveau"]}, {}, "blocks nouveau and asks for it"),
    "rdma-needs-it": ({"blocked": ["ib_umad"]}, {"modules": "mlx5"}, "which rdma.host needs"),
    "two-modes": (
        {"options": {"ib_core": ["netns_mode=0"]}},
        {"netns": "shared"},
        "has netns_mode=0, and rdma.host.netns shared is netns_mode=1",
    ),
    "no-such-set": ({}, {"modules": "mlx4"}, "mlx5"),
    "no-power-of-two": ({}, {"max_read_request": 3000}, "4096"),
    "no-such-priority": ({}, {"pfc": [8]}, "7"),
    "a-priority-twice": ({}, {"pfc": [3, 3]}, "more than once"),
    "not-a-name": ({}, {"nics": ["mlx5_0; reboot"]}, "is not a NIC"),
}


@pytest.mark.parametrize(("modules", "host", "message"), REFUSALS.values(), ids=REFUSALS)
def test_impossible_module_settings_are_refused(
    modules: dict[str, Any], host: dict[str, Any], message: str
) -> None:
    with pytest.raises(NumaforgeError, match=message):
        plan_node(lab_node(), profile(modules, **host))


def test_module_files_match_the_plan() -> None:
    plan = plan_node(
        lab_node(),
        profile({"load": ["ib_umad"], "options": {"nvidia": ["a=1", "b=x"]}, "blocked": ["nouveau"]}),
    )
    texts = render_plan(plan)
    assert texts["/etc/modules-load.d/90-numaforge.conf"].splitlines()[1:] == ["ib_umad"]
    assert texts["/etc/modprobe.d/90-numaforge.conf"].splitlines()[1:] == [
        "options nvidia a=1 b=x",
        "blacklist nouveau",
        "install nouveau /bin/false",
    ]
    assert loads(dumps(plan)).modules == plan.modules


@pytest.mark.parametrize("reboot", ["never", "allowed"])
def test_notice_states_whether_the_node_reboots_for_modules(reboot: str) -> None:
    wish = load_profile({"modules": {"blocked": ["nouveau"]}, "maintenance": {"reboot": reboot}})
    (notice,) = plan_modules(wish).notices
    assert ("the node reboots for it" in notice.message) is (reboot == "allowed")
