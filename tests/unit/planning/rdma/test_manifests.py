"""The shared RDMA device plugin in a cluster: nodes with equal configurations share its manifests."""

import json
from dataclasses import replace

import pytest

from numaforge.lib.errors import PlanError
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.profile import NodeProfile
from numaforge.roles.rdma.manifests import POOLS_LABEL, plugin_manifests, pools_name
from tests.fixtures.machines import dgx_h100, hgx_a100, kubeadm_kubelet


def planned(topology, hostname: str = "a", **keys) -> NodePlan:
    section = {"per": "rail", "deployed": True} | keys
    profile = NodeProfile.model_validate({"name": "p", "rdma": {"device_plugin": section}})
    return plan_node(replace(topology, hostname=hostname, kubelet=kubeadm_kubelet("1.36.1")), profile)


def renamed(topology, old: str, new: str):
    return replace(
        topology,
        nics=tuple(replace(n, interface=new) if n.interface == old else n for n in topology.nics),
    )


def names(*plans: NodePlan) -> list[tuple[str, str]]:
    manifests, _ = plugin_manifests(plans, "registry/plugin:1", "rdma", "kube-system")
    return [(each["kind"], each["metadata"]["name"]) for each in manifests]


def test_nodes_with_equal_configurations_share_their_manifests():
    one, other = planned(dgx_h100(), "a"), planned(dgx_h100(), "b")
    assert names(one, other) == [
        ("ConfigMap", f"rdma-{pools_name(one.rdma, one.kubelet)}"),
        ("DaemonSet", f"rdma-{pools_name(one.rdma, one.kubelet)}"),
    ]


def test_nodes_with_different_interface_names_get_separate_manifests():
    one = planned(dgx_h100(), "a")
    other = planned(renamed(dgx_h100(), "ibp24s0", "ib0"), "b")
    assert len(names(one, other, planned(hgx_a100(), "c"))) == 6
    assert one.labels[POOLS_LABEL] != other.labels[POOLS_LABEL]


def test_daemon_set_runs_on_labelled_nodes_with_its_own_config_map():
    plan = planned(dgx_h100())
    (config_map, daemon_set), labels = plugin_manifests([plan], "registry/plugin:1", "rdma", "net")
    pod = daemon_set["spec"]["template"]["spec"]
    assert labels == {"a": plan.labels}
    assert pod["nodeSelector"] == plan.labels == daemon_set["spec"]["selector"]["matchLabels"]
    assert pod["nodeSelector"] == daemon_set["spec"]["template"]["metadata"]["labels"]
    assert [v["configMap"]["name"] for v in pod["volumes"] if "configMap" in v] == [
        config_map["metadata"]["name"]
    ]
    assert len(json.loads(config_map["data"]["config.json"])["configList"]) == 8
    assert {each["metadata"]["namespace"] for each in (config_map, daemon_set)} == {"net"}


# deployment/k8s/base/daemonset.yaml of the plugin.
def test_plugin_gets_the_settings_of_the_upstream_manifest():
    _, daemon_set = plugin_manifests([planned(dgx_h100())], "registry/plugin:1", "rdma", "net")[0]
    pod = daemon_set["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["hostNetwork"] is True
    assert pod["priorityClassName"] == "system-node-critical"
    assert container["image"] == "registry/plugin:1"
    assert container["securityContext"] == {"privileged": True}
    assert {each["mountPath"] for each in container["volumeMounts"]} == {
        "/var/lib/kubelet/device-plugins",
        "/var/lib/kubelet/plugins_registry",
        "/k8s-rdma-shared-dev-plugin",
        "/dev",
    }


def test_plugin_folder_follows_the_kubelets_root_directory():
    plan = planned(dgx_h100())
    assert plan.kubelet is not None
    moved = replace(plan, kubelet=replace(plan.kubelet, root_dir="/data/kubelet"))
    _, daemon_set = plugin_manifests([moved], "i", "rdma", "net")[0]
    paths = {
        v["name"]: v.get("hostPath", {}).get("path")
        for v in daemon_set["spec"]["template"]["spec"]["volumes"]
    }
    assert paths["plugins-registry"] == "/data/kubelet/plugins_registry"
    assert paths["device-plugins"] == "/var/lib/kubelet/device-plugins"
    assert pools_name(moved.rdma, moved.kubelet) != pools_name(plan.rdma, plan.kubelet)


def test_plan_without_pools_is_refused():
    with pytest.raises(PlanError, match="has no pools of RDMA devices"):
        plugin_manifests([replace(planned(dgx_h100()), rdma=type(planned(dgx_h100()).rdma)())], "i", "r", "n")
