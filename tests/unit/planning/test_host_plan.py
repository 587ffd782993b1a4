"""What is decided about the userland, and what is refused."""

import re
from dataclasses import replace
from typing import Any

import pytest

from numaforge.change.goal import Goal
from numaforge.change.look import question
from numaforge.change.need import need
from numaforge.machine.topology.model import HostProcess, InstalledPackage, NodeTopology, Userland
from numaforge.node.bundle import FileState
from numaforge.node.part import NodeState
from numaforge.planning.plan import NodePlan
from numaforge.planning.render import render_plan, role_files
from numaforge.roles.host.files import PAM_LIMITS_PATH, SWAP_PATH, UPGRADES_PATH, limits_path, no_swap_path
from numaforge.roles.host.plan import HostPlan, upgrade_patterns
from numaforge.verification.table import entries
from tests.fixtures.machines import kubeadm_kubelet, lab_node
from tests.fixtures.plans import after, notices, planned, refusal

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


def plan_for(host: Any = None, built: NodeTopology | None = None, **more: Any) -> NodePlan:
    return planned(built or machine(), host=host or {}, **more)


def texts(plan: NodePlan) -> dict[str, list[str]]:
    return {path: text.splitlines()[1:] for path, text in render_plan(plan).items()}


def test_empty_host_section_changes_nothing():
    plan = plan_for()
    assert plan.host == HostPlan(package_manager="apt")
    assert [file.path for file in plan.files if file.role == "host"] == []
    assert [each for each in plan.decisions if each.subject.startswith("host.")] == []


def test_limits_are_written_for_logins_and_existing_units():
    files = texts(plan_for({"limits": {"nofile": 1048576, "stack": "64Mi", "memlock": "unlimited"}}))
    assert files[PAM_LIMITS_PATH][1:] == [
        *("* - memlock unlimited", "root - memlock unlimited", "* - nofile 1048576", "root - nofile 1048576"),
        *("* - stack 65536", "root - stack 65536"),
    ]
    for unit in ("containerd.service", "kubelet.service"):
        assert files[limits_path(unit)] == ["[Service]", "LimitNOFILE=1048576", "LimitSTACK=67108864"]
    assert limits_path("crio.service") not in files


def test_login_only_limit_writes_no_unit_file():
    assert limits_path("kubelet.service") not in texts(plan_for({"limits": {"memlock": "unlimited"}}))


LIMITS = {
    "more than the kernel allows": ({"nofile": 1048577}, "1048577 open files, and the kernel"),
    "open files without a limit, that lock out logins": ({"nofile": "unlimited"}, "nofile"),
    "negative": ({"stack": "-1"}, "stack"),
    "no quantity": ({"stack": "big"}, "not a Kubernetes quantity"),
    "a limit that is not set here": ({"nice": 1}, "unknown key"),
}


@pytest.mark.parametrize(("limits", "message"), LIMITS.values(), ids=LIMITS)
def test_impossible_limit_is_refused(limits, message):
    assert message in refusal(machine(), host={"limits": limits})


def test_installed_packages_are_held_even_when_held_by_the_admin():
    plan = plan_for({"hold_packages": ["kernel", "kubelet"]})
    assert plan.host.holds == ("kubelet", "linux-image-amd64")
    assert '    "linux-image-";' in texts(plan)[UPGRADES_PATH]


CANNOT_HOLD = {
    "dnf without its plugin": (replace(APT, package_manager="dnf", can_hold=False), "versionlock"),
    "no manager": (replace(APT, package_manager=None, can_hold=False), "package manager"),
    "a snapshot without a look at it": (None, "package manager"),
}


@pytest.mark.parametrize(("userland", "message"), CANNOT_HOLD.values(), ids=CANNOT_HOLD)
def test_host_without_package_holds_is_noticed_and_left_alone(userland, message):
    plan = plan_for({"hold_packages": ["kernel"]}, machine(userland))
    assert (plan.host.holds, plan.host.hold_kinds) == ((), ())
    assert UPGRADES_PATH not in texts(plan)
    assert message in notices(plan)["cannot-hold"]


