"""Dynamic resource allocation: claims from rails, the CPU driver's values, taints for sick GPUs.

Sources: kubernetes-sigs/dra-driver-cpu (docs/user/configuration.md, device-attributes.md, pkg/device, the
charts of v0.2.0 and of August 2026: driver `dra.cpu`, its values, capacity and attributes), deviceattribute
of k8s.io/dynamic-resource-allocation (pcieRoot, pciBusID, numaNode), NVIDIA's driver (devices gpu-MINOR,
class gpu.nvidia.com), KEP-5055 (DeviceTaintRule).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from numaforge.cluster.schedulers.fleet import (
    MANAGED_BY,
    ServedFleet,
    ServedNode,
    Written,
    commented,
    root_of,
)
from numaforge.findings import Severity
from numaforge.findings.engine import judge
from numaforge.findings.gpus.rules import RULES
from numaforge.kubelet.admission.nvidia_resources import GPU
from numaforge.lib.kubelet_paths import ROOT_DIR
from numaforge.lib.kubernetes_objects import CPU_DRIVER
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.rails import rails
from numaforge.machine.topology.vendors import AMD, NVIDIA

NAME = "dra"
WHY = "claims for GPUs and NICs that share a PCIe root, the CPU driver's values, and GPUs to be left alone"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
NUMA_NODE = "resource.kubernetes.io/numaNode"
CPU_CAPACITY = "dra.cpu/cpu"
TAINT = "numaforge.io/sick"

API = "resource.k8s.io/v1"
GPU_CLASSES = {NVIDIA: "gpu.nvidia.com", AMD: "gpu.amd.com"}
NIC_CLASS = "numaforge-rdma"
NIC_DRIVER = "dra.net"
_OF_NVIDIA = 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu"'
_OF_NICS = 'device.driver == "dra.net" && device.attributes["dra.net"].rdma'
_VALUES = "dra-driver-cpu.values.yml"
_TAINT_VERSIONS = ((37, "v1"), (36, "v1beta2"), (33, "v1alpha3"))

Shape = tuple[str, int, int]
"""The vendor of the GPUs below one PCIe root, the number of these GPUs, and the number of rails."""


def documents(fleet: ServedFleet) -> Iterator[Written]:
    """Yield the CPU driver's values, claims along the rails, and taints of faulty GPUs.

    Nothing without a plan with claims.
    """
    if not any(node.plan.dra for node in fleet.nodes):
        fleet.nothing = "no plan hands out anything by claims"
        return
    yield from _cpu_values(fleet)
    yield from _claims(fleet)
    rules = tuple(_taint_rules(fleet))
    if rules:
        yield Written(
            "taints.yaml",
            "a sick GPU leaves service, not its node: delete the rule once it is mended. Before 1.37 the "
            "gate DRADeviceTaintRules has to be on; MIG devices of the GPU have names of their own",
            rules,
        )


def _cpu_values(fleet: ServedFleet) -> Iterator[Written]:
    """Yield the values of the CPU driver's chart: a release has one configuration for all nodes."""
    values_of_nodes = {node.name: text for node in fleet.nodes if (text := _values_of(node))}
    if not values_of_nodes:
        return
    [(most, _)] = Counter(values_of_nodes.values()).most_common(1)
    for name, text in values_of_nodes.items():
        if text != most:
            fleet.left_out[name] = (
                "its reserved CPUs are not those of the other nodes, and a release of the CPU driver's chart "
                "has one configuration: give these nodes the same profile, or a DaemonSet of their own"
            )
    why = (
        "helm install dra-driver-cpu ... -f this: its reservedCPUs are the kubelet's reservedSystemCPUs. The "
        "chart of 0.2.0 passes over `driverConfig`, which later ones have; `args` counts in both"
    )
    if any(node.kubelet_root != ROOT_DIR for node in fleet.nodes if _values_of(node)):
        why += ". kubeletRootDir needs a later release: 0.2.0 looks in /var/lib/kubelet alone"
    yield Written(_VALUES, why, text=f"{commented(why)}{most}")


