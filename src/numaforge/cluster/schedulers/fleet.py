"""The nodes that files are written for, and what all systems share: NUMA zones, policies, names."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from textwrap import wrap
from typing import Any, NamedTuple

from numaforge.kubelet.admission.device_manager import Inventory
from numaforge.kubelet_minors.values.pages import pages_of
from numaforge.kubelet_minors.versions import LATEST_MINOR, KubeletVersion
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import PlanError
from numaforge.lib.kubelet_paths import ROOT_DIR
from numaforge.lib.kubernetes_objects import WIDTH, Manifest, manifest
from numaforge.lib.quantity import parse_quantity
from numaforge.machine.topology.model import NodeTopology
from numaforge.node.bundle import checksum
from numaforge.planning.as_planned import machine_as_planned
from numaforge.planning.document import dumps
from numaforge.planning.plan import NodePlan
from numaforge.roles.device_plugin.plan import devices_of
from numaforge.roles.dra.plan import CpuDriverPlan

_DEFAULT_POLICY, _DEFAULT_SCOPE = "none", "container"


class Zone(NamedTuple):
    """A NUMA node as schedulers see it: CPUs, memory and huge pages in bytes, devices by resource.

    `reserved` are the CPUs that no pod gets; `pod_memory_bytes` is without reserved memory and huge pages.
    `distances` are to each NUMA node, by id.
    """

    id: int
    cpus: frozenset[int]
    reserved: frozenset[int]
    memory_bytes: int
    pod_memory_bytes: int
    pages_bytes: Mapping[str, int]
    devices: Mapping[str, int]
    distances: Mapping[int, int]


@dataclass(frozen=True)
class ServedNode:
    """A node as its plan makes it; `plan_id` identifies the plan."""

    machine: NodeTopology
    plan: NodePlan
    devices: Inventory
    plan_id: str

    @classmethod
    def of(cls, machine: NodeTopology, plan: NodePlan) -> "ServedNode":
        """Return the planned node of a machine, captured before or after the plan was applied."""
        machine_after = machine_as_planned(machine, plan)
        return cls(machine_after, plan, devices_of(machine_after, plan), checksum(dumps(plan)))

    @property
    def hostname(self) -> str | None:
        """The host's name."""
        return self.machine.hostname

    @property
    def name(self) -> str:
        """The name of its Node."""
        return (self.machine.hostname or "").lower()

    @property
    def settings(self) -> Mapping[str, Any]:
        """The kubelet settings of the plan."""
        return self.plan.kubelet.settings if self.plan.kubelet else {}

    @property
    def kubelet_root(self) -> str:
        return self.plan.kubelet.root_dir if self.plan.kubelet else ROOT_DIR

    @property
    def policy(self) -> str:
        """The topology manager's policy, as the kubelet writes it."""
        return str(self.settings.get("topologyManagerPolicy", _DEFAULT_POLICY))

    @property
    def scope(self) -> str:
        """The topology manager's scope, as the kubelet writes it."""
        return str(self.settings.get("topologyManagerScope", _DEFAULT_SCOPE))

    @property
    def cpu_manager(self) -> str:
        """The CPU manager's policy, as the kubelet writes it."""
        return str(self.settings.get("cpuManagerPolicy", "none"))

    @property
    def reserved_cpus(self) -> str:
        """The CPUs that no pod gets, as a cpulist."""
        return format_cpulist(self.plan.cpus.reserved)

    @property
    def cpu_driver(self) -> CpuDriverPlan | None:
        """The planned driver of CPUs by claims."""
        return self.plan.dra.cpus if self.plan.dra else None

    @property
    def claims_gpus(self) -> bool:
        """Whether claims give out its GPUs."""
        return bool(self.plan.dra and self.plan.dra.gpus)

    @property
    def clique(self) -> str | None:
        """The NVLink domain of all GPUs, "<cluster uuid>.<clique id>"; None without one."""
        fabrics = {gpu.fabric for gpu in self.machine.gpus}
        return next(iter(fabrics)) if len(fabrics) == 1 else None

    @cached_property
    def zones(self) -> tuple[Zone, ...]:
        """The NUMA nodes, by id."""
        zones = []
        planned = {node.id: node for node in self.plan.memory.numa_nodes}
        for node in self.machine.numa_nodes:
            share = planned.get(node.id)
            if share is None:
                raise PlanError(
                    f"lacks NUMA node {node.id}, which the machine {self.name} has",
                    where="plan.memory.numa_nodes",
                    remedy="plan the host again, or give the machine that the plan was made for",
                )
            pools = self.plan.hugepages.unchanged(node.id) | self.plan.hugepages.planned(node.id)
            pages = {size: int(count * parse_quantity(size)) for size, count in pools.items() if count}
            memory = node.memory_bytes or 0
            near = {  # one near two nodes counts in both, one near none in none
                resource: sum(node.id in (device.numa_nodes or ()) for device in listed)
                for resource, listed in self.devices.items()
            }
            zone = Zone(
                id=node.id,
                cpus=frozenset(node.cpus),
                reserved=frozenset(node.cpus) & self.plan.cpus.reserved,
                memory_bytes=memory,
                pod_memory_bytes=max(0, memory - share.reserved_memory_bytes - sum(pages.values())),
                pages_bytes=pages,
                devices={resource: count for resource, count in near.items() if count},
                distances=node.distances,
            )
            zones.append(zone)
        return tuple(zones)

    @property
    def largest_pod(self) -> dict[str, str]:
        """The requests of the largest pod that this node admits, with the most devices."""
        admitted = [pod for pod in self.plan.largest_pods if pod.cpus]
        if not admitted:
            return {}
        most = max(admitted, key=lambda pod: (pod.devices, pod.cpus))
        requests = {"cpu": str(most.cpus), "memory": str(most.memory_bytes)}
        requests |= {pages_of(size): str(count) for size, count in most.hugepages_bytes.items() if count}
        return requests | ({most.resource: str(most.devices)} if most.resource else {})


