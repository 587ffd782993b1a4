"""Dynamic resource allocation: claims from rails, the CPU driver's values, taints for sick GPUs.

Sources: kubernetes-sigs/dra-driver-cpu (docs/user/configuration.md, device-attributes.md, pkg/device, the
charts of v0.2.0 and of August 2026: driver `dra.cpu`, its values, capacity and attributes), deviceattribute
of k8s.io/dynamic-resource-allocation (pcieRoot, pciBusID, numaNode), NVIDIA's driver (devices gpu-MINOR,
class gpu.nvidia.com), KEP-5055 (DeviceTaintRule).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from numaforge.cluster.schedulers.fleet import ServedFleet, ServedNode, Written, commented, root_of
from numaforge.findings import Severity
from numaforge.findings.engine import judge
from numaforge.findings.gpus.rules import RULES
from numaforge.kubelet.admission.nvidia_resources import GPU
from numaforge.lib.kubelet_paths import ROOT_DIR
from numaforge.lib.kubernetes_objects import CPU_DRIVER, MANAGED_BY, Manifest, manifest
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.rails import rails
from numaforge.machine.topology.vendors import AMD, NVIDIA

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
_MAKERS = {NVIDIA: "nvidia", AMD: "amd"}
_VALUES = "dra-driver-cpu.values.yml"
_TAINT_VERSIONS = ((37, "v1"), (36, "v1beta2"), (33, "v1alpha3"))

Shape = tuple[str, int, int]
"""The vendor of the GPUs below one PCIe root, the number of these GPUs, and the number of rails."""


def documents(fleet: ServedFleet) -> Iterator[Written]:
    """Yield the CPU driver's values, claims along the rails, taints of faulty GPUs; none without claims."""
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
    driver = node.cpu_driver
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
    single: list[_Claim] = []
    with_cpus: list[_Claim] = []
    for node in fleet.nodes:
        if not (node.claims_gpus and node.machine.gpus):
            single += _cpu_claims(fleet, node)
            continue
        node_shapes = [*roots(node.machine).values()]
        shapes.update(node_shapes)
        if not node_shapes:
            single += _claims_without_nic(node)
            fleet.left_out[node.name] = (
                "its claims have no NIC: no GPU of it shares a PCIe root with an RDMA device, as far as is "
                "known"
            )
        elif cpus := _cpus_to_claim(node):
            with_cpus.append(_Claim(node_shapes[0][0], 1, 1, cpus))
    along_rails = (
        claim
        for vendor, gpus, nics in sorted(shapes)
        for claim in (_Claim(vendor, 1, 1), _Claim(vendor, gpus, nics))
    )
    claims = dict.fromkeys((*along_rails, *single, *with_cpus))
    if not claims:
        return
    if shapes:
        why = "RDMA devices as DRANET has them; GPUs have their driver's class"
        yield Written("classes.yaml", why, (_device_class(NIC_CLASS, _OF_NICS, labels=MANAGED_BY),))
    yield Written(
        "claims.yaml",
        "each asks for devices below one PCIe root, as many as the rails of these nodes have there, or of "
        "one NUMA node; those with CPUs are for one container, which also requests as many CPUs. What is "
        "bound to a NUMA node needs drivers whose devices have resource.kubernetes.io/numaNode: the CPU "
        "driver after 0.2.0",
        tuple(claim.template() for claim in claims),
    )


def planned_classes(extended_resources: Iterable[str] = ()) -> Iterator[Manifest]:
    """Yield the DeviceClasses of the drivers and of NICs; GPUs may serve one of the `extended_resources`."""
    yield _device_class(GPU_CLASSES[NVIDIA], _OF_NVIDIA, GPU if GPU in extended_resources else None)
    for name in (GPU_CLASSES[AMD], CPU_DRIVER):
        yield _device_class(name, f'device.driver == "{name}"')
    yield _device_class(NIC_CLASS, _OF_NICS)


def _device_class(
    name: str, selector: str, resource: str | None = None, *, labels: Mapping[str, str] | None = None
) -> Manifest:
    spec: dict[str, Any] = {"selectors": [{"cel": {"expression": selector}}]}
    if resource is not None:
        spec["extendedResourceName"] = resource
    return manifest(API, "DeviceClass", name, labels=labels or {}, spec=spec)


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


