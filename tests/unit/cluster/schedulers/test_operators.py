"""The operators of NVIDIA and AMD: values and policies that fit plans, and live ones that contradict them."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from numaforge.cluster.schedulers.fleet import ServedNode
from numaforge.cluster.schedulers.live import deviations
from numaforge.cluster.schedulers.systems import Folder, generate
from numaforge.machine.topology.model import GpuProcess
from tests.fixtures.tables import cases, tables
from tests.unit.cluster.schedulers.served import (
    CPX,
    HANDED,
    HOST_DRIVER,
    OPERATORS_DRIVER,
    TRAINING,
    machine,
    served,
    with_amdgpu,
)

Values = Mapping[str, Any]
Nodes = Callable[[], tuple[ServedNode, ...]]
OWN_MIG = {"extends": "training", "name": "own-mig", "mig": {"gpus": [{"devices": {"3g.40gb": 2}}]}}
CLAIMED = {"extends": "training", "dra": {"gpus": "claims"}}
TAINTED = {
    "extends": "training",
    "kubelet": {"register_with_taints": ["numaforge.io/unverified:NoSchedule"]},
}
RAILS = {"extends": "training", "rdma": {"device_plugin": {"per": "rail"}}}
GPU_TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def folder(system: str, *nodes: ServedNode) -> Folder:
    [found] = generate(nodes, [system])
    return found


def values(found: Folder) -> Values:
    """Return the values of a chart, as Helm reads them."""
    [text] = (text for name, text in found.texts() if name.endswith(".values.yml"))
    read: Values = yaml.safe_load(text)
    return read


def objects(found: Folder, kind: str) -> dict[str, Any]:
    every = [each for file in found.files for each in file.documents]
    return {each["metadata"]["name"]: each for each in every if each["kind"] == kind}


def h100(profile: object = TRAINING, hostname: str = "gpu-1", **found: Any) -> ServedNode:
    return served("dgx-h100", profile, hostname, **{"nvidia_install": HOST_DRIVER, **found})


def sharing(how: str, config: str | None = None, name: str = "shared") -> Values:
    said: dict[str, Any] = {how: {"nvidia.com/gpu": 4}}
    return {
        "extends": "training",
        "name": name,
        "device_plugin": said | ({"config": config} if config else {}),
    }


UNTOUCHED: Values = {"migManager": {"config": {"default": ""}}, "driver": {"enabled": False}}
"""What is said of every fleet: a geometry that no plan has is not the MIG manager's to remove."""
PLUGIN_CONFIG = {"config": {"name": "numaforge-device-plugin"}}
UNVERIFIED = {"key": "numaforge.io/unverified", "operator": "Exists", "effect": "NoSchedule"}
MIXED = {"extends": "training", "mig": {"strategy": "mixed"}}


def with_engine(**of: str) -> ServedNode:
    return h100(nvidia_install=replace(HOST_DRIVER, daemons=(GpuProcess("nv-hostengine", **of),)))


def two_strategies(**found: Any) -> tuple[ServedNode, ...]:
    cut = {**MIXED, "device_plugin": {"config": "cut"}}
    return h100(sharing("mps", "mps")), served("dgx-h100-mig", cut, "cut", **found)


