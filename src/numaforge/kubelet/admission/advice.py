"""What would admit a refused pod."""

from collections.abc import Iterator
from dataclasses import replace

from numaforge.kubelet.admission.node import Admission, Node
from numaforge.kubelet.admission.pod import MEMORY, Pod
from numaforge.kubelet.admission.refusal import SMT_ALIGNMENT, UNEXPECTED
from numaforge.kubelet_minors.values.pages import in_pages
from numaforge.lib.quantity import format_bytes


def advice(node: Node, pod: Pod, refusal: Admission) -> Iterator[str]:
    """Yield what would admit a pod that the node has refused."""
    if refusal.reason == SMT_ALIGNMENT:
        size = node.machine.cpus.cpus_per_core
        yield f"full-pcpus-only gives whole cores: ask for a multiple of {size} CPUs in each container"
    for resource in filter(in_pages, refusal.in_the_way):
        total = node.allocatable.amount(resource)
        has = f"{format_bytes(total)} of {resource}, on all NUMA nodes" if total else f"no {resource}"
        yield (
            f"the node has {has}: reserve more pages (hugepages in a profile, or on the kernel's command "
            "line), or ask for less"
        )
    if refusal.reason == UNEXPECTED and MEMORY in {*refusal.in_the_way} - {*node.short_of(pod)}:
        yield (  # kubernetes/kubernetes#120733
            "no NUMA node has that much free, and the memory manager takes memory of several only where no "
            "pod has some of one alone: ask for less than is free on a NUMA node, or start this pod first"
        )
    # kubernetes/kubernetes#123816: hints have to contain the CPUs that an init container leaves to its pod.
    lasting = tuple(one for one in pod.containers if one.restartable or not one.init)
    at_app = node.settings.topology_scope == "container" and {*refusal.hint} & {
        one.name for one in pod.app_containers
    }
    if at_app and node.fork().admit(replace(pod, name="", containers=lasting)).admitted:
        yield (
            "its init containers are in the way: the app containers have to take over their CPUs, and so "
            "stay on their NUMA node; use topologyManagerScope: pod, or no whole number of CPUs in them"
        )
