"""Which other tool sets a node's devices, where the plan has numaforge set them."""

from dataclasses import replace

import pytest

from numaforge.roles.device_owners import CONFIG_MANAGER, DRA_DRIVER, MIG_MANAGER
from numaforge.rollout.labels import noted, to_set
from numaforge.rollout.owners import device_owner
from tests.fixtures.memory_cluster import workers
from tests.fixtures.rollout_world import NODE, pod

NODE_OBJECT = workers(1)[0]
CONFIG, PROFILE = "nvidia.com/mig.config", "dcm.amd.com/gpu-config-profile"
MANAGER = pod("manager", labels={**MIG_MANAGER.pod, "more": "yes"})
MIG = frozenset({MIG_MANAGER.devices, DRA_DRIVER.devices})
FIXED, AMD = frozenset({DRA_DRIVER.devices}), frozenset({CONFIG_MANAGER.devices})
BY_MANAGER, BY_CONFIG_MANAGER, BY_DRIVER = (
    each.message for each in (MIG_MANAGER, CONFIG_MANAGER, DRA_DRIVER)
)


@pytest.mark.parametrize(
    ("own", "labels", "pods", "cut", "owner"),
    [
        pytest.param(MIG, {CONFIG: "all-disabled"}, [MANAGER], (), BY_MANAGER, id="a-config-and-its-manager"),
        pytest.param(MIG, {CONFIG: "all-1g.10gb"}, [MANAGER], (), BY_MANAGER, id="any-value"),
        pytest.param(MIG, {CONFIG: ""}, [MANAGER], (), None, id="an-empty-value"),
        pytest.param(MIG, {}, [MANAGER], (), None, id="a-manager-without-a-config"),
        pytest.param(MIG, {CONFIG: "a"}, [pod("web")], (), None, id="a-config-without-a-manager"),
        pytest.param(
            MIG, {CONFIG: "a"}, [replace(MANAGER, phase="Failed")], (), None, id="a-manager-that-has-ended"
        ),
        pytest.param(
            MIG,
            {CONFIG: "a"},
            [replace(MANAGER, phase="Pending")],
            (),
            BY_MANAGER,
            id="a-manager-that-starts",
        ),
        pytest.param(FIXED, {CONFIG: "a"}, [MANAGER], (), None, id="the-manager-is-handed-the-geometry"),
        pytest.param(FIXED, {}, [], [NODE], BY_DRIVER, id="the-driver-cuts-what-has-one-geometry"),
        pytest.param(MIG, {}, [], ["another"], None, id="the-driver-cuts-another-node"),
        pytest.param(frozenset(), {CONFIG: "a"}, [MANAGER], [NODE], None, id="a-plan-without-mig"),
        pytest.param(AMD, {PROFILE: "cpx"}, [], (), BY_CONFIG_MANAGER, id="amds-manager"),
        pytest.param(AMD, {CONFIG: "a"}, [MANAGER], [NODE], None, id="another-makers-gpus"),
    ],
)
def test_device_owner_is_decided_by_evidence(own, labels, pods, cut, owner):
    node = replace(NODE_OBJECT, labels={**NODE_OBJECT.labels, **labels})
    assert device_owner(node, own, {}, pods=lambda: pods, cut_by_driver=lambda: cut) == owner


def test_removed_label_of_numaforge_does_not_belong_to_another_tool():
    known = noted(NODE_OBJECT, {CONFIG: "ours"}, {})
    ours = replace(NODE_OBJECT, labels={**NODE_OBJECT.labels, CONFIG: "ours"})
    edited = replace(ours, labels={**ours.labels, CONFIG: "theirs"})
    for node, owner in ((ours, None), (edited, BY_MANAGER)):
        changes = to_set(node, {}, known)
        assert device_owner(node, MIG, changes, pods=lambda: [MANAGER], cut_by_driver=tuple) == owner


def test_owner_lookup_skips_unneeded_cluster_requests():
    def unasked() -> list[str]:
        raise AssertionError

    assert device_owner(NODE_OBJECT, MIG, {}, pods=unasked, cut_by_driver=tuple) is None
    assert device_owner(NODE_OBJECT, AMD, {}, pods=unasked, cut_by_driver=unasked) is None
