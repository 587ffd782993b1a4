"""What schedulers are told of nodes: it adds up to the plan, and what a system cannot say is left out."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from numaforge.cluster.schedulers.fleet import ServedNode
from numaforge.cluster.schedulers.systems import SYSTEMS, Folder, generate
from numaforge.commands.cluster import SYSTEMS as NAMES
from numaforge.lib.cpulist import parse_cpulist
from tests.fixtures.tables import cases
from tests.unit.cluster.schedulers.served import TRAINING, served

CUT = {"extends": "training", "mig": {"gpus": [{"indices": [0], "devices": {"3g": 1, "1g": 2}}]}}
PINNED = {"extends": "training", "kubelet": {"topology_manager_policy": "single-numa-node"}}


def folder(system: str, *nodes: ServedNode) -> Folder:
    [found] = generate(nodes, [system])
    return found


def documents(found: Folder, kind: str) -> list[Mapping[str, Any]]:
    texts = dict(found.texts())
    every = (
        each for name, text in texts.items() if name.endswith(".yaml") for each in yaml.safe_load_all(text)
    )
    return [each for each in every if each["kind"] == kind]


def only(found: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    [one] = found
    return one


def test_every_system_name_is_known_to_the_command():
    assert tuple(SYSTEMS) == NAMES


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("name", ["dgx-h100", "dgx-h100-mig", "epyc-nps4", "gb200", "mi300x", "small-vm"])
def test_every_file_states_its_purpose_and_is_listed_by_its_folder(system, name):
    found = folder(system, served(name))
    texts = dict(found.texts())
    objects = {file for file in texts if file.endswith(".yaml")} - {"kustomization.yaml"}
    assert ("kustomization.yaml" in texts) == bool(objects), "kubectl refuses one without resources"
    if objects:
        assert {*yaml.safe_load(texts["kustomization.yaml"])["resources"]} == objects
    assert bool(found.nothing) == (not texts and not found.left_out)
    assert found.why
    for file in objects | {file for file in texts if file.endswith(".yml")}:
        assert texts[file].startswith("# ")
        assert "&id0" not in texts[file], "kustomize reads aliases, people do not"


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        *((name, TRAINING) for name in ("dgx-h100", "dgx-h100-mig", "epyc-nps4")),
        *((name, TRAINING) for name in ("hgx-b200", "small-vm", "hgx-a100")),
        pytest.param("dgx-h100", CUT, id="GPUs that MIG will cut"),
        pytest.param("mi300x", "mi300x-cpx", id="GPUs that will be partitioned"),
    ],
)
def test_zones_add_up_to_the_plan(name, profile):
    node = served(name, profile)
    topology = only(documents(folder("noderesourcetopology", node), "NodeResourceTopology"))
    total: dict[str, int] = {}
    for zone in topology["zones"]:
        for resource in zone["resources"]:
            assert int(resource["allocatable"]) <= int(resource["capacity"])
            assert resource["available"] == resource["allocatable"]
            total[resource["name"]] = total.get(resource["name"], 0) + int(resource["allocatable"])
    allocatable = node.plan.allocatable
    assert total.pop("cpu") * 1000 == allocatable.cpu_millis
    assert total.pop("memory") == sum(zone.allocatable_memory_bytes for zone in node.plan.memory.numa_nodes)
    placed = {
        resource: sum(1 for each in listed if each.numa_nodes) for resource, listed in node.devices.items()
    }
    found = {name: count for name, count in total.items() if "/" in name}
    assert found == {name: count for name, count in placed.items() if count}
    assert allocatable.devices.items() <= found.items()


POLICIES = {
    "aligned strictly": (PINNED, "single-numa-node", "SingleNUMANodePodLevel"),
    "as near as may be": (TRAINING, "best-effort", "BestEffortPodLevel"),
    "not at all": ({"extends": "training", "kubelet": {"topology_manager_policy": "none"}}, "none", "None"),
}


@pytest.mark.parametrize("case", POLICIES)
def test_every_system_uses_its_own_policy_name(case):
    profile, policy, deprecated = POLICIES[case]
    node = served("epyc-nps4", profile)
    topology = only(documents(folder("noderesourcetopology", node), "NodeResourceTopology"))
    assert {each["name"]: each["value"] for each in topology["attributes"]}["topologyManagerPolicy"] == policy
    assert topology["topologyPolicies"] == [deprecated]
    numatopology = only(documents(folder("volcano", node), "Numatopology"))
    assert numatopology["spec"]["policies"]["TopologyManagerPolicy"] == policy
    labels = only(documents(folder("koordinator", node), "Node"))["metadata"].get("labels", {})
    expected = {"single-numa-node": "SingleNUMANode", "best-effort": "BestEffort"}.get(policy)
    assert labels.get("node.koordinator.sh/numa-topology-policy") == expected


def test_volcano_gets_no_reserved_cpu_and_separates_cores_by_package():
    node = served("dgx-h100")
    spec = only(documents(folder("volcano", node), "Numatopology"))["spec"]
    offered = parse_cpulist(spec["numares"]["cpu"]["allocatable"])
    assert not {*offered} & {*node.plan.cpus.reserved}
    assert {*offered} | {*node.plan.cpus.reserved} == {*node.machine.online}
    cores: dict[int, set[int]] = {}
    for cpu, place in spec["cpuDetail"].items():
        cores.setdefault(place["core"], set()).add(int(cpu))
    assert {frozenset(cpus) for cpus in cores.values()} == {
        frozenset(core.cpus) for core in node.machine.cores
    }


def test_kubelet_is_the_only_owner_of_cpus():
    node = served("dgx-h100")
    reservation = only(documents(folder("koordinator", node), "Node"))["metadata"]["annotations"]
    assert yaml.safe_load(reservation["node.koordinator.sh/reservation"]) == {
        "reservedCPUs": "0,56,112,168",
        "applyPolicy": "ReservedCPUsOnly",
    }


@pytest.mark.parametrize("system", ["noderesourcetopology", "volcano"])
def test_node_with_cpuless_numa_nodes_is_left_out_with_a_reason(system):
    found = folder(system, served("gb200"), served("dgx-h100"))
    assert found.left_out.keys() == {"gb200-01"}
    assert "have no CPUs" in found.left_out["gb200-01"]
    kind = "Numatopology" if system == "volcano" else "NodeResourceTopology"
    assert [each["metadata"]["name"] for each in documents(found, kind)] == ["dgx-01"]


def test_nvlink_domains_become_hypernodes_and_a_level_if_all_nodes_have_one():
    rack = [served("gb200", hostname=f"gb200-{number}") for number in (1, 2)]
    clique = rack[0].clique
    assert clique
    hypernode = only(documents(folder("volcano", *rack), "HyperNode"))
    selector = hypernode["spec"]["members"][0]["selector"]
    assert selector == {"labelMatch": {"matchLabels": {"nvidia.com/gpu.clique": clique}}}
    levels = only(documents(folder("kueue", *rack), "Topology"))["spec"]["levels"]
    assert [level["nodeLabel"] for level in levels] == ["nvidia.com/gpu.clique", "kubernetes.io/hostname"]
    mixed = folder("kueue", *rack, served("dgx-h100"))
    assert [level["nodeLabel"] for level in only(documents(mixed, "Topology"))["spec"]["levels"]] == [
        "kubernetes.io/hostname"
    ]
    assert "it is in no NVLink domain" in mixed.left_out["dgx-01"]


def test_nodes_of_a_kind_share_a_feature_rule_that_names_them():
    nodes = [served("dgx-h100", hostname=name) for name in ("gpu-2", "gpu-1")]
    rules = only(documents(folder("nfd", *nodes, served("epyc-nps4")), "NodeFeatureRule"))["spec"]["rules"]
    assert [each["name"] for each in rules] == ["numaforge gpu-1 and 1 more", "numaforge epyc-01"]
    first, *features = (each for each in rules[0]["matchFeatures"])
    assert first["matchExpressions"] == {"nodename": {"op": "In", "value": ["gpu-1", "gpu-2"]}}
    assert {each["feature"] for each in features} == {"memory.numa", "pci.device"}
    assert rules[0]["labels"]["numaforge.io/found-as-planned"] == "true"
    assert "numaforge.io/plan" not in rules[0]["labels"]


def test_node_with_fewer_huge_pages_than_planned_loses_its_labels():
    planned = served(
        "epyc-nps4", {"extends": "training", "hugepages": [{"size": "1Gi", "count_per_numa_node": 4}]}
    )
    [rule] = only(documents(folder("nfd", planned), "NodeFeatureRule"))["spec"]["rules"]
    pages = next(each for each in rule["matchFeatures"] if each["feature"] == "memory.hugepages")
    total = sum(pool.pages for pool in planned.plan.hugepages.pools if pool.size == "1Gi")
    assert total > 0
    assert pages["matchExpressions"]["hugepages-1Gi"] == {"op": "Ge", "value": [str(total)]}


def test_gang_requests_what_its_smallest_node_has():
    nodes = served("dgx-h100"), served("hgx-b200")
    group = only(documents(folder("coscheduling", *nodes), "PodGroup"))["spec"]
    job = only(documents(folder("coscheduling", *nodes), "Job"))["spec"]
    asked = job["template"]["spec"]["containers"][0]["resources"]["limits"]
    smallest = min(int(node.largest_pod["cpu"]) for node in nodes)
    assert (asked["cpu"], asked["nvidia.com/gpu"]) == (str(smallest), "8")
    assert group["minMember"] == 2


def test_coscheduling_gang_sets_no_min_resources():
    """Of what it refuses by minResources nothing is tried again when pods end."""
    assert (
        "minResources" not in only(documents(folder("coscheduling", served("dgx-h100")), "PodGroup"))["spec"]
    )


@pytest.mark.parametrize("system", ["coscheduling", "gangs", "volcano"])
def test_gang_pod_requests_at_most_the_gpus_its_kubelet_admits(system):
    strict = {"extends": "training", "kubelet": {"topology_manager_policy": "single-numa-node"}}
    node = served("dgx-h100", strict, kubelet="1.37.2")
    assert max(pod.devices for pod in node.plan.largest_pods) == 8  # which no pod may have
    asked = [
        template["spec"]["containers"][0]["resources"]["limits"]
        for job in documents(folder(system, node), "Job")
        for template in [job["spec"].get("template") or job["spec"]["tasks"][0]["template"]]
    ]
    assert [limits["nvidia.com/gpu"] for limits in asked] == ["4"]
    assert int(asked[0]["cpu"]) > 0


@pytest.mark.parametrize(
    ("kubelet", "asked", "version"),
    [
        pytest.param("1.37.2", None, "v1beta1", id="the newest of a cluster that was not asked"),
        pytest.param("1.36.3", None, "v1alpha2", id="the only one of an older cluster"),
        pytest.param("1.36.3", "v1beta1", "v1beta1", id="what an API server newer than its nodes serves"),
        pytest.param("1.35.4", None, None, id="none before there is a PodGroup"),
        pytest.param("1.37.2", "", None, id="none where the API server serves none"),
    ],
)
def test_kubernetes_gang_uses_the_served_api_version(kubelet, asked, version):
    [found] = generate([served("dgx-h100", kubelet=kubelet)], ["gangs"], asked)
    assert bool(found.nothing) == (version is None)
    groups = [each for file in found.files for each in file.documents if each["kind"] == "PodGroup"]
    assert [each["apiVersion"] for each in groups] == ([f"scheduling.k8s.io/{version}"] if version else [])


@cases(
    "racks, constraints",
    {
        "within the domain that all share": (("a.1", "a.1"), [{"key": "nvidia.com/gpu.clique"}]),
        "nowhere in particular where they share none": (("a.1", "b.1"), []),
    },
)
def test_gang_stays_within_a_shared_nvlink_domain(racks, constraints):
    nodes = []
    for number, clique in enumerate(racks):
        node = served("gb200", hostname=f"tray-{number}")
        gpus = tuple(replace(gpu, fabric=clique) for gpu in node.machine.gpus)
        nodes.append(replace(node, machine=replace(node.machine, gpus=gpus)))
    group = only(documents(folder("gangs", *nodes), "PodGroup"))["spec"]
    assert group.get("schedulingConstraints", {}).get("topology", []) == constraints


def test_one_openshift_pool_per_node_kind():
    alike = [served("dgx-h100", hostname=f"dgx-{number}") for number in (1, 2)]
    assert len(documents(folder("openshift", *alike), "MachineConfigPool")) == 1
    found = folder("openshift", *alike, served("epyc-nps4"))
    configs = documents(found, "KubeletConfig")
    assert len(configs) == 2
    settings = configs[0]["spec"]["kubeletConfig"]
    assert settings["reservedSystemCPUs"] == "0,56,112,168"
    assert configs[0]["spec"]["machineConfigPoolSelector"]["matchLabels"] == {
        "pools.operator.machineconfiguration.openshift.io/numaforge-1": ""
    }


def test_setting_a_kubeletconfig_forbids_is_left_out_and_named():
    tainted = {
        "extends": "training",
        "kubelet": {"register_with_taints": ["numaforge.io/unverified:NoSchedule"]},
    }
    found = folder("openshift", served("dgx-h100", tainted))
    assert "registerWithTaints" not in only(documents(found, "KubeletConfig"))["spec"]["kubeletConfig"]
    assert found.left_out == {"dgx-01": "registerWithTaints is set by its MachineSet"}


def test_koordlet_gets_the_sysfs_pcie_root_of_each_gpu():
    node = served("dgx-h100")
    texts = (text for name, text in folder("koordinator", node).texts() if "xpu-device-infos" in name)
    [listed] = (json.loads(text) for text in texts)
    roots = {each["topology"]["busID"]: each["topology"]["pcieID"] for each in listed}
    assert roots == {gpu.pci_address: node.machine.pci_paths[gpu.pci_address][0] for gpu in node.machine.gpus}
    assert len({*roots.values()}) == 8
