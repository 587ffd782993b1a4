"""The shared RDMA device plugin in a cluster: nodes with equal configurations share its manifests."""

import json
from dataclasses import replace

import pytest

from numaforge.lib.errors import PlanError
from numaforge.planning.plan import NodePlan
from numaforge.roles.rdma.manifests import POOLS_LABEL, plugin_manifests, pools_name
from tests.fixtures.machines import dgx_h100, hgx_a100, kubeadm_kubelet
from tests.fixtures.plans import planned


def plan(topology, hostname: str = "a", **keys) -> NodePlan:
    host = replace(topology, hostname=hostname, kubelet=kubeadm_kubelet("1.36.1"))
    return planned(host, name="p", rdma={"device_plugin": {"per": "rail", "deployed": True, **keys}})


def renamed(topology, old: str, new: str):
    nics = tuple(replace(nic, interface=new) if nic.interface == old else nic for nic in topology.nics)
    return replace(topology, nics=nics)


def names(*plans: NodePlan) -> list[tuple[str, str]]:
    manifests, _ = plugin_manifests(plans, "registry/plugin:1", "rdma", "kube-system")
    return [(each["kind"], each["metadata"]["name"]) for each in manifests]


def test_nodes_with_equal_configurations_share_their_manifests():
    one = plan(dgx_h100(), "a")
    name = f"rdma-{pools_name(one.rdma, one.kubelet)}"
    assert names(one, plan(dgx_h100(), "b")) == [("ConfigMap", name), ("DaemonSet", name)]


def test_nodes_with_different_interface_names_get_separate_manifests():
    one, other = plan(dgx_h100(), "a"), plan(renamed(dgx_h100(), "ibp24s0", "ib0"), "b")
    assert len(names(one, other, plan(hgx_a100(), "c"))) == 6
    assert one.labels[POOLS_LABEL] != other.labels[POOLS_LABEL]


def test_daemon_set_runs_on_labelled_nodes_with_its_own_config_map():
    chosen = plan(dgx_h100())
    (config_map, daemon_set), labels = plugin_manifests([chosen], "registry/plugin:1", "rdma", "net")
    pod = daemon_set["spec"]["template"]["spec"]
    assert labels == {"a": chosen.labels}
    assert pod["nodeSelector"] == chosen.labels == daemon_set["spec"]["selector"]["matchLabels"]
    assert pod["nodeSelector"] == daemon_set["spec"]["template"]["metadata"]["labels"]
    assert [v["configMap"]["name"] for v in pod["volumes"] if "configMap" in v] == [
        config_map["metadata"]["name"]
    ]
    assert len(json.loads(config_map["data"]["config.json"])["configList"]) == 8
    assert {each["metadata"]["namespace"] for each in (config_map, daemon_set)} == {"net"}


# deployment/k8s/base/daemonset.yaml of the plugin.
def test_plugin_gets_the_settings_of_the_upstream_manifest():
    _, daemon_set = plugin_manifests([plan(dgx_h100())], "registry/plugin:1", "rdma", "net")[0]
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
    chosen = plan(dgx_h100())
    moved = replace(chosen, kubelet=replace(chosen.kubelet, root_dir="/data/kubelet"))
    _, daemon_set = plugin_manifests([moved], "i", "rdma", "net")[0]
    volumes = daemon_set["spec"]["template"]["spec"]["volumes"]
    paths = {volume["name"]: volume.get("hostPath", {}).get("path") for volume in volumes}
    assert paths["plugins-registry"] == "/data/kubelet/plugins_registry"
    assert paths["device-plugins"] == "/var/lib/kubelet/device-plugins"
    assert pools_name(moved.rdma, moved.kubelet) != pools_name(chosen.rdma, chosen.kubelet)


def test_plan_without_pools_is_refused():
    with pytest.raises(PlanError, match="has no pools of RDMA devices"):
        plugin_manifests([planned(dgx_h100())], "i", "r", "n")
