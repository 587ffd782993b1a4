"""What the cluster is to say of a node after the roles that were called."""

from dataclasses import replace

import pytest

from numaforge.change.goal import Goal
from numaforge.machine.topology.model import NvidiaInstall
from numaforge.machine.topology.trays import BY_HOST, NOT_BY_HOST
from numaforge.planning.document import dumps
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile
from numaforge.roles.device_owners import DRA_DRIVER
from numaforge.rollout.gate import Expected
from numaforge.run.maintenance.target import Target
from tests.fixtures.machines import dgx_h100, gb200_nvl72_tray, kubeadm_kubelet
from tests.fixtures.tables import cases

LABELS = {"nvidia.com/device-plugin.config": "shared"}


def plan(**section: object) -> NodePlan:
    profile = load_profile({"name": "serve", **({"device_plugin": section} if section else {})})
    return plan_node(dgx_h100(), profile, "1.36.2")


def expected(planned: NodePlan, *roles: str) -> Expected:
    return Target(Goal(planned, dgx_h100(), frozenset(roles))).expected


def test_kubelet_role_expects_settings_allocatable_and_labels():
    planned = plan(time_slicing={"gpu": 4}, config="shared")
    found = expected(planned, "kubelet")
    assert planned.kubelet is not None
    assert (found.settings, found.labels, found.all_gpus) == (planned.kubelet.settings, LABELS, True)
    assert (found.allocatable["nvidia.com/gpu"], "cpu" in found.allocatable) == ("32", True)
    assert found.memory_bytes == dgx_h100().memory_bytes


def test_mig_role_alone_expects_devices_and_labels():
    found = expected(plan(time_slicing={"gpu": 4}, config="shared"), "mig")
    assert found == Expected({}, {"nvidia.com/gpu": "32"}, all_gpus=True, labels=LABELS)


@cases(
    "section, role, fixed",
    {
        "instances": ({"devices": {"1g": 7}}, "mig", True),
        "none-at-all": ({"mode": "disabled"}, "mig", True),
        "a-run-that-leaves-GPUs-alone": ({"devices": {"1g": 7}}, "kubelet", False),
        "a-profile-without-GPUs": (None, "mig", False),
    },
)
def test_fixed_gpu_partitioning_by_profile_and_role(section, role, fixed):
    profile = load_profile({"name": "a", "mig": {"gpus": [section] if section else []}})
    found = expected(plan_node(dgx_h100(), profile, "1.36.2"), role).devices
    assert (DRA_DRIVER.devices in found) is fixed


def test_profile_can_leave_gpu_partitioning_to_dra_driver():
    profile = load_profile({"name": "a", "mig": {"gpus": [{"mode": "enabled"}], "managed_by": "dra-driver"}})
    assert not expected(plan_node(dgx_h100(), profile, "1.36.2"), "mig").devices


@cases(
    "engine, state, roles, unpins",
    {
        "the-static-policy-ends": ("dra", '{"policyName": "static"}', ["kubelet"], True),
        "there-was-none": ("dra", '{"policyName": "none"}', ["kubelet"], False),
        "a-state-file-that-cannot-be-read": ("dra", "[", ["kubelet"], False),
        "it-stays": ("kubelet", '{"policyName": "static"}', ["kubelet"], False),
        "a-run-that-leaves-the-kubelet": ("dra", '{"policyName": "static"}', ["mig"], False),
    },
)
def test_pods_lose_exclusive_cpus_only_when_static_policy_ends(engine, state, roles, unpins):
    host = replace(dgx_h100(), kubelet=replace(kubeadm_kubelet(), state_files={"cpu_manager_state": state}))
    planned = plan_node(host, load_profile({"kubelet": {"resource_engine": engine}}), "1.36.2")
    assert Target(Goal(planned, host, frozenset(roles))).unpins is unpins


def test_deployed_plugin_owns_every_resource_with_its_prefix():
    section = {"per": "numa_node", "deployed": True, "resource_prefix": "rdma.example.com"}
    profile = load_profile({"name": "train", "rdma": {"device_plugin": section}})
    planned = plan_node(dgx_h100(), profile, "1.36.2")
    pools = {"rdma.example.com/numa0": "63", "rdma.example.com/numa1": "63"}
    assert expected(planned, "rdma") == Expected(
        {}, pools, labels=planned.labels, prefixes=("rdma.example.com/",)
    )


def test_previously_deployed_plugin_is_removed_from_node():
    section = {"per": "rail", "deployed": True}
    earlier = plan_node(dgx_h100(), load_profile({"name": "a", "rdma": {"device_plugin": section}}), "1.36.2")
    machine = replace(dgx_h100(), previous_plan=dumps(earlier))
    found = Target(
        Goal(plan_node(machine, load_profile({"name": "a"}), "1.36.2"), machine, frozenset({"kubelet"}))
    ).expected
    assert (found.labels, found.prefixes) == (dict.fromkeys(earlier.labels), ("rdma/",))


