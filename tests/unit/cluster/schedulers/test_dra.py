"""Claims, values and taints that follow from a plan, and slices that are held to the machine."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import yaml

from numaforge.cluster.schedulers.dra import cpus_per_gpu, sick_gpus
from numaforge.cluster.schedulers.fleet import ServedNode
from numaforge.cluster.schedulers.slices import planned_slices, slice_deviations
from numaforge.cluster.schedulers.systems import generate
from numaforge.machine.topology.model import RemappedRows
from tests.fixtures.tables import cases
from tests.unit.cluster.schedulers.served import BY_CLAIMS, served

GPUS_ALONE = {"extends": "training", "dra": {"gpus": "claims"}}
CPUS_ALONE = {"extends": "training", "kubelet": {"resource_engine": "dra"}}


def files(*nodes: ServedNode) -> dict[str, str]:
    [folder] = generate(nodes, ["dra"])
    return dict(folder.texts())


def left_out(*nodes: ServedNode) -> Mapping[str, str]:
    [folder] = generate(nodes, ["dra"])
    return folder.left_out


def objects(text: str) -> dict[str, Any]:
    return {each["metadata"]["name"]: each for each in yaml.safe_load_all(text)}


def devices(template: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = template["spec"]["spec"]["devices"]
    return found


def of_version(node: ServedNode, version: str) -> ServedNode:
    assert node.plan.kubelet is not None
    return replace(node, plan=replace(node.plan, kubelet=replace(node.plan.kubelet, version=version)))


def with_sick_gpu(profile: object = BY_CLAIMS) -> ServedNode:
    node = served("dgx-h100", profile)
    first, *others = node.machine.gpus
    sick = replace(first, remapped_rows=RemappedRows(0, 1, pending=False, failed=True))
    return replace(node, machine=replace(node.machine, gpus=(sick, *others)))


def test_cpu_driver_gets_the_kubelets_reserved_cpus():
    node = served("dgx-h100", BY_CLAIMS)
    values = yaml.safe_load(files(node)["dra-driver-cpu.values.yml"])
    assert values == {
        "args": {
            "cpuDeviceMode": "grouped",
            "groupBy": "numanode",
            "reservedCPUs": node.plan.kubelet.settings["reservedSystemCPUs"],
        }
    }


def test_one_release_of_the_cpu_driver_has_one_configuration():
    other = served("hgx-b200", BY_CLAIMS)
    nodes = served("dgx-h100", BY_CLAIMS), served("dgx-h100", BY_CLAIMS, "dgx-02"), other
    assert "one configuration" in left_out(*nodes)[other.name]


def test_gpu_and_its_rail_share_a_pcie_root():
    template = objects(files(served("dgx-h100", GPUS_ALONE))["claims.yaml"])["numaforge-nvidia-gpu-1-nic-1"]
    assert devices(template) == {
        "requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}},
            {"name": "nic", "exactly": {"deviceClassName": "numaforge-rdma", "count": 1}},
        ],
        "constraints": [{"requests": ["gpu", "nic"], "matchAttribute": "resource.kubernetes.io/pcieRoot"}],
    }


def test_claim_with_cpus_takes_the_gpus_share_of_its_numa_node():
    node = served("dgx-h100", BY_CLAIMS)
    cpus = cpus_per_gpu(node)
    assert cpus == min(len(zone.cpus - zone.reserved) // 4 for zone in node.zones) // 2 * 2
    template = objects(files(node)["claims.yaml"])[f"numaforge-nvidia-gpu-1-nic-1-cpu-{cpus}"]
    asked = {each["name"]: each["exactly"] for each in devices(template)["requests"]}
    assert asked["cpus"] == {
        "deviceClassName": "dra.cpu",
        "capacity": {"requests": {"dra.cpu/cpu": str(cpus)}},
    }
    assert devices(template)["constraints"][1] == {
        "requests": ["gpu", "cpus"],
        "matchAttribute": "resource.kubernetes.io/numaNode",
    }


def test_gpus_of_another_vendor_use_its_device_class():
    template = objects(files(served("mi300x", GPUS_ALONE))["claims.yaml"])["numaforge-amd-gpu-1-nic-1"]
    assert devices(template)["requests"][0]["exactly"]["deviceClassName"] == "gpu.amd.com"


def test_gpus_without_a_nic_on_their_pcie_root_are_named_and_claimed_alone():
    node = served("gb200", GPUS_ALONE)
    [(name, claim)] = objects(files(node)["claims.yaml"]).items()
    assert name == "numaforge-nvidia-gpu-1"
    assert devices(claim) == {
        "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}}]
    }
    assert "shares a PCIe root" in left_out(node)[node.name]


def without_rails(profile: object = BY_CLAIMS) -> ServedNode:
    node = served("dgx-h100", profile)
    return replace(node, machine=replace(node.machine, rdma_devices=()))


def test_gpus_without_rails_are_claimed_per_numa_node_or_with_cpus():
    node = without_rails()
    templates = objects(files(node)["claims.yaml"])
    both = f"numaforge-nvidia-gpu-1-cpu-{cpus_per_gpu(node)}"
    assert templates.keys() == {"numaforge-nvidia-gpu-1", "numaforge-nvidia-gpu-4", both}
    assert devices(templates["numaforge-nvidia-gpu-4"])["constraints"] == [
        {"requests": ["gpu"], "matchAttribute": "resource.kubernetes.io/numaNode"}
    ]
    assert devices(templates[both])["constraints"] == [
        {"requests": ["gpu", "cpus"], "matchAttribute": "resource.kubernetes.io/numaNode"}
    ]


def test_without_a_cpu_driver_no_claim_requests_cpus():
    templates = objects(files(without_rails(GPUS_ALONE))["claims.yaml"])
    assert templates.keys() == {"numaforge-nvidia-gpu-1", "numaforge-nvidia-gpu-4"}


@pytest.mark.parametrize(
    ("machine", "more", "cpus"),
    [
        pytest.param("dgx-h100", {}, 26, id="a GPU's share"),
        pytest.param("dgx-h100", {"dra": {"cpu_group_by": "socket"}}, 26, id="of groups by socket, too"),
        pytest.param("epyc-nps4", {"extends": "cpu-only"}, 42, id="without GPUs what every NUMA node has"),
    ],
)
def test_cpu_only_claims_produce_a_claim_template(machine, more, cpus):
    found = files(served(machine, {**CPUS_ALONE, **more}))
    assert [*yaml.safe_load(found["kustomization.yaml"])["resources"]] == ["claims.yaml"]
    [(name, template)] = objects(found["claims.yaml"]).items()
    assert name == f"numaforge-cpu-{cpus}"
    asked = {"deviceClassName": "dra.cpu", "capacity": {"requests": {"dra.cpu/cpu": str(cpus)}}}
    assert devices(template) == {"requests": [{"name": "cpus", "exactly": asked}]}


def test_individual_cpu_devices_get_no_claim_and_are_reported():
    node = served("dgx-h100", {**CPUS_ALONE, "dra": {"cpu_device_mode": "individual"}})
    assert [*files(node)] == ["dra-driver-cpu.values.yml"]
    assert "a device for each CPU" in left_out(node)[node.name]


def test_plan_without_claims_writes_no_files():
    assert files(served("dgx-h100")) == {}
    assert "dra" not in {each.name for each in generate([served("dgx-h100")])}


def test_unhealthy_gpu_is_tainted_but_not_its_node():
    node = with_sick_gpu()
    [address] = sick_gpus(node.machine)
    assert address == node.machine.gpus[0].pci_address
    [(name, rule)] = objects(files(node)["taints.yaml"]).items()
    assert name == f"numaforge-{node.name}-gpu-0"
    assert rule["spec"] == {
        "deviceSelector": {"driver": "gpu.nvidia.com", "pool": node.name, "device": "gpu-0"},
        "taint": {"key": "numaforge.io/sick", "value": "NG404", "effect": "NoSchedule"},
    }


@pytest.mark.parametrize(
    ("version", "served_as"),
    [
        pytest.param("1.34.4", "resource.k8s.io/v1alpha3", id="1.34"),
        pytest.param("1.36.3", "resource.k8s.io/v1beta2", id="1.36"),
        pytest.param("1.37.2", "resource.k8s.io/v1", id="1.37"),
    ],
)
def test_taint_uses_the_served_api_version(version, served_as):
    [rule] = objects(files(of_version(with_sick_gpu(), version))["taints.yaml"]).values()
    assert rule["apiVersion"] == served_as


def test_healthy_gpus_have_no_taint():
    assert "taints.yaml" not in files(served("dgx-h100", BY_CLAIMS))


def test_gpus_of_a_device_plugin_have_no_taint():
    assert "taints.yaml" not in files(with_sick_gpu(CPUS_ALONE))


NODE = served("dgx-h100", BY_CLAIMS)
FREE = {zone.id: len(zone.cpus - zone.reserved) for zone in NODE.zones}


def a_slice(driver: str, listed: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "name": f"dgx-01-{driver}",
            "managedFields": [
                {
                    "manager": "the-driver",
                    "time": "2026-11-26T09:00:00Z",
                    "fieldsV1": {"f:spec": {"f:devices": {}}},
                }
            ],
        },
        "spec": {"driver": driver, "nodeName": NODE.name, "devices": listed},
    }


def cpu_slice() -> dict[str, Any]:
    groups = [
        {
            "name": f"cpudevnuma{zone:03}",
            "attributes": {"resource.kubernetes.io/numaNode": {"int": zone}},
            "capacity": {"dra.cpu/cpu": {"value": str(free)}},
        }
        for zone, free in FREE.items()
    ]
    return a_slice("dra.cpu", groups)


def gpu_slice() -> dict[str, Any]:
    gpus = [
        {
            "name": f"gpu-{gpu.minor}",
            "attributes": {
                "resource.kubernetes.io/pciBusID": {"string": gpu.pci_address},
                "resource.kubernetes.io/pcieRoot": {"string": NODE.machine.pci_paths[gpu.pci_address][0]},
                "resource.kubernetes.io/numaNode": {"int": gpu.numa_node},
            },
        }
        for gpu in NODE.machine.gpus
    ]
    return a_slice("gpu.nvidia.com", gpus)


def attribute(device: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = device["attributes"][f"resource.kubernetes.io/{name}"]
    return found


def said(*slices: dict[str, Any], node: ServedNode = NODE) -> list[str]:
    return [str(each) for each in slice_deviations([node], slices)]


def test_slices_that_match_the_machine_do_not_deviate():
    assert said(cpu_slice(), gpu_slice()) == []


def _lists(found: dict[str, Any]) -> None:
    for device in found["spec"]["devices"]:
        device["attributes"]["resource.kubernetes.io/numaNode"] = {
            "ints": [attribute(device, "numaNode")["int"]]
        }


def test_list_of_numa_nodes_is_parsed():
    found = gpu_slice()
    _lists(found)
    assert said(cpu_slice(), found) == []


@pytest.mark.parametrize(
    "said_of_cpus",
    [
        pytest.param({}, id="by-NUMA-node"),
        pytest.param({"cpu_group_by": "socket"}, id="by-socket"),
        pytest.param({"cpu_device_mode": "individual"}, id="one-by-one"),
    ],
)
def test_cpus_skipped_by_the_driver_are_not_planned(said_of_cpus):
    node = served("dgx-h100", {**BY_CLAIMS, "dra": said_of_cpus})
    first, second = node.machine.numa_nodes
    lost = max(first.cpus)
    partly = replace(first, cpus=first.cpus - {lost})
    node = replace(node, machine=replace(node.machine, numa_nodes=(partly, second)))
    [foreseen] = [each for each in planned_slices(node, node.name) if each["spec"]["driver"] == "dra.cpu"]
    found = foreseen["spec"]["devices"]
    offered = sum(
        int(device["capacity"]["dra.cpu/cpu"]["value"]) if "capacity" in device else 1 for device in found
    )
    assert offered == len(node.machine.online - node.plan.cpus.reserved) - 1
    assert said(foreseen, node=node) == []


def test_numa_node_spanning_two_packages_has_no_planned_socket():
    node = served("dgx-h100", BY_CLAIMS)
    first, second = node.machine.numa_nodes
    whole = replace(first, cpus=first.cpus | second.cpus)
    node = replace(node, machine=replace(node.machine, numa_nodes=(whole,)))
    [foreseen] = [each for each in planned_slices(node, node.name) if each["spec"]["driver"] == "dra.cpu"]
    [device] = foreseen["spec"]["devices"]
    assert "dra.cpu/socketID" not in device["attributes"]


@cases(
    "made, fault, message",
    {
        "reserved-CPUs-are-offered": (
            cpu_slice,
            lambda devices: devices[0]["capacity"]["dra.cpu/cpu"].update(value=str(FREE[0] + 2)),
            "without the reserved",
        ),
        "CPUs-of-a-node-that-there-is-not": (
            cpu_slice,
            lambda devices: attribute(devices[0], "numaNode").update(int=7),
            "is 7, and planned one of 0-1",
        ),
        "CPUs-are-not-offered": (
            cpu_slice,
            lambda devices: devices.pop(1),
            "is missing, and planned a group",
        ),
        "no-capacity": (cpu_slice, lambda devices: devices[0].pop("capacity"), "is missing, and planned"),
        "another-root": (
            gpu_slice,
            lambda devices: attribute(devices[0], "pcieRoot").update(string="pci0000:ff"),
            "pcieRoot is pci0000:ff, and planned",
        ),
        "another-NUMA-node": (
            gpu_slice,
            lambda devices: attribute(devices[0], "numaNode").update(int=1),
            "numaNode is 1, and planned 0",
        ),
        "no-such-GPU": (
            gpu_slice,
            lambda devices: attribute(devices[0], "pciBusID").update(string="0000:ee:00.0"),
            "is 0000:ee:00.0, which no plan has",
        ),
    },
)
def test_wrong_slice_is_named_with_its_writer(made, fault, message):
    wrong = deepcopy(made())
    fault(wrong["spec"]["devices"])
    right = (each for each in (cpu_slice(), gpu_slice()) if each["spec"]["driver"] != wrong["spec"]["driver"])
    lines = said(*right, wrong)
    assert any(message in line and "(written by the-driver)" in line for line in lines), lines


def test_cpu_driver_beside_the_static_cpu_manager_is_named():
    [line] = said(cpu_slice(), node=served("dgx-h100"))
    assert "spec.driver is dra.cpu, which no plan has" in line


@cases("there, missing", {"CPUs": (gpu_slice, "dra.cpu"), "GPUs": (cpu_slice, "gpu.nvidia.com")})
def test_driver_without_slices_is_missing(there, missing):
    assert said(there()) == [f"ResourceSlice of {missing} for {NODE.name} is missing"]


def test_gpu_not_offered_by_its_driver_is_named():
    found = gpu_slice()
    lost = found["spec"]["devices"].pop()
    [line] = said(cpu_slice(), found)
    address = attribute(lost, "pciBusID")["string"]
    assert f"spec.devices[resource.kubernetes.io/pciBusID {address}] is missing, and planned gpu-7" in line


def test_partitions_of_a_gpu_count_as_offered():
    found = gpu_slice()
    whole = found["spec"]["devices"].pop()
    found["spec"]["devices"] += [{**whole, "name": f"gpu-7-mig-{number}"} for number in range(2)]
    assert said(cpu_slice(), found) == []


def test_driver_without_addresses_misses_no_gpu():
    found = gpu_slice()
    for device in found["spec"]["devices"]:
        del device["attributes"]
    assert said(cpu_slice(), found) == []


def _single(cpus: Iterator[int]) -> dict[str, Any]:
    return a_slice(
        "dra.cpu", [{"name": f"cpudev{cpu}", "attributes": {"dra.cpu/cpuID": {"int": cpu}}} for cpu in cpus]
    )


def test_individually_offered_reserved_cpu_is_named():
    node = served("dgx-h100", {**BY_CLAIMS, "dra": {"gpus": "claims", "cpu_device_mode": "individual"}})
    free = sorted(node.machine.online - node.plan.cpus.reserved)
    assert said(_single(iter(free)), gpu_slice(), node=node) == []
    [line] = said(_single(iter([min(node.plan.cpus.reserved), *free])), gpu_slice(), node=node)
    assert "which is reserved, which no plan has" in line


@cases(
    "broken",
    {
        "nothing": {},
        "no-spec": {"spec": None},
        "no-devices": {"spec": {"nodeName": NODE.name, "driver": "dra.cpu", "devices": ["x", {}]}},
        "no-values": {"spec": {"nodeName": NODE.name, "driver": "a", "devices": [{"attributes": {"x": 1}}]}},
    },
)
def test_malformed_slices_are_tolerated(broken):
    assert all(said(broken))