NEEDED: dict[str, tuple[Nodes, Values]] = {
    "the driver stays the host's where all hosts have one": (lambda: (h100(),), {}),
    "a module without files on the host is that of a driver container": (
        lambda: (h100(nvidia_install=OPERATORS_DRIVER),),
        {"driver": {"enabled": True}},
    ),
    "nothing is said of a driver that is not known": (
        lambda: (h100(nvidia_install=None),),
        {"driver": None},
    ),
    "the MIG manager is off where numaforge cuts all GPUs": (
        lambda: (h100(OWN_MIG),),
        {"mig": {"strategy": "mixed"}, "migManager": {"enabled": False}},
    ),
    "it has our geometries where a plan leaves the GPUs to it": (
        lambda: (h100(HANDED),),
        {
            "mig": {"strategy": "mixed"},
            "migManager": {"enabled": True, "config": {"name": "numaforge-mig-parted", "default": ""}},
            "devicePlugin": PLUGIN_CONFIG,
        },
    ),
    "no device plugin where a DRA driver has all GPUs": (
        lambda: (h100(CLAIMED),),
        {"devicePlugin": {"enabled": False}},
    ),
    "no host engine beside the host's own": (lambda: (with_engine(),), {"dcgm": {"enabled": False}}),
    "the host engine of a pod is the operator's": (lambda: (with_engine(pod="gpu/d"),), {}),
    "taints of the registration are tolerated beside the chart's own": (
        lambda: (h100(TAINTED),),
        {"daemonsets": {"tolerations": [GPU_TAINT, UNVERIFIED]}},
    ),
    "the strategy is the one that the plans count by": (
        lambda: (served("dgx-h100-mig", MIXED, "cut"),),
        {"mig": {"strategy": "mixed"}, "driver": None},
    ),
    "with MPS it is none also where no GPU is cut": (
        lambda: (h100(sharing("mps", "mps")),),
        {"mig": {"strategy": "none"}, "devicePlugin": PLUGIN_CONFIG},
    ),
    "nodes that need different strategies take those of their own configurations": (
        lambda: two_strategies(nvidia_install=HOST_DRIVER),
        {"mig": {"strategy": ""}, "devicePlugin": PLUGIN_CONFIG},
    ),
}


@cases("nodes, expected", NEEDED)
def test_gpu_operator_values_follow_the_plans(nodes: Nodes, expected: Values) -> None:
    said = dict(values(folder("gpu-operator", *nodes())))
    said.pop("node-feature-discovery", None)
    assert said == {name: value for name, value in {**UNTOUCHED, **expected}.items() if value is not None}


def test_nodes_that_do_without_a_component_opt_out_by_label() -> None:
    nodes = (
        h100(HANDED, "handed", nvidia_install=OPERATORS_DRIVER),
        h100(OWN_MIG, "own"),
        h100(CLAIMED, "claimed"),
    )
    found = folder("gpu-operator", *nodes)
    said = values(found)
    assert (said["driver"]["enabled"], said["migManager"]["enabled"]) == (True, True)
    assert {name: each["metadata"]["labels"] for name, each in objects(found, "Node").items()} == {
        "own": {"nvidia.com/gpu.deploy.driver": "false", "nvidia.com/gpu.deploy.mig-manager": "false"},
        "claimed": {"nvidia.com/gpu.deploy.driver": "false", "nvidia.com/gpu.deploy.device-plugin": "false"},
    }


def test_geometry_name_equals_the_rollout_node_label() -> None:
    node = h100(HANDED)
    text = objects(folder("gpu-operator", node), "ConfigMap")["numaforge-mig-parted"]["data"]["config.yaml"]
    assert [*yaml.safe_load(text)["mig-configs"]] == [node.plan.labels["nvidia.com/mig.config"]]


DEFAULTS: dict[str, tuple[Nodes, str | None, list[str]]] = {
    "every node has a label": (lambda: (h100(sharing("time_slicing", "a")),), None, ["a"]),
    "the only configuration is that of nodes without a label": (
        lambda: (h100(sharing("time_slicing")),),
        "shared",
        ["shared"],
    ),
    "nodes of which nothing is said keep the plugin's own": (
        lambda: (h100(sharing("time_slicing", "a")), h100(TRAINING, "gpu-2")),
        "default",
        ["default", "a"],
    ),
    "nodes that need different ones share none": (
        lambda: (h100(sharing("time_slicing")), h100(TRAINING, "gpu-2")),
        None,
        ["shared"],
    ),
}


@cases("nodes, default, keys", DEFAULTS)
def test_device_plugin_default_configuration(nodes: Nodes, default: str | None, keys: list[str]) -> None:
    found = folder("gpu-operator", *nodes())
    assert values(found)["devicePlugin"]["config"].get("default") == default
    assert [*objects(found, "ConfigMap")["numaforge-device-plugin"]["data"]] == keys


