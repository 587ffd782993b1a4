"""What is written for the operators of NVIDIA and AMD, at a real API server with the operators' own schemas.

NUMAFORGE_CHECKOUTS names a folder with checkouts of their repositories, OWNER/NAME as GitHub has them. Of
these objects shared/crds has some, which tests/lab/test_schedulers.py tries.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.kwok import Fleet
from numaforge.cluster.schedulers.fleet import ServedNode
from numaforge.cluster.schedulers.systems import generate
from tests.lab.definitions import REQUIRED_OF_CLUSTER_POLICY, serve
from tests.unit.cluster.schedulers.served import (
    BY_CLAIMS,
    CPX,
    HANDED,
    HOST_DRIVER,
    OPERATORS_DRIVER,
    TRAINING,
    served,
    with_amdgpu,
)

CHECKOUTS = os.environ.get("NUMAFORGE_CHECKOUTS")
pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        not CHECKOUTS, reason="NUMAFORGE_CHECKOUTS names no folder with the operators' repositories"
    ),
]
DEFINITIONS = {
    "ROCm/gpu-operator": ("amd.com_deviceconfigs",),
    "Mellanox/network-operator": ("mellanox.com_nicclusterpolicies", "mellanox.com_nicnodepolicies"),
    "NVIDIA/gpu-operator": ("nvidia.com_clusterpolicies",),
}
PATHS = {
    "DeviceConfig": "/apis/amd.com/v1alpha1/namespaces/kube-amd-gpu/deviceconfigs",
    "NicClusterPolicy": "/apis/mellanox.com/v1alpha1/nicclusterpolicies",
    "NicNodePolicy": "/apis/mellanox.com/v1alpha1/nicnodepolicies",
    "ClusterPolicy": "/apis/nvidia.com/v1/clusterpolicies",
}
TAINT = {"register_with_taints": ["numaforge.io/unverified:NoSchedule"]}
RAILS = {"rdma": {"device_plugin": {"per": "rail", "deployed": True}, "host": {"netns": "shared"}}}
PER_NODE = {"rdma": {"device_plugin": {"per": "numa_node", "deployed": True}, "host": {"netns": "shared"}}}
SHARED = {"device_plugin": {"mps": {"nvidia.com/gpu": 4}, "config": "shared"}}


def elsewhere(node: ServedNode) -> ServedNode:
    """Return a node whose kubelet has another --root-dir."""
    assert node.plan.kubelet is not None
    return replace(node, plan=replace(node.plan, kubelet=replace(node.plan.kubelet, root_dir="/srv/kubelet")))


FLEETS: Mapping[str, tuple[str, Callable[[], list[ServedNode]]]] = {
    "whole GPUs of AMD's": ("amd-gpu-operator", lambda: [with_amdgpu("mi300x", TRAINING)]),
    "GPUs of AMD's that no driver has": ("amd-gpu-operator", lambda: [served("mi300x", TRAINING)]),
    "partitions that the config manager makes": (
        "amd-gpu-operator",
        lambda: [with_amdgpu("mi300x", {**CPX, "kubelet": TAINT})],
    ),
    "GPUs of AMD's by claims, elsewhere": (
        "amd-gpu-operator",
        lambda: [
            elsewhere(with_amdgpu("mi300x", {**BY_CLAIMS, "kubelet": {**BY_CLAIMS["kubelet"], **TAINT}}))
        ],
    ),
    "one policy for all NICs": (
        "network-operator",
        lambda: [served("dgx-h100", {"extends": TRAINING, **RAILS, "kubelet": TAINT})],
    ),
    "a policy for each kind of node": (
        "network-operator",
        lambda: [
            served("dgx-h100", {"extends": TRAINING, **RAILS}),
            served("hgx-b200", {"extends": TRAINING, **PER_NODE}),
        ],
    ),
    "GPUs whose driver is the host's": (
        "gpu-operator",
        lambda: [served("dgx-h100", {"extends": TRAINING, "kubelet": TAINT}, nvidia_install=HOST_DRIVER)],
    ),
    "GPUs that are cut and shared, elsewhere": (
        "gpu-operator",
        lambda: [
            elsewhere(served("dgx-h100", HANDED, nvidia_install=OPERATORS_DRIVER)),
            elsewhere(served("hgx-b200", {"extends": TRAINING, **SHARED}, nvidia_install=HOST_DRIVER)),
        ],
    ),
    "GPUs by claims": ("gpu-operator", lambda: [served("dgx-h100", BY_CLAIMS, nvidia_install=HOST_DRIVER)]),
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("operators")) as fleet:
        files = [
            Path(str(CHECKOUTS)) / repository / f"config/crd/bases/{name}.yaml"
            for repository, names in DEFINITIONS.items()
            for name in names
        ]
        serve(fleet, *(each for file in files for each in yaml.safe_load_all(file.read_text()) if each))
        for namespace in ("gpu-operator", "kube-amd-gpu"):
            fleet.kubectl("create", "namespace", namespace)
        yield fleet


@pytest.mark.parametrize("name", FLEETS)
def test_operator_schema_keeps_every_field(name: str, fleet: Fleet, tmp_path: Path) -> None:
    system, nodes = FLEETS[name]
    [folder] = generate(nodes(), [system])
    policies = [policy_of(each) for each in folder.compared() if each["kind"] == "ClusterPolicy"]
    written = [*(each for file in folder.files for each in file.documents), *policies]
    (tmp_path / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": written}))
    strict = ("apply", "--server-side", "--force-conflicts", "--validate=strict")
    applied = fleet.kubectl(*strict, "-f", str(tmp_path / "all.json"))
    assert applied.returncode == 0, applied.stderr
    own = [each for each in written if each["kind"] in PATHS]
    assert own
    for each in own:
        live = fleet.get(f"{PATHS[each['kind']]}/{each['metadata']['name']}")
        assert list(lacking(each["spec"], live["spec"], each["kind"])) == []


def test_unknown_operator_field_is_refused(fleet: Fleet, tmp_path: Path) -> None:
    [folder] = generate([with_amdgpu("mi300x", TRAINING)], ["amd-gpu-operator"])
    [config] = [each for file in folder.files for each in file.documents if each["kind"] == "DeviceConfig"]
    (tmp_path / "wrong.json").write_text(json.dumps({**config, "spec": {**config["spec"], "dryver": {}}}))
    strict = ("apply", "--server-side", "--force-conflicts", "--validate=strict")
    refused = fleet.kubectl(*strict, "-f", str(tmp_path / "wrong.json"))
    assert refused.returncode != 0
    assert "dryver" in refused.stderr


def policy_of(held: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ClusterPolicy as the operator's chart makes it: with the parts that it requires."""
    return {**held, "spec": {**{name: {} for name in REQUIRED_OF_CLUSTER_POLICY}, **held["spec"]}}


def lacking(written: Any, live: Any, where: str) -> Iterator[str]:
    """Yield what is written and not live: fields that a schema does not know are pruned."""
    if isinstance(written, Mapping):
        for key, value in written.items():
            if not isinstance(live, Mapping) or key not in live:
                yield f"{where}.{key}"
            else:
                yield from lacking(value, live[key], f"{where}.{key}")
    elif isinstance(written, list):
        for number, value in enumerate(written):
            yield from lacking(value, live[number], f"{where}[{number}]")
    elif written != live:
        yield f"{where} is {live}, and not {written}"