@dataclass(frozen=True)
class Written:
    """A file of a system: its name, its reason, and its documents, or `text` where it is not YAML.

    An `example` is for people to copy and is not compared with a cluster. `compared`, in place of the
    documents, is what the file's reader makes of them, with None for what must be unset.
    """

    name: str
    why: str
    documents: tuple[Mapping[str, Any], ...] = ()
    text: str = ""
    example: bool = False
    compared: tuple[Mapping[str, Any], ...] = ()


@dataclass
class ServedFleet:
    """The nodes; `left_out` is what a system omits of each and why, `nothing` why it has no file, else ""."""

    nodes: tuple[ServedNode, ...]
    left_out: dict[str, str] = field(default_factory=dict)
    gang_version: str | None = None
    """The version of Kubernetes' own PodGroup that the cluster serves, `v1beta1`.

    Empty where it serves none, None where the cluster was not asked."""
    nothing: str = ""

    @property
    def minor(self) -> int:
        """The minor of the newest planned kubelet; the latest known where no plan has one."""
        planned = (node.plan.kubelet for node in self.nodes if node.plan.kubelet)
        return max(
            (KubeletVersion.parse(planned_node.version).minor for planned_node in planned),
            default=LATEST_MINOR,
        )

    def leave_out(self, node: ServedNode, why: str) -> None:
        """Record what is left out of a node, after earlier records."""
        earlier = self.left_out.get(node.name)
        self.left_out[node.name] = f"{earlier}; {why}" if earlier else why

    def sayable(self) -> Iterator[ServedNode]:
        """Yield the nodes that lists by NUMA node can express; record the others as left out."""
        for node in self.nodes:
            ids = [numa_node.id for numa_node in node.machine.numa_nodes]
            if empty := sum(not numa_node.cpus for numa_node in node.machine.numa_nodes):
                why = f"{empty} of its NUMA nodes have no CPUs, and lists by NUMA node renumber them"
                self.leave_out(node, why)
            elif ids != [*range(len(ids))]:
                why = f"its NUMA nodes are {format_cpulist(ids)}, and lists by NUMA node count from 0"
                self.leave_out(node, why)
            else:
                yield node


def commented(text: str) -> str:
    return "".join(f"# {line}\n" for line in wrap(text, WIDTH - 2))


def tolerations(nodes: Iterable[ServedNode]) -> list[dict[str, str]]:
    """Return tolerations of the taints that these nodes register."""
    taints = {
        (taint["key"], taint["effect"]): None
        for node in nodes
        for taint in node.settings.get("registerWithTaints") or ()
    }
    return [{"key": key, "operator": "Exists", "effect": effect} for key, effect in sorted(taints)]


def root_of(machine: NodeTopology, address: str) -> str | None:
    """Return the PCIe root of a device as in sysfs, `pci0000:15`; None where unknown."""
    path = machine.pci_paths.get(address) or ()
    return path[0] if path and path[0].startswith("pci") else None


def node_patch(
    node: ServedNode, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None
) -> Manifest:
    """Return a Node with these labels and annotations alone, for a server-side apply."""
    patch = manifest("v1", "Node", node.name, labels=labels)
    if annotations:
        patch["metadata"]["annotations"] = dict(annotations)
    return patch


def example_job(name: str, count: int, template: Mapping[str, Any]) -> Manifest:
    """Return the Job of an example's pods, all in parallel, each with its own index."""
    spec = {"parallelism": count, "completions": count, "completionMode": "Indexed", "template": template}
    return manifest("batch/v1", "Job", name, "default", {}, spec=spec)


def gang_pod(fleet: ServedFleet) -> dict[str, str]:
    """Return what each pod of a gang can ask for, with one pod per node: what all nodes have."""
    largest = [node.largest_pod for node in fleet.nodes]
    common = [name for name in largest[0] if all(name in pod for pod in largest)]
    return {name: str(min(int(pod[name]) for pod in largest)) for name in common}


def gang_template(fleet: ServedFleet, labels: Mapping[str, str], **spec: Any) -> dict[str, Any]:
    """Return the template of a gang's pods, selected by their labels: no two share a node.

    A scheduler may see room for a second pod where the kubelet would refuse it. Their container is
    Guaranteed, because the kubelet aligns only that.
    """
    resources = gang_pod(fleet)
    anti_affinity = {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "metadata": {"labels": dict(labels)},
        "spec": {
            **spec,
            "restartPolicy": "OnFailure",
            "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [anti_affinity]}
            },
            "containers": [
                {
                    "name": "main",
                    "image": "example.com/train:1",
                    "resources": {"limits": dict(resources), "requests": dict(resources)},
                }
            ],
        },
    }
