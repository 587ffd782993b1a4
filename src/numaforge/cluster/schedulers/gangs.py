"""Kubernetes' own gangs: a PodGroup that its scheduler starts as a whole.

Source: k8s.io/api scheduling/v1beta1 and v1alpha3 (1.37), v1alpha2 (1.36). A PodGroup, and a pod's
`schedulingGroup`, are the same in all three; no server serves v1alpha2 and one of the later ones.
"""

from collections.abc import Iterator

from numaforge.cluster.schedulers.fleet import ServedFleet, Written, example_job, gang_template
from numaforge.lib.kubernetes_objects import CLIQUE, Manifest, manifest

WHY = "an example of a gang of Kubernetes' own scheduler: its pods are placed together or not at all"
GROUP = "scheduling.k8s.io"
VERSIONS = ("v1beta1", "v1alpha3", "v1alpha2")
"""The versions with a PodGroup, the best first."""

_GANG = "numaforge-gang"
_WHY = (
    "the API server has to serve scheduling.k8s.io/{version} (--runtime-config), and it and the scheduler "
    "need the gate GenericWorkload: a server without it drops schedulingGroup, and each pod starts alone"
)
_WHY_TOPOLOGY = ". Nodes of one NVLink domain are meant by `topology`: gate TopologyAwareWorkloadScheduling"
_NOT_SERVED = f"the cluster serves no PodGroup of {GROUP}: its API server needs --runtime-config and the gate"
_TOO_OLD = "Kubernetes has no PodGroup of its own before 1.36"
_FIRST_MINORS = ((37, "v1beta1"), (36, "v1alpha2"))


def documents(fleet: ServedFleet) -> Iterator[Written]:
    """Yield the PodGroup and Job of the version that is served, else of the newest kubelet, from 1.36 on."""
    version = fleet.gang_version
    if version is None:
        version = next((api_version for first, api_version in _FIRST_MINORS if fleet.minor >= first), "")
    if not version:
        fleet.nothing = _TOO_OLD if fleet.gang_version is None else _NOT_SERVED
        return
    cliques = {node.clique for node in fleet.nodes}
    shared = len(cliques) == 1 and None not in cliques
    spec: Manifest = {"schedulingPolicy": {"gang": {"minCount": len(fleet.nodes)}}}
    if shared:
        spec["schedulingConstraints"] = {"topology": [{"key": CLIQUE}]}
    group = manifest(f"{GROUP}/{version}", "PodGroup", _GANG, "default", {}, spec=spec)
    member_of = {"podGroupName": _GANG}
    template = gang_template(fleet, {"app.kubernetes.io/name": _GANG}, schedulingGroup=member_of)
    why = _WHY.format(version=version) + (_WHY_TOPOLOGY if shared else "")
    yield Written("example.yaml", why, (group, example_job(_GANG, len(fleet.nodes), template)), example=True)
