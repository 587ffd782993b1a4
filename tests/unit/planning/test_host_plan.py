"""What is decided about the userland, and what is refused."""

import re
from dataclasses import replace
from typing import Any

import pytest

from numaforge.change.goal import Goal
from numaforge.change.look import question
from numaforge.change.need import need
from numaforge.lib.errors import NumaforgeError, PlanError
from numaforge.machine.topology.model import HostProcess, InstalledPackage, NodeTopology, Userland
from numaforge.node.bundle import FileState
from numaforge.node.part import NodeState
from numaforge.planning.document import dumps
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile
from numaforge.planning.render import render_plan, role_files
from numaforge.roles.host.files import PAM_LIMITS_PATH, SWAP_PATH, UPGRADES_PATH, limits_path, no_swap_path
from numaforge.roles.host.plan import HostPlan, upgrade_patterns
from numaforge.verification.table import entries
from tests.fixtures.machines import kubeadm_kubelet, lab_node

APT = Userland(
    processes=(HostProcess("containerd", "containerd.service"), HostProcess("kubelet", "kubelet.service")),
    services=(),
    package_manager="apt",
    can_hold=True,
    packages=(
        InstalledPackage("kubelet", "1.36.3-1.1", "kubelet", held=False),
        InstalledPackage("linux-image-amd64", "6.1.124-1", "kernel", held=True),
    ),
    swap_units=("dev-sda2.swap", "zramswap.service"),
)


def machine(userland: Userland | None = APT, **fields: Any) -> NodeTopology:
    fields = {"sysctls": {"fs.nr_open": "1048576"}, **fields}
    return replace(lab_node(), kubelet=kubeadm_kubelet(), userland=userland, **fields)


def planned(host: Any = None, built: NodeTopology | None = None, **more: Any) -> NodePlan:
    return plan_node(built or machine(), load_profile({"name": "t", "host": host or {}, **more}))


def texts(plan: NodePlan) -> dict[str, list[str]]:
    return {path: text.splitlines()[1:] for path, text in render_plan(plan).items()}


def test_empty_host_section_changes_nothing():
    plan = planned()
    assert plan.host == HostPlan(package_manager="apt")
    assert [file.path for file in plan.files if file.role == "host"] == []
    assert [each for each in plan.decisions if each.subject.startswith("host.")] == []


def test_limits_are_written_for_logins_and_existing_units():
    files = texts(planned({"limits": {"nofile": 1048576, "stack": "64Mi", "memlock": "unlimited"}}))
    assert files[PAM_LIMITS_PATH][1:] == [
        *("* - memlock unlimited", "root - memlock unlimited", "* - nofile 1048576", "root - nofile 1048576"),
        *("* - stack 65536", "root - stack 65536"),
    ]
    for unit in ("containerd.service", "kubelet.service"):
        assert files[limits_path(unit)] == ["[Service]", "LimitNOFILE=1048576", "LimitSTACK=67108864"]
    assert limits_path("crio.service") not in files


def test_login_only_limit_writes_no_unit_file():
    assert limits_path("kubelet.service") not in texts(planned({"limits": {"memlock": "unlimited"}}))


LIMITS = {
    "more than the kernel allows": ({"nofile": 1048577}, "1048577 open files, and the kernel"),
    "open files without a limit, that lock out logins": ({"nofile": "unlimited"}, "nofile"),
    "negative": ({"stack": "-1"}, "stack"),
    "no quantity": ({"stack": "big"}, "not a Kubernetes quantity"),
    "a limit that is not set here": ({"nice": 1}, "unknown key"),
}


@pytest.mark.parametrize(("limits", "message"), LIMITS.values(), ids=LIMITS)
def test_impossible_limit_is_refused(limits, message):
    with pytest.raises(NumaforgeError, match=re.escape(message)):
        planned({"limits": limits})


def test_installed_packages_are_held_even_when_held_by_the_admin():
    plan = planned({"hold_packages": ["kernel", "kubelet"]})
    assert plan.host.holds == ("kubelet", "linux-image-amd64")
    assert '    "linux-image-";' in texts(plan)[UPGRADES_PATH]


def test_missing_package_to_hold_is_noticed():
    plan = planned({"hold_packages": ["driver"]})
    assert [each.id for each in plan.notices if each.id == "nothing-to-hold"] == ["nothing-to-hold"]


@pytest.mark.parametrize(
    ("userland", "message"),
    [
        pytest.param(
            replace(APT, package_manager="dnf", can_hold=False), "versionlock", id="dnf without its plugin"
        ),
        pytest.param(replace(APT, package_manager=None, can_hold=False), "package manager", id="no manager"),
        pytest.param(None, "package manager", id="a snapshot without a look at it"),
    ],
)
def test_host_without_package_holds_is_noticed_and_left_alone(userland, message):
    plan = planned({"hold_packages": ["kernel"]}, machine(userland))
    assert (plan.host.holds, plan.host.hold_kinds) == ((), ())
    assert UPGRADES_PATH not in texts(plan)
    (notice,) = (each for each in plan.notices if each.id == "cannot-hold")
    assert message in notice.message


def test_held_packages_match_the_unattended_upgrades_patterns():
    patterns = upgrade_patterns(HostPlan(hold_kinds=("kernel", "driver", "kubelet", "containerd")))
    skipped = [
        "linux-image-6.9-amd64",
        "linux-nvidia-generic",
        "nvidia-driver-580",
        "containerd.io",
        "kubelet",
    ]
    left = ["linux-libc-dev", "kubelet-extra", "containerdxio", "openssl"]
    assert [name for name in skipped + left if any(re.match(each, name) for each in patterns)] == skipped