def _values_of(node: ServedNode) -> str:
    driver = node.plan.dra.cpus if node.plan.dra else None
    if driver is None:
        return ""
    config = {"cpuDeviceMode": driver.device_mode}
    if driver.device_mode == "grouped":
        config["groupBy"] = driver.group_by
    if driver.reserved_cpus:
        config["reservedCPUs"] = driver.reserved_cpus
    values: dict[str, Any] = {"args": config}
    if node.kubelet_root != ROOT_DIR:
        values["kubeletRootDir"] = node.kubelet_root
    return yaml.safe_dump(values, sort_keys=False)


def _claims(fleet: ServedFleet) -> Iterator[Written]:
    shapes: set[Shape] = set()
    templates_of_one: list[dict[str, Any]] = []
    for node in fleet.nodes:
        if not (node.plan.dra and node.plan.dra.gpus and node.machine.gpus):
            templates_of_one += _cpu_templates(fleet, node)
            continue
        node_roots = {*roots(node.machine).values()}
        shapes |= node_roots
        if not node_roots:
            templates_of_one += _single_templates(node)
            fleet.left_out[node.name] = (
                "its claims have no NIC: no GPU of it shares a PCIe root with an RDMA device, as far as is "
                "known"
            )
    if not shapes and not templates_of_one:
        return
    if shapes:
        why = "RDMA devices as DRANET has them; GPUs have their driver's class"
        yield Written("classes.yaml", why, (_device_class(NIC_CLASS, _OF_NICS, dict(MANAGED_BY)),))
    templates = {
        template["metadata"]["name"]: template for shape in sorted(shapes) for template in _templates(shape)
    }
    for template in (*templates_of_one, *(one for node in fleet.nodes for one in _with_cpus(node))):
        templates.setdefault(template["metadata"]["name"], template)
    yield Written(
        "claims.yaml",
        "each asks for devices below one PCIe root, as many as the rails of these nodes have there, or of "
        "one NUMA node; those with CPUs are for one container, which also requests as many CPUs. What is "
        "bound to a NUMA node needs drivers whose devices have resource.kubernetes.io/numaNode: the CPU "
        "driver after 0.2.0",
        tuple(templates.values()),
    )