def test_suite_runs_only_where_a_plan_is_saved():
    planned = plan()
    goals = (Goal(each, dgx_h100(), frozenset()) for each in (planned, replace(planned, files=())))
    assert [Target(goal).saves_plan for goal in goals] == [True, False]


CONFIGURED = {"device_plugin": {"config": "shared"}}
REMOVED = {"name": "nothing", "kubelet": {"state": "absent"}}
POOLS = {"rdma": {"device_plugin": {"per": "rail", "deployed": True}}}


def after(earlier: dict[str, object], now: dict[str, object], *roles: str) -> Target:
    """Return the target of a host that another profile has been planned for before."""
    first = plan_node(dgx_h100(), load_profile({"name": "a", **earlier}), "1.36.2")
    machine = replace(dgx_h100(), previous_plan=dumps(first))
    return Target(
        Goal(plan_node(machine, load_profile({"name": "a", **now}), "1.36.2"), machine, frozenset(roles))
    )


def test_removal_expects_no_numaforge_label_or_pool():
    found = after({**POOLS, **CONFIGURED}, REMOVED, "kubelet", "rdma").expected
    assert found.labels == {"numaforge.io/rdma-pools": None}
    assert (found.prefixes, found.decides("rdma/rail0"), found.decides("nvidia.com/gpu")) == (
        ("rdma/",),
        True,
        False,
    )


@cases(
    "earlier, now, roles, said",
    {
        "one more": ({}, CONFIGURED, {"mig"}, ["becomes shared"]),
        "one less": (CONFIGURED, {}, {"kubelet"}, ["is put back"]),
        "the same": (CONFIGURED, CONFIGURED, {"kubelet"}, []),
        "no role that has to do with labels": (CONFIGURED, {}, {"tuning"}, []),
    },
)
def test_run_reports_what_happens_to_labels(earlier, now, roles, said):
    name = "the Node's label nvidia.com/device-plugin.config"
    assert after(earlier, now, *roles).relabelling == tuple(f"{name} {what}" for what in said)


def test_undeployed_plugin_expects_no_pools():
    profile = load_profile({"name": "train", "rdma": {"device_plugin": {"per": "rail"}}})
    assert expected(plan_node(dgx_h100(), profile, "1.36.2"), "rdma") == Expected(labels={})


def test_other_roles_change_nothing_visible_to_the_cluster():
    assert expected(plan(config="shared"), "tuning") == Expected()


@pytest.mark.parametrize(
    ("devices", "all_gpus"),
    [({}, False), ({"rdma/hca": 63}, False), ({"nvidia.com/mig-1g.10gb": 7}, True)],
    ids=["nothing is known of devices", "other plugins alone", "a geometry"],
)
def test_resource_set_is_checked_only_if_the_plan_lists_gpu_resources(devices, all_gpus):
    planned = plan()
    assert planned.allocatable is not None
    planned = replace(planned, allocatable=replace(planned.allocatable, devices=devices))
    assert expected(planned, "kubelet").all_gpus is all_gpus


@cases(
    "flags, login, joined",
    {
        "by-its-flag": (("--kubeconfig=/etc/k",), None, True),
        "by-a-login-that-is-there": ((), "/var/lib/rancher/k3s/agent/kubelet.kubeconfig", True),
        "neither": ((), None, False),
    },
)
def test_host_has_joined_when_its_kubelet_has_credentials(flags, login, joined):
    machine = replace(dgx_h100(), kubelet=replace(kubeadm_kubelet(), flags=flags, login=login))
    assert Target(Goal(plan(), machine, frozenset())).joined is joined


def test_tray_is_described_as_found_and_as_planned():
    built = gb200_nvl72_tray()
    tray = replace(
        built,
        gpus=tuple(replace(gpu, fabric="0011.7") for gpu in built.gpus),
        nvidia_install=NvidiaInstall(
            loaded="580.95.05", imex_service="enabled", imex_list="ab" * 32, compute_domains=False
        ),
    )
    wish = load_profile({"name": "a", "imex": {"mode": "driver-managed"}})
    now, then = Target(Goal(plan_node(tray, wish, "1.36.2"), tray, frozenset({"imex"}))).trays
    assert now is not None
    assert then is not None
    assert (now.clique, now.imex, now.nodes) == ("0011.7", BY_HOST, "ab" * 32)
    assert (then.clique, then.imex, then.nodes) == ("0011.7", NOT_BY_HOST, None)


def test_host_outside_a_rack_is_not_a_tray():
    assert Target(Goal(plan(), dgx_h100(), frozenset({"kubelet"}))).trays == (None, None)