UNSAID: dict[str, tuple[str, Nodes, dict[str, str]]] = {
    "a driver that is not known": (
        "gpu-operator",
        lambda: (h100(nvidia_install=None),),
        {"gpu-1": "set driver.enabled yourself"},
    ),
    "options that a driver container does not read": (
        "gpu-operator",
        lambda: (
            h100(
                {"extends": "training", "modules": {"options": {"nvidia": ["NVreg_EnableStreamMemOPs=1"]}}},
                nvidia_install=OPERATORS_DRIVER,
            ),
        ),
        {"gpu-1": "its plan's options of nvidia are for the host's modprobe"},
    ),
    "two configurations under one key": (
        "gpu-operator",
        lambda: (h100(sharing("time_slicing", "a")), h100(sharing("mps", "a"), "gpu-2")),
        {"gpu-2": "is not that of gpu-1 under the same key a"},
    ),
    "one default for nodes that need different ones": (
        "gpu-operator",
        lambda: (h100(sharing("time_slicing")), h100(TRAINING, "gpu-2")),
        {
            "gpu-1": "it takes the device plugin's default configuration",
            "gpu-2": "it takes the device plugin's default configuration",
        },
    ),
    "a strategy of its own, and no configuration to say it in": (
        "gpu-operator",
        lambda: (
            h100(sharing("mps", "mps")),
            served("dgx-h100-mig", TRAINING, "cut", nvidia_install=HOST_DRIVER),
        ),
        {"cut": "it needs migStrategy mixed, others need another one"},
    ),
    "AMD's GPUs without a driver that is known": (
        "amd-gpu-operator",
        lambda: (served("mi300x", TRAINING, "amd-1"),),
        {"amd-1": "set driver.enable yourself"},
    ),
    "the shared plugin in exclusive namespaces": (
        "network-operator",
        lambda: (served("dgx-h100", RAILS, "gpu-1", rdma_netns="exclusive"),),
        {"gpu-1": "where the shared plugin does not start, and its plan knows no virtual functions"},
    ),
    "nodes with different resources and no label": (
        "network-operator",
        lambda: (served("dgx-h100", RAILS, "gpu-1"), served("hgx-b200", RAILS, "gpu-2")),
        {
            "gpu-1": "set rdma.device_plugin.deployed",
            "gpu-2": "set rdma.device_plugin.deployed",
        },
    ),
}


@cases("system, nodes, expected", UNSAID)
def test_setting_left_out_for_a_node_is_named(system: str, nodes: Nodes, expected: dict[str, str]) -> None:
    left_out = folder(system, *nodes()).left_out
    assert left_out.keys() == expected.keys()
    for name, words in expected.items():
        assert words in left_out[name]


NOTHING = {
    "gpu-operator": ("mi300x", "none of these nodes has a GPU of NVIDIA's driver"),
    "amd-gpu-operator": ("dgx-h100", "none of these nodes has a GPU of AMD's"),
    "network-operator": ("small-vm", "no plan has pools of RDMA devices (rdma.device_plugin.per)"),
    "dra": ("dgx-h100", "no plan hands out anything by claims"),
}


@pytest.mark.parametrize("system", NOTHING)
def test_system_with_nothing_to_write_has_a_reason_and_no_files(system: str) -> None:
    name, why = NOTHING[system]
    found = folder(system, served(name))
    assert (found.nothing, dict(found.texts())) == (why, {})
    assert system not in {each.name for each in generate([served(name)])}


def deployed(profile: Values) -> Values:
    plugin = {**profile["rdma"]["device_plugin"], "deployed": True}
    return {**profile, "rdma": {**profile["rdma"], "device_plugin": plugin}}


def test_nodes_with_equal_rdma_resources_share_the_cluster_policy() -> None:
    nodes = [served("dgx-h100", HANDED, f"gpu-{number}") for number in (1, 2)]
    policies = objects(folder("network-operator", *nodes), "NicClusterPolicy")
    assert [*policies] == ["nic-cluster-policy"]
    plugin = policies["nic-cluster-policy"]["spec"]["rdmaSharedDevicePlugin"]
    rails = [each["resourceName"] for each in yaml.safe_load(plugin["config"])["configList"]]
    assert rails == [f"rail{number}" for number in range(8)]