def planned_classes(extended_resources: Iterable[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield the DeviceClasses of these claims: those of the drivers, and the one for NICs.

    `extended_resources` are those that claims serve without a device plugin.
    """
    yield _device_class(GPU_CLASSES[NVIDIA], _OF_NVIDIA, resource=GPU if GPU in extended_resources else None)
    for name in (GPU_CLASSES[AMD], CPU_DRIVER):
        yield _device_class(name, f'device.driver == "{name}"')
    yield _device_class(NIC_CLASS, _OF_NICS)


def _device_class(
    name: str, selector: str, labels: Mapping[str, str] | None = None, resource: str | None = None
) -> dict[str, Any]:
    spec: dict[str, Any] = {"selectors": [{"cel": {"expression": selector}}]}
    if resource is not None:
        spec["extendedResourceName"] = resource
    metadata = {"name": name, "labels": labels} if labels else {"name": name}
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": metadata, "spec": spec}


def roots(machine: NodeTopology) -> dict[str, Shape]:
    """Return the PCIe roots below which GPUs have a rail, with the shape of each."""
    gpus: dict[str, list[str]] = {}
    vendors = {gpu.pci_address: gpu.vendor for gpu in machine.gpus}
    for address in vendors:
        if root := root_of(machine, address):
            gpus.setdefault(root, []).append(address)
    nics = Counter(
        root
        for rail in rails(machine)
        if rail.gpus and (root := root_of(machine, rail.device.pci_address or ""))
    )
    return {
        root: (vendors[listed[0]], len(listed), nics[root])
        for root, listed in sorted(gpus.items())
        if nics[root]
        and len({vendors[address] for address in listed}) == 1
        and vendors[listed[0]] in GPU_CLASSES
    }


def _templates(shape: Shape) -> Iterator[dict[str, Any]]:
    """Yield a claim for one GPU and one rail, and one for all of a root."""
    vendor, gpus, nics = shape
    for count, rail_count in dict.fromkeys(((1, 1), (gpus, nics))):
        requests = [_request("gpu", GPU_CLASSES[vendor], count), _request("nic", NIC_CLASS, rail_count)]
        constraints = [{"requests": ["gpu", "nic"], "matchAttribute": PCIE_ROOT}]
        yield _template(_name(vendor, count, rail_count), requests, constraints)


def _single_templates(node: ServedNode) -> Iterator[dict[str, Any]]:
    """Yield a claim for a GPU, one for those of a NUMA node, and one for a GPU with its share of the CPUs.

    Where GPU memory forms NUMA nodes of its own, a GPU's NUMA node is not that of its CPUs.
    """
    vendors = {gpu.vendor for gpu in node.machine.gpus}
    if len(vendors) > 1 or not (vendors & GPU_CLASSES.keys()):
        return
    [vendor] = vendors
    device_class = GPU_CLASSES[vendor]
    yield _template(_name(vendor, 1), [_request("gpu", device_class, 1)])
    counts = Counter(gpu.numa_node for gpu in node.machine.gpus)
    if None in counts or not all(numa_node.cpus for numa_node in node.machine.numa_nodes):
        return
    together = [{"requests": ["gpu"], "matchAttribute": NUMA_NODE}]
    if (count := min(counts.values())) > 1:
        yield _template(_name(vendor, count), [_request("gpu", device_class, count)], together)
    if cpus := _cpus_to_claim(node):
        requests = [_request("gpu", device_class, 1), _cpu_request(cpus)]
        constraints = [{"requests": ["gpu", "cpus"], "matchAttribute": NUMA_NODE}]
        yield _template(f"{_name(vendor, 1)}-cpu-{cpus}", requests, constraints)


def _cpus_to_claim(node: ServedNode) -> int:
    """Return the CPUs to claim with each GPU; 0 unless the CPU driver groups by NUMA node."""
    driver = node.plan.dra.cpus if node.plan.dra else None
    if driver is None or (driver.device_mode, driver.group_by) != ("grouped", "numanode"):
        return 0
    return cpus_per_gpu(node)


def _cpu_templates(fleet: ServedFleet, node: ServedNode) -> Iterator[dict[str, Any]]:
    """Yield a claim for CPUs alone: a GPU's share, else the least of the NUMA nodes.

    An allocation has at most 32 devices, too few for claims of single CPUs.
    """
    driver = node.plan.dra.cpus if node.plan.dra else None
    if driver is None:
        return
    if driver.device_mode != "grouped":
        fleet.leave_out(node, "there is no claim for it: its CPU driver offers a device for each CPU")
        return
    least = min(filter(None, (len(zone.cpus - zone.reserved) for zone in node.zones)), default=0)
    if cpus := cpus_per_gpu(node) or least:
        yield _template(f"numaforge-cpu-{cpus}", [_cpu_request(cpus)])


def _cpu_request(count: int) -> dict[str, Any]:
    capacity = {"requests": {CPU_CAPACITY: str(count)}}
    return {"name": "cpus", "exactly": {"deviceClassName": CPU_DRIVER, "capacity": capacity}}


def _with_cpus(node: ServedNode) -> Iterator[dict[str, Any]]:
    """Yield a claim for a GPU with its rail and its share of the CPUs of its NUMA node."""
    gpu_roots = roots(node.machine)
    cpus = _cpus_to_claim(node)
    if not (node.plan.dra and node.plan.dra.gpus and gpu_roots and cpus):
        return
    vendor = next(iter(gpu_roots.values()))[0]
    requests = [_request("gpu", GPU_CLASSES[vendor], 1), _request("nic", NIC_CLASS, 1), _cpu_request(cpus)]
    constraints = [
        {"requests": ["gpu", "nic"], "matchAttribute": PCIE_ROOT},
        {"requests": ["gpu", "cpus"], "matchAttribute": NUMA_NODE},
    ]
    yield _template(f"{_name(vendor, 1, 1)}-cpu-{cpus}", requests, constraints)


def cpus_per_gpu(node: ServedNode) -> int:
    """Return how many CPUs of its NUMA node each GPU can have, in whole cores; 0 where unknown."""
    counts = Counter(gpu.numa_node for gpu in node.machine.gpus)
    if not counts or None in counts:
        return 0
    free = {zone.id: len(zone.cpus - zone.reserved) for zone in node.zones}
    threads = max((len(core.cpus) for core in node.machine.cores), default=1)
    least = min(free.get(node_id, 0) // count for node_id, count in counts.items() if node_id is not None)
    return least - least % threads


def _name(vendor: str, gpus: int, nics: int = 0) -> str:
    maker = {NVIDIA: "nvidia", AMD: "amd"}[vendor]
    return f"numaforge-{maker}-gpu-{gpus}" + (f"-nic-{nics}" if nics else "")


def _request(name: str, device_class: str, count: int) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": device_class, "count": count}}


def _template(
    name: str, requests: Sequence[Mapping[str, Any]], constraints: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    bound = {"constraints": list(constraints)} if constraints else {}
    return {
        "apiVersion": API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default", "labels": dict(MANAGED_BY)},
        "spec": {"spec": {"devices": {"requests": list(requests), **bound}}},
    }


def _taint_rules(fleet: ServedFleet) -> Iterator[dict[str, Any]]:
    version = taint_version(fleet)
    for node in fleet.nodes:
        if not (node.plan.dra and node.plan.dra.gpus):
            continue
        for address, ids in sorted(sick_gpus(node.machine).items()):
            gpu = next(listed_gpu for listed_gpu in node.machine.gpus if listed_gpu.pci_address == address)
            if gpu.minor is None or version is None:
                why = (
                    "its minor number is not known"
                    if gpu.minor is None
                    else "this Kubernetes has no such rule"
                )
                fleet.left_out[node.name] = f"GPU {address} is sick ({', '.join(ids)}), and {why}"
                continue
            yield {
                "apiVersion": f"resource.k8s.io/{version}",
                "kind": "DeviceTaintRule",
                "metadata": {
                    "name": f"numaforge-{node.name}-gpu-{gpu.minor}",
                    "labels": dict(MANAGED_BY),
                    "annotations": {f"{TAINT}-gpu": address, f"{TAINT}-findings": ",".join(ids)},
                },
                "spec": {
                    "deviceSelector": {
                        "driver": GPU_CLASSES[NVIDIA],
                        "pool": node.name,
                        "device": f"gpu-{gpu.minor}",
                    },
                    "taint": {"key": TAINT, "value": ids[0], "effect": "NoSchedule"},
                },
            }


def taint_version(fleet: ServedFleet) -> str | None:
    """Return the version of DeviceTaintRule that an API server of the newest planned version serves."""
    return next((version for first, version in _TAINT_VERSIONS if fleet.minor >= first), None)


def sick_gpus(machine: NodeTopology) -> dict[str, tuple[str, ...]]:
    """Return the GPUs that a rule of `audit --only gpus` finds unfit, by PCI address, with the rules."""
    sick: dict[str, list[str]] = {}
    nvidia_addresses = {gpu.pci_address for gpu in machine.gpus if gpu.vendor == NVIDIA}
    for rule in RULES:
        if rule.severity is Severity.ERROR:
            for finding in judge(rule, machine).findings:
                if finding.where in nvidia_addresses:
                    sick.setdefault(finding.where, []).append(rule.id)
    return {address: tuple(ids) for address, ids in sick.items()}
