"""What the cluster is to say of a node after the roles that were called."""

from __future__ import annotations

from dataclasses import replace

import pytest

from numaforge.node.part import Goal
from numaforge.planning.model import NodePlan
from numaforge.planning.node import plan_node
from numaforge.profile import load_profile
from numaforge.rollout.gate import Expected
from roles.maintenance.target import Target
from tests.fixtures.machines import dgx_h100

LABELS = {"nvidia.com/device-plugin.config": "shared"}


def plan(**section: object) -> NodePlan:
    profile = load_profile({"name": "serve", **({"device_plugin": section} if section else {})})
    return plan_node(dgx_h100(), profile, "1.36.2")


def expected(planned: NodePlan, *roles: str) -> Expected:
    return Target(Goal(planned, dgx_h100(), frozenset(roles))).expected


def test_the_kubelet_s_role_brings_settings_allocatable_and_labels():
    planned = plan(time_slicing={"gpu": 4}, config="shared")
    found = expected(planned, "kubelet")
    assert planned.kubelet is not None
    assert (found.settings, found.labels, found.all_gpus) == (planned.kubelet.settings, LABELS, True)
    assert (found.allocatable["nvidia.com/gpu"], "cpu" in found.allocatable) == ("32", True)


def test_the_role_mig_alone_brings_devices_and_labels():
    found = expected(plan(time_slicing={"gpu": 4}, config="shared"), "mig")
    assert found == Expected({}, {"nvidia.com/gpu": "32"}, all_gpus=True, labels=LABELS)


def test_other_roles_bring_nothing_that_the_cluster_sees():
    assert expected(plan(config="shared"), "tuning") == Expected()


@pytest.mark.parametrize(
    ("devices", "all_gpus"),
    [({}, False), ({"rdma/hca": 63}, False), ({"nvidia.com/mig-1g.10gb": 7}, True)],
    ids=["nothing is known of devices", "other plugins alone", "a geometry"],
)
def test_the_set_of_resources_is_held_to_a_plan_that_knows_it(devices, all_gpus):
    planned = plan()
    assert planned.allocatable is not None
    planned = replace(planned, allocatable=replace(planned.allocatable, devices=devices))
    assert expected(planned, "kubelet").all_gpus is all_gpus