def test_swap_stays_off_at_boot_for_every_swap_unit():
    files = texts(planned(tuning={"swap": "off"}))
    for path in (SWAP_PATH, no_swap_path("zramswap.service")):
        assert files[path] == ["[Unit]", "ConditionPathExists=!/etc/numaforge/plan.json"]
    assert no_swap_path("dev-sda2.swap") not in files


def test_cgroup_v1_is_refused_with_its_remedy():
    old = replace(machine(cgroup_version=1), kubelet=kubeadm_kubelet("1.34.0"))  # which runs on them
    with pytest.raises(PlanError, match="control groups of version 1") as refused:
        planned({"cgroup": "v2"}, old)
    assert "systemd.unified_cgroup_hierarchy=1" in (refused.value.remedy or "")


def test_cgroup_v2_due_at_next_boot_is_accepted():
    wish = {"cmdline": ["systemd.unified_cgroup_hierarchy=1"]}
    plan = planned(
        {"cgroup": "v2"}, machine(cgroup_version=1), kernel=wish, maintenance={"reboot": "allowed"}
    )
    assert plan.host.cgroup == 2


@pytest.mark.parametrize(("synchronised", "said"), [(False, 1), (True, 0), (None, 0)])
def test_unsynchronised_clock_is_noticed_but_not_refused(synchronised, said):
    plan = planned({"time_sync": "required"}, machine(replace(APT, clock_synchronised=synchronised)))
    assert plan.host.time_sync
    assert sum(each.id == "clock-not-synchronised" for each in plan.notices) == said


ALL: dict[str, Any] = {
    "host": {
        "limits": {"nofile": 65536},
        "hold_packages": ["kernel", "kubelet"],
        "time_sync": "required",
        "cgroup": "v2",
    },
    "tuning": {"swap": "off"},
}


def test_second_run_plans_the_same():
    first = planned(ALL["host"], machine(cgroup_version=2), tuning=ALL["tuning"])
    held = tuple(replace(each, held=True) for each in APT.packages or ())
    after = replace(
        machine(replace(APT, packages=held, swap_kept_off=True), cgroup_version=2), previous_plan=dumps(first)
    )
    assert planned(ALL["host"], after, tuning=ALL["tuning"]) == first


def test_verification_compares_the_host_with_the_plan():
    plan = planned(ALL["host"], machine(cgroup_version=2), tuning=ALL["tuning"])
    assert {*entries(plan, "package_is_held")} == {"kubelet", "linux-image-amd64"}
    assert {*entries(plan, "limit")} == {"containerd.service-LimitNOFILE"}
    assert entries(plan, "clock") == {"synchronised": "yes"}
    assert entries(plan, "control_groups") == {"v2": 2}
    assert entries(plan, "clock", ["topology", "tuning"]) == {}


# ---- what the node needs ----


def goal(plan: NodePlan, *roles: str) -> Goal:
    return Goal(plan, machine(), frozenset(roles or ("host",)))


def found(plan: NodePlan, *said: str) -> NodeState:
    files = [*role_files(plan, "topology"), *role_files(plan, "host")]
    states = {each.path: FileState(each.text, each.mode, each.owner, each.group) for each in files}
    return NodeState(states, (), said={"packages": said})


HOLDS = {
    "nothing is held": ((), "kubelet\nlinux-image-amd64\n", "", "kubelet\nlinux-image-amd64\n"),
    "what the admin holds is not ours": (("held linux-image-amd64",), "kubelet\n", "", "kubelet\n"),
    "what we held is still ours": (
        ("held linux-image-amd64", "ours linux-image-amd64"),
        "kubelet\n",
        "",
        "kubelet\nlinux-image-amd64\n",
    ),
    "what we held and is no longer wanted is let go": (
        ("held kubelet", "held linux-image-amd64", "held nvidia-driver", "ours nvidia-driver"),
        "",
        "nvidia-driver\n",
        "",
    ),
    "what someone let go before is forgotten": (
        ("held kubelet", "held linux-image-amd64", "ours nvidia-driver"),
        "",
        "",
        "",
    ),
    "all is held, and more": (("held kubelet", "held linux-image-amd64", "held htop"), None, "", ""),
}


@pytest.mark.parametrize(("said", "hold", "loose", "record"), HOLDS.values(), ids=HOLDS)
def test_missing_holds_are_added_and_only_own_holds_are_released(said, hold, loose, record):
    plan = planned({"hold_packages": ["kernel", "kubelet"]})
    transaction = need(goal(plan), found(plan, *said))
    if hold is None:
        assert transaction is None
        return
    (part,) = transaction.parts
    assert (part.name, part.drains, part.reboots) == ("packages", False, False)
    assert (part.data["hold"], part.data["loose"], part.data["record"]) == (hold, loose, record)


def test_other_roles_leave_packages_alone():
    plan = planned({"hold_packages": ["kernel", "kubelet"]})
    asked = question(goal(plan, "tuning"))
    assert [call for call in asked.calls if call[0] == "packages"] == []
    transaction = need(goal(plan, "tuning"), found(plan))
    assert "packages" not in [part.name for part in (transaction.parts if transaction else ())]