@pytest.mark.parametrize("other", ["hgx-b200", "mi300x"])
def test_differing_nodes_get_separate_policies_by_rollout_label(other: str) -> None:
    rails = {"extends": "training", "rdma": {"device_plugin": {"per": "rail", "deployed": True}}}
    nodes = (served("dgx-h100", rails, "gpu-1"), served(other, rails, "gpu-2"))
    found = folder("network-operator", *nodes)
    assert not objects(found, "NicClusterPolicy")
    selectors = [each["spec"]["nodeSelector"] for each in objects(found, "NicNodePolicy").values()]
    assert selectors == [
        {"numaforge.io/rdma-pools": node.plan.labels["numaforge.io/rdma-pools"]} for node in nodes
    ]


def test_cluster_policy_is_not_used_if_a_node_plans_no_pools() -> None:
    bare = {"extends": "training", "rdma": {"device_plugin": {"exclude": [{"names": ["*"]}]}}}
    found = folder(
        "network-operator", served("dgx-h100", deployed(HANDED), "a"), served("dgx-h100", bare, "b")
    )
    assert not objects(found, "NicClusterPolicy")
    assert len(objects(found, "NicNodePolicy")) == 1


def test_exclusive_namespaces_give_each_pools_vfs_to_the_sriov_plugin() -> None:
    host = {"wait_for_virtual_functions": {"count": 8}}
    profile = {**HANDED, "rdma": {"device_plugin": {"per": "rail"}, "host": host}}
    node = served("dgx-h100", profile, "gpu-1", rdma_netns="exclusive")
    spec = objects(folder("network-operator", node), "NicClusterPolicy")["nic-cluster-policy"]["spec"]
    assert "rdmaSharedDevicePlugin" not in spec
    first, *_ = yaml.safe_load(spec["sriovDevicePlugin"]["config"])["resourceList"]
    assert first == {
        "resourceName": "rail0",
        "resourcePrefix": "rdma",
        "selectors": {"isRdma": True, "rootDevices": [*node.plan.rdma.pools[0].pci_addresses]},
    }


def test_device_config_per_node_kind() -> None:
    nodes = (
        with_amdgpu("mi300x", CPX, "amd-1"),
        with_amdgpu("mi300x", CPX, "amd-2"),
        with_amdgpu("mi300x", TRAINING, "amd-3"),
    )
    found = folder("amd-gpu-operator", *nodes)
    configs = objects(found, "DeviceConfig")
    labels = {name: each["metadata"]["labels"] for name, each in objects(found, "Node").items()}
    assert labels["amd-1"] == labels["amd-2"] != labels["amd-3"]
    for name, config in configs.items():
        assert config["spec"]["selector"] == {"numaforge.io/amd-device-config": name}
    assert not found.left_out
    assert values(found) == {"crds": {"defaultCR": {"install": False, "upgrade": False}}}


AMD_DRIVER = {"enable": False, "blacklist": False}


def amd_plugin(strategy: str) -> Values:
    return {"enableDevicePlugin": True, "devicePluginArguments": {"resource_naming_strategy": strategy}}


AMD: dict[str, tuple[object, Values]] = {
    "the modes handed over": (
        CPX,
        {
            "devicePlugin": amd_plugin("mixed"),
            "configManager": {"enable": True, "config": {"name": "numaforge-partitions"}},
        },
    ),
    "the modes set by numaforge": (
        "mi300x-cpx",
        {"devicePlugin": amd_plugin("mixed"), "configManager": {"enable": False}},
    ),
    "no modes planned": (TRAINING, {"devicePlugin": amd_plugin("single")}),
    "GPUs by claims": (
        CLAIMED,
        {"devicePlugin": {"enableDevicePlugin": False}, "draDriver": {"enable": True}},
    ),
}


@cases("profile, expected", AMD)
def test_amd_gpu_operator_config_follows_the_plan(profile: object, expected: Values) -> None:
    [config] = objects(folder("amd-gpu-operator", with_amdgpu("mi300x", profile)), "DeviceConfig").values()
    spec = dict(config["spec"])
    del spec["selector"]
    assert spec == {"driver": AMD_DRIVER, **expected}


