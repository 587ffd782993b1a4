"""Claims that follow from a plan: a real API server and scheduler, and slices as drivers would write them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.kwok import Fleet
from numaforge.cluster.schedulers.dra import cpus_per_gpu
from numaforge.cluster.schedulers.fleet import ServedNode, root_of
from numaforge.cluster.schedulers.slices import slice_deviations
from numaforge.cluster.schedulers.systems import generate
from numaforge.machine.topology.rails import rails
from tests.unit.cluster.schedulers.served import BY_CLAIMS, served

pytestmark = pytest.mark.lab
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
PODS = "/api/v1/namespaces/default/pods"
STANDARD = "resource.kubernetes.io"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("claims")) as fleet:
        yield fleet


def slice_of(node: ServedNode, driver: str, devices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node.name}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node.name,
            "pool": {"name": node.name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def place(node: ServedNode, address: str, numa_node: int | None) -> dict[str, Any]:
    return {
        f"{STANDARD}/pciBusID": {"string": address},
        f"{STANDARD}/pcieRoot": {"string": root_of(node.machine, address)},
        f"{STANDARD}/numaNode": {"int": numa_node},
    }


def slices(node: ServedNode) -> list[dict[str, Any]]:
    """The slices of the three drivers, as each would write them for this machine."""
    gpus = [
        {"name": f"gpu-{gpu.minor}", "attributes": place(node, gpu.pci_address, gpu.numa_node)}
        for gpu in node.machine.gpus
    ]
    nics = [
        {
            "name": f"nic-{rail.number}",
            "attributes": {
                **place(node, rail.device.pci_address or "", rail.device.numa_node),
                "dra.net/rdma": {"bool": True},
            },
        }
        for rail in rails(node.machine)
    ]
    cpus = [
        {
            "name": f"cpudevnuma{zone.id:03}",
            "allowMultipleAllocations": True,
            "attributes": {f"{STANDARD}/numaNode": {"int": zone.id}},
            "capacity": {"dra.cpu/cpu": {"value": str(len(zone.cpus - zone.reserved))}},
        }
        for zone in node.zones
    ]
    return [
        slice_of(node, "gpu.nvidia.com", gpus),
        slice_of(node, "dra.net", nics),
        slice_of(node, "dra.cpu", cpus),
    ]


def device_class(driver: str) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": driver},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
    }


def pod(name: str, template: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": template}],
            "containers": [
                {
                    "name": "main",
                    "image": "example.com/train:1",
                    "resources": {"claims": [{"name": "devices"}]},
                }
            ],
        },
    }


def is_placed(fleet: Fleet, name: str) -> bool:
    return bool(fleet.get(f"{PODS}/{name}")["spec"].get("nodeName"))


def allocated(fleet: Fleet, name: str) -> Mapping[str, str]:
    """Return the device that each request of a pod's claim has got."""
    [claim] = (
        each
        for each in fleet.get(CLAIMS)["items"]
        if any(owner["name"] == name for owner in each["metadata"].get("ownerReferences") or ())
    )
    results = claim["status"]["allocation"]["devices"]["results"]
    return {each["request"]: each["device"] for each in results}


def apply(fleet: Fleet, node: ServedNode, folder: Path) -> None:
    """Apply what is written for claims."""
    [written] = generate([node], ["dra"])
    for name, text in written.texts():
        (folder / name).write_text(text)
    applied = fleet.kubectl("apply", "--server-side", "--validate=strict", "-k", str(folder))
    assert applied.returncode == 0, applied.stderr


def test_claim_templates_of_a_cpu_only_plan_are_applied(fleet: Fleet, tmp_path: Path) -> None:
    node = served("dgx-h100", {"extends": "training", "kubelet": {"resource_engine": "dra"}})
    apply(fleet, node, tmp_path)
    assert fleet.get(f"{TEMPLATES}/numaforge-cpu-{cpus_per_gpu(node)}")


def test_scheduler_allocates_a_gpu_with_rail_and_cpus_of_one_numa_node(fleet: Fleet, tmp_path: Path) -> None:
    node = served("dgx-h100", BY_CLAIMS)
    apply(fleet, node, tmp_path)
    fleet.add_node(node.name)
    for driver in ("gpu.nvidia.com", "dra.cpu"):
        fleet.send("POST", CLASSES, device_class(driver))
    for each in slices(node):
        fleet.send("POST", SLICES, each)
    live = fleet.get(SLICES)["items"]
    assert [*slice_deviations([node], live)] == []
    cpus = cpus_per_gpu(node)
    places = {f"gpu-{gpu.minor}": gpu for gpu in node.machine.gpus}
    named = {f"nic-{rail.number}": rail for rail in rails(node.machine)}
    for number in range(len(node.machine.gpus)):
        name = f"train-{number}"
        fleet.send("POST", PODS, pod(name, f"numaforge-nvidia-gpu-1-nic-1-cpu-{cpus}"))
        fleet.wait_until(lambda name=name: is_placed(fleet, name), f"{name} is not placed")  # type: ignore[misc]
        got = allocated(fleet, name)
        gpu, rail = places[got["gpu"]], named[got["nic"]]
        nic_root = root_of(node.machine, rail.device.pci_address or "")
        assert root_of(node.machine, gpu.pci_address) == nic_root
        assert got["cpus"] == f"cpudevnuma{gpu.numa_node:03}"
