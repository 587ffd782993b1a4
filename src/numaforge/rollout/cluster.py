"""What a roll-out reads from a Kubernetes cluster, and the few changes it makes there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from numaforge.lib.errors import NumaforgeError

_STATIC_UID = "kubernetes.io/config.hash"


class ClusterError(NumaforgeError):
    """The cluster refuses a request, or cannot be reached."""


class ApiUnreachableError(ClusterError):
    """The API server does not answer, or is unavailable for now (5xx, 429 to a request of any kind)."""


class ConflictError(ClusterError):
    """The object has changed since it was read, or exists already."""


class NotFoundError(ClusterError):
    """There is no such object."""


class ForbiddenError(ClusterError):
    """This login may not do that; the message names verb and resource."""


@dataclass(frozen=True)
class Taint:
    """A taint of a node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True)
class Toleration:
    """A toleration of a pod; None where the field is not set."""

    key: str | None
    operator: str
    value: str | None
    effect: str | None


@dataclass(frozen=True)
class LabelWrite:
    """The field manager that wrote a label last, and when (RFC 3339, by the API server's clock)."""

    manager: str
    time: str


@dataclass(frozen=True)
class ClusterNode:
    """A Node object. `ready`: its Ready condition is True; `allocatable` holds quantities.

    `capacity` includes the devices that their plugin considers unhealthy. `label_writes` has the last writers
    of NVIDIA's labels. `machine_id`, `boot_id` and `system_uuid` identify the machine of its kubelet, ""
    where not reported; `addresses` are the names and IP addresses in its status, and `provider_id` is the
    machine's ID in its cloud. `etcd_voter` is the condition EtcdIsVoter of k3s and RKE2, None without it.
    """

    name: str
    uid: str
    resource_version: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    ready_message: str = ""
    allocatable: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    label_writes: Mapping[str, LabelWrite] = field(default_factory=dict)
    deleting: bool = False
    machine_id: str = ""
    boot_id: str = ""
    system_uuid: str = ""
    addresses: tuple[str, ...] = ()
    provider_id: str = ""
    etcd_voter: bool | None = None


@dataclass(frozen=True)
class Owner:
    """The controller of a pod."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True)
class ClusterPod:
    """A Pod object. `empty_dirs` names its emptyDir volumes; `deleting`: it has a deletionTimestamp.

    `ready`: its Ready condition is True. `arguments` are the words of its containers' commands, kept for
    static pods only. `whole_cpus` counts the CPUs of a Guaranteed pod's containers that request whole CPUs:
    those that a static CPU manager assigns exclusively.
    """

    namespace: str
    name: str
    uid: str
    node: str
    phase: str = "Running"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner: Owner | None = None
    mirror: bool = False
    deleting: bool = False
    finalizers: tuple[str, ...] = ()
    grace_seconds: int = 30
    priority: int = 0
    empty_dirs: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    ready: bool = True
    arguments: tuple[str, ...] = ()
    whole_cpus: int = 0

    @property
    def uid_on_node(self) -> str:
        """The UID by which its node knows it: a static pod's is the hash of its manifest."""
        return self.annotations.get(_STATIC_UID, self.uid) if self.mirror else self.uid

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class ControlPlaneServer:
    """An API server by its own address; `ready` None: its /readyz was not reached; `message` is why."""

    address: str
    port: int
    ready: bool | None
    message: str = ""

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


@dataclass(frozen=True)
class DisruptionBudget:
    """A PodDisruptionBudget. `selector` is the API's LabelSelector; None selects no pod."""

    namespace: str
    name: str
    selector: Mapping[str, Any] | None
    disruptions_allowed: int
    current_healthy: int = 0
    desired_healthy: int = 0

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Lease:
    """A Lease: `holder` "" where it is free, `resource_version` "" before it exists, `document` as read."""

    name: str
    resource_version: str = ""
    holder: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


class Eviction(Enum):
    """The result of a request to evict a pod."""

    ACCEPTED = "accepted"
    GONE = "gone"
    BUDGET = "budget"  # 429 with the cause DisruptionBudget
    THROTTLED = "throttled"  # 429 without a cause: the API server is busy
    TWO_BUDGETS = "two budgets"  # 500: more than one PodDisruptionBudget selects the pod
    REFUSED = "refused"  # anything else: an admission webhook, a missing permission


@dataclass(frozen=True)
class EvictionAnswer:
    """The API server's answer to an eviction; `retry_after` is its Retry-After, in seconds."""

    result: Eviction
    message: str = ""
    retry_after: float | None = None


@dataclass(frozen=True)
class Permission:
    """A verb on a resource ("pods/eviction") or a path ("/readyz"), in a namespace or all, of one `name`."""

    verb: str
    resource: str
    group: str = ""
    namespace: str | None = None
    name: str = ""

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        resource += f" {self.name}" if self.name else ""
        return f"{self.verb} {resource}" + (f" in namespace {self.namespace}" if self.namespace else "")


class Cluster(Protocol):
    """A Kubernetes API server. Every call may raise ApiUnreachableError or ForbiddenError."""

    def node(self, name: str) -> ClusterNode:
        """Return a node; raises NotFoundError."""

    def nodes(self, selector: str = "") -> list[ClusterNode]:
        """Return the nodes that a label selector selects, by name; "" selects all."""

    def patch_node(
        self,
        node: ClusterNode,
        *,
        unschedulable: bool | None = None,
        annotations: Mapping[str, str | None],
        labels: Mapping[str, str | None] | None = None,
    ) -> ClusterNode:
        """Change a node as it was read; raises ConflictError where it has changed, NotFoundError.

        None removes an annotation or a label, and leaves `unschedulable` and `labels` unchanged.
        """

    def lift_taint(self, node: ClusterNode, key: str) -> ClusterNode:
        """Remove every taint of this key from a node as it was read; raises as `patch_node` does."""

    def pods(self, node: str) -> list[ClusterPod]:
        """Return the pods that are bound to a node."""

    def evict(self, pod: ClusterPod, *, dry_run: bool = False) -> EvictionAnswer:
        """Request the eviction of exactly this pod (UID)."""

    def delete_pod(self, pod: ClusterPod) -> None:
        """Delete exactly this pod (UID); no error where it is gone."""

    def disruption_budgets(self) -> list[DisruptionBudget]:
        """Return every PodDisruptionBudget of the cluster."""

    def dynamic_mig(self, node: str = "") -> list[str]:
        """Return the nodes, or this one, whose GPUs NVIDIA's DRA driver partitions on claim (DynamicMIG)."""

    def api_servers(self) -> list[ControlPlaneServer]:
        """Ask each API server, an endpoint of the Service kubernetes (renewed through etcd), for /readyz."""

    def lease(self, name: str) -> Lease:
        """Return a Lease of our namespace; without version and holder where it does not exist."""

    def leases(self, *, ended: bool = False) -> list[Lease]:
        """Return the Leases with our label; the records of roll-outs that have ended only with `ended`."""

    def put_lease(self, lease: Lease) -> Lease:
        """Create or replace a Lease as it was read, and renew it; raises ConflictError."""

    def node_heartbeat(self, node: str) -> str | None:
        """Return the renewTime of the node's own Lease, as the API formats it; None where there is none."""

    def running_config(self, node: str) -> Mapping[str, Any]:
        """Return the running configuration of the node's kubelet: its /configz, by nodes/proxy."""

    def tell(self, node: ClusterNode, reason: str, message: str, *, warning: bool = False) -> None:
        """Record a Kubernetes Event about a node."""

    def may(self, permission: Permission) -> bool:
        """Whether this login has a permission."""