def test_node_agent_pods_tolerate_registration_taints() -> None:
    [config] = objects(folder("amd-gpu-operator", with_amdgpu("mi300x", TAINTED)), "DeviceConfig").values()
    assert config["spec"]["devicePlugin"]["devicePluginTolerations"] == [UNVERIFIED]
    rdma = {**TAINTED, "rdma": {"device_plugin": {"per": "rail"}}}
    [policy] = objects(folder("network-operator", served("dgx-h100", rdma)), "NicClusterPolicy").values()
    assert policy["spec"]["tolerations"] == [UNVERIFIED]


FLEETS: dict[str, Nodes] = {
    "gpu-operator": lambda: (
        h100(HANDED, "handed"),
        h100(OWN_MIG, "own", nvidia_install=OPERATORS_DRIVER),
        h100(CLAIMED, "claimed"),
    ),
    "mps": lambda: (h100(sharing("mps", "mps")),),
    "two strategies": two_strategies,
    "no MIG manager": lambda: (h100(OWN_MIG),),
    "tainted": lambda: (h100(TAINTED),),
    "network-operator": lambda: (served("dgx-h100", HANDED, "gpu-1"),),
    "handed over": lambda: (with_amdgpu("mi300x", CPX, "amd-1"),),
    "own modes": lambda: (with_amdgpu("mi300x", "mi300x-cpx", "amd-1"),),
    "claims": lambda: (with_amdgpu("mi300x", CLAIMED, "amd-1"),),
}
SYSTEM_OF = {"network-operator": "network-operator"} | dict.fromkeys(
    ("handed over", "own modes", "claims"), "amd-gpu-operator"
)
GONE = "is not there"
CASES = tables(__file__)


def live_of(planned: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object as planned, with what its other writers say beside that."""
    live = copy.deepcopy(dict(planned))
    live["metadata"]["managedFields"] = [
        {"manager": "admin", "time": "2026-11-26T01:00:00Z", "fieldsV1": {"f:spec": {}}}
    ]
    if "spec" in live:
        live["spec"] = {name: value for name, value in live["spec"].items() if value is not None}
        live["spec"]["toolkit"] = {"enabled": True}
    return live


@cases("fleet, kind, path, value, said", CASES["faults"])
def test_live_object_that_contradicts_a_plan_is_named_with_its_writer(
    fleet: str, kind: str, path: list[str], value: object, said: str
) -> None:
    found = folder(SYSTEM_OF.get(fleet, "gpu-operator"), *FLEETS[fleet]())
    candidates = [each for each in found.compared() if each["kind"] == kind]
    planned = next(each for each in candidates if each["metadata"]["name"] in said or len(candidates) == 1)
    live = live_of(planned)
    assert [*deviations(planned, found.completed(live))] == []
    place = live
    for key in path[:-1]:
        place = place.setdefault(key, {})
    if value == GONE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    [one] = deviations(planned, found.completed(live))
    assert said in f"{one} "
    assert path[0] != "spec" or one.writer == "admin"


def test_nothing_is_compared_in_a_cluster_without_the_operators_kind() -> None:
    found = folder("gpu-operator", h100(HANDED))
    assert {each["kind"] for each in found.held_where_served(())} == {"ClusterPolicy", "ConfigMap"}
    assert found.held_where_served([("nvidia.com/v1", "ClusterPolicy")]) == ()


def test_moved_kubelet_root_is_set_and_a_differing_node_is_left_out() -> None:
    node = h100()
    assert node.plan.kubelet is not None
    moved = replace(node.plan.kubelet, root_dir="/data/kubelet")
    nodes = [
        replace(h100(hostname=f"gpu-{number}"), plan=replace(node.plan, kubelet=moved)) for number in (1, 2)
    ]
    found = folder("gpu-operator", *nodes, h100(hostname="gpu-3"))
    assert values(found)["hostPaths"] == {"kubeletRootDir": "/data/kubelet"}
    assert "its kubelet is in /var/lib/kubelet, others in /data/kubelet" in found.left_out["gpu-3"]
    assert machine("dgx-h100").gpus
