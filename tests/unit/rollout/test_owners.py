"""Which other tool sets a node's devices, where the plan has numaforge set them."""

from dataclasses import replace

from numaforge.roles.device_owners import CONFIG_MANAGER, DRA_DRIVER, MIG_MANAGER
from numaforge.rollout.labels import noted, to_set
from numaforge.rollout.owners import device_owner
from tests.fixtures.memory_cluster import workers
from tests.fixtures.rollout_world import NODE, pod
from tests.fixtures.tables import cases

NODE_OBJECT = workers(1)[0]
CONFIG, PROFILE = "nvidia.com/mig.config", "dcm.amd.com/gpu-config-profile"
MANAGER = pod("manager", labels={**MIG_MANAGER.pod, "more": "yes"})
MIG = frozenset({MIG_MANAGER.devices, DRA_DRIVER.devices})
FIXED, AMD = frozenset({DRA_DRIVER.devices}), frozenset({CONFIG_MANAGER.devices})
BY_MANAGER, BY_CONFIG_MANAGER, BY_DRIVER = (
    each.message for each in (MIG_MANAGER, CONFIG_MANAGER, DRA_DRIVER)
)


@cases(
    "own, labels, pods, cut, owner",
    {
        "a-config-and-its-manager": (MIG, {CONFIG: "all-disabled"}, [MANAGER], (), BY_MANAGER),
        "any-value": (MIG, {CONFIG: "all-1g.10gb"}, [MANAGER], (), BY_MANAGER),
        "an-empty-value": (MIG, {CONFIG: ""}, [MANAGER], (), None),
        "a-manager-without-a-config": (MIG, {}, [MANAGER], (), None),
        "a-config-without-a-manager": (MIG, {CONFIG: "a"}, [pod("web")], (), None),
        "a-manager-that-has-ended": (MIG, {CONFIG: "a"}, [replace(MANAGER, phase="Failed")], (), None),
        "a-manager-that-starts": (MIG, {CONFIG: "a"}, [replace(MANAGER, phase="Pending")], (), BY_MANAGER),
        "the-manager-is-handed-the-geometry": (FIXED, {CONFIG: "a"}, [MANAGER], (), None),
        "the-driver-cuts-what-has-one-geometry": (FIXED, {}, [], [NODE], BY_DRIVER),
        "the-driver-cuts-another-node": (MIG, {}, [], ["another"], None),
        "a-plan-without-mig": (frozenset(), {CONFIG: "a"}, [MANAGER], [NODE], None),
        "amds-manager": (AMD, {PROFILE: "cpx"}, [], (), BY_CONFIG_MANAGER),
        "another-makers-gpus": (AMD, {CONFIG: "a"}, [MANAGER], [NODE], None),
    },
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