class _Claim(NamedTuple):
    """A claim for GPUs, rails and CPUs: rails below the PCIe root of the GPUs, CPUs of their NUMA node."""

    vendor: str = ""
    gpus: int = 0
    nics: int = 0
    cpus: int = 0

    def template(self) -> Manifest:
        name, requests, constraints = "numaforge", [], []
        if self.gpus:
            name += f"-{_MAKERS[self.vendor]}-gpu-{self.gpus}"
            requests.append(_request("gpu", GPU_CLASSES[self.vendor], count=self.gpus))
        if self.nics:
            name += f"-nic-{self.nics}"
            requests.append(_request("nic", NIC_CLASS, count=self.nics))
            constraints.append({"requests": ["gpu", "nic"], "matchAttribute": PCIE_ROOT})
        if self.cpus:
            name += f"-cpu-{self.cpus}"
            requests.append(
                _request("cpus", CPU_DRIVER, capacity={"requests": {CPU_CAPACITY: str(self.cpus)}})
            )
        if self.gpus and self.cpus:
            constraints.append({"requests": ["gpu", "cpus"], "matchAttribute": NUMA_NODE})
        elif self.gpus > 1 and not self.nics:
            constraints.append({"requests": ["gpu"], "matchAttribute": NUMA_NODE})
        devices = {"requests": requests, **({"constraints": constraints} if constraints else {})}
        return manifest(API, "ResourceClaimTemplate", name, "default", spec={"spec": {"devices": devices}})


def _request(name: str, device_class: str, **amount: Any) -> Manifest:
    return {"name": name, "exactly": {"deviceClassName": device_class, **amount}}


def _claims_without_nic(node: ServedNode) -> Iterator[_Claim]:
    """Yield a claim for a GPU, one for those of a NUMA node, and one for a GPU with its share of the CPUs.

    Where GPU memory forms NUMA nodes of its own, a GPU's NUMA node is not that of its CPUs.
    """
    vendors = {gpu.vendor for gpu in node.machine.gpus}
    if len(vendors) > 1 or not (vendors & GPU_CLASSES.keys()):
        return
    [vendor] = vendors
    yield _Claim(vendor, 1)
    counts = Counter(gpu.numa_node for gpu in node.machine.gpus)
    if None in counts or not all(numa_node.cpus for numa_node in node.machine.numa_nodes):
        return
    yield _Claim(vendor, min(counts.values()))
    yield _Claim(vendor, 1, cpus=_cpus_to_claim(node))


def _cpus_to_claim(node: ServedNode) -> int:
    """Return the CPUs to claim with each GPU; 0 unless the CPU driver groups by NUMA node."""
    driver = node.cpu_driver
    if driver is None or (driver.device_mode, driver.group_by) != ("grouped", "numanode"):
        return 0
    return cpus_per_gpu(node)


def _cpu_claims(fleet: ServedFleet, node: ServedNode) -> Iterator[_Claim]:
    """Yield a claim for CPUs alone: a GPU's share, else the least of the NUMA nodes.

    An allocation has at most 32 devices, too few for claims of single CPUs.
    """
    if node.cpu_driver is None:
        return
    if node.cpu_driver.device_mode != "grouped":
        fleet.leave_out(node, "there is no claim for it: its CPU driver offers a device for each CPU")
        return
    least = min(filter(None, (len(zone.cpus - zone.reserved) for zone in node.zones)), default=0)
    if cpus := cpus_per_gpu(node) or least:
        yield _Claim(cpus=cpus)


def cpus_per_gpu(node: ServedNode) -> int:
    """Return how many CPUs of its NUMA node each GPU can have, in whole cores; 0 where unknown."""
    counts = Counter(gpu.numa_node for gpu in node.machine.gpus)
    if not counts or None in counts:
        return 0
    free = {zone.id: len(zone.cpus - zone.reserved) for zone in node.zones}
    threads = max((len(core.cpus) for core in node.machine.cores), default=1)
    least = min(free.get(node_id, 0) // count for node_id, count in counts.items() if node_id is not None)
    return least - least % threads


def _taint_rules(fleet: ServedFleet) -> Iterator[Manifest]:
    version = next((version for first, version in _TAINT_VERSIONS if fleet.minor >= first), None)
    for node in fleet.nodes:
        minors = {gpu.pci_address: gpu.minor for gpu in node.machine.gpus}
        for address, ids in sorted(sick_gpus(node.machine).items()) if node.claims_gpus else ():
            minor = minors[address]
            if minor is None or version is None:
                why = "its minor number is not known" if minor is None else "this Kubernetes has no such rule"
                fleet.left_out[node.name] = f"GPU {address} is sick ({', '.join(ids)}), and {why}"
                continue
            device = {"driver": GPU_CLASSES[NVIDIA], "pool": node.name, "device": f"gpu-{minor}"}
            taint = {"key": TAINT, "value": ids[0], "effect": "NoSchedule"}
            rule = manifest(
                f"resource.k8s.io/{version}",
                "DeviceTaintRule",
                f"numaforge-{node.name}-gpu-{minor}",
                spec={"deviceSelector": device, "taint": taint},
            )
            rule["metadata"]["annotations"] = {f"{TAINT}-gpu": address, f"{TAINT}-findings": ",".join(ids)}
            yield rule


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