def test_missing_package_to_hold_is_noticed():
    assert "nothing-to-hold" in notices(plan_for({"hold_packages": ["driver"]}))


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
    files = texts(plan_for(tuning={"swap": "off"}))
    for path in (SWAP_PATH, no_swap_path("zramswap.service")):
        assert files[path] == ["[Unit]", "ConditionPathExists=!/etc/numaforge/plan.json"]
    assert no_swap_path("dev-sda2.swap") not in files


def test_cgroup_v1_is_refused_until_the_boot_that_ends_it():
    old = replace(machine(cgroup_version=1), kubelet=kubeadm_kubelet("1.34.0"))  # which runs on them
    message = refusal(old, host={"cgroup": "v2"})
    assert "control groups of version 1" in message
    assert "systemd.unified_cgroup_hierarchy=1" in message
    kernel = {"cmdline": ["systemd.unified_cgroup_hierarchy=1"]}
    booted = {"kernel": kernel, "maintenance": {"reboot": "allowed"}}
    assert plan_for({"cgroup": "v2"}, machine(cgroup_version=1), **booted).host.cgroup == 2


@pytest.mark.parametrize(("synchronised", "said"), [(False, True), (True, False), (None, False)])
def test_unsynchronised_clock_is_noticed_but_not_refused(synchronised, said):
    plan = plan_for({"time_sync": "required"}, machine(replace(APT, clock_synchronised=synchronised)))
    assert plan.host.time_sync
    assert ("clock-not-synchronised" in notices(plan)) is said


ALL: dict[str, Any] = {
    "limits": {"nofile": 65536},
    "hold_packages": ["kernel", "kubelet"],
    "time_sync": "required",
    "cgroup": "v2",
}


def test_second_run_plans_the_same():
    first = plan_for(ALL, machine(cgroup_version=2), tuning={"swap": "off"})
    held = tuple(replace(each, held=True) for each in APT.packages or ())
    again = after(machine(replace(APT, packages=held, swap_kept_off=True), cgroup_version=2), first)
    assert plan_for(ALL, again, tuning={"swap": "off"}) == first


def test_verification_compares_the_host_with_the_plan():
    plan = plan_for(ALL, machine(cgroup_version=2), tuning={"swap": "off"})
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
    "nothing is held": ((), "kubelet linux-image-amd64", "", "kubelet linux-image-amd64"),
    "what the admin holds is not ours": (("held linux-image-amd64",), "kubelet", "", "kubelet"),
    "what we held is still ours": (
        ("held linux-image-amd64", "ours linux-image-amd64"),
        "kubelet",
        "",
        "kubelet linux-image-amd64",
    ),
    "what we held and is no longer wanted is let go": (
        ("held kubelet", "held linux-image-amd64", "held nvidia-driver", "ours nvidia-driver"),
        "",
        "nvidia-driver",
        "",
    ),
    "what someone let go before is forgotten": (
        ("held kubelet", "held linux-image-amd64", "ours nvidia-driver"),
        "",
        "",
        "",
    ),
}


@pytest.mark.parametrize(("said", "hold", "loose", "record"), HOLDS.values(), ids=HOLDS)
def test_missing_holds_are_added_and_only_own_holds_are_released(said, hold, loose, record):
    plan = plan_for({"hold_packages": ["kernel", "kubelet"]})
    (part,) = need(goal(plan), found(plan, *said)).parts
    assert (part.name, part.drains, part.reboots) == ("packages", False, False)
    lines = [" ".join(part.data[name].split()) for name in ("hold", "loose", "record")]
    assert lines == [hold, loose, record]


def test_no_change_is_needed_where_all_is_held_and_more():
    plan = plan_for({"hold_packages": ["kernel", "kubelet"]})
    said = ("held kubelet", "held linux-image-amd64", "held htop")
    assert need(goal(plan), found(plan, *said)) is None


def test_other_roles_leave_packages_alone():
    plan = plan_for({"hold_packages": ["kernel", "kubelet"]})
    asked = question(goal(plan, "tuning"))
    assert [call for call in asked.calls if call[0] == "packages"] == []
    transaction = need(goal(plan, "tuning"), found(plan))
    assert "packages" not in [part.name for part in (transaction.parts if transaction else ())]
