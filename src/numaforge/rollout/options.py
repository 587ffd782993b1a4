"""How an admin wants nodes rolled out: host data `numaforge_rollout`, and the options of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from numaforge.lib.errors import NumaforgeError
from numaforge.lib.section import Section, validated
from numaforge.node.work import KINDS
from numaforge.rollout.names import DEFAULT_NAME, DEFAULT_POOL, LEASE_NAMESPACE, PLACE

# Every run reads the options; the modules that carry a roll-out out are imported only where needed.
if TYPE_CHECKING:
    from numaforge.rollout.budget import Budget
    from numaforge.rollout.kubectl import KubectlCluster
    from numaforge.rollout.outcome import NodeSettings

START_KUBELET = (
    "start the kubelet (`systemctl start kubelet`), wait until the node is Ready, then run again; where it "
    "cannot start, end its pods by hand, and say so in numaforge_rollout.without_drain, which plain pyinfra "
    "obeys"
)


@dataclass(frozen=True)
class RunRole:
    """The role of a pyinfra run in the roll-out of that name, and whether it may begin a node."""

    name: str = DEFAULT_NAME
    begins: bool = True


def _share(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"{value!r} is not a budget; write a number of nodes, or a percentage such as 10%")
    from numaforge.rollout.budget import Share

    try:
        return str(Share.parse(value))
    except NumaforgeError as error:
        raise ValueError(f"{error.message}; {error.remedy}") from error


def _reason(value: object) -> str:
    if not isinstance(value, str) or len(value.split()) < 2:
        raise ValueError("give the reason in one sentence")
    return value


def _kinds(value: object) -> object:
    for kind in value if isinstance(value, Mapping) else ():
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is not a kind of work; write one of {', '.join(KINDS)}")
    return value


ShareText = Annotated[str, BeforeValidator(_share)]
Seconds = Annotated[float, Field(ge=0)]


class RolloutOptions(Section):
    """How nodes are taken out of service, changed, proved and put back."""

    kubeconfig: str | None = Field(
        default=None,
        description="Path to a kubeconfig on the machine where numaforge runs [default: kubectl's].",
        examples=["/home/ops/.kube/fleet"],
    )
    context: str | None = Field(default=None, description="The kubeconfig's context.", examples=["fleet"])
    kubectl: str = Field(default="kubectl", description="The kubectl to use.", examples=["kubectl"])
    namespace: str = Field(
        default=LEASE_NAMESPACE, description="The namespace of the Leases.", examples=["numaforge"]
    )
    without_drain: Annotated[str, BeforeValidator(_reason)] | None = Field(
        default=None,
        description="Lets plain pyinfra change joined nodes, and hosts on which pods run, without asking "
        "the cluster at all; the value is the reason. `numaforge rollout` refuses it for both.",
        examples=["new cluster, no workloads yet"],
    )
    ends_work: Annotated[dict[str, Annotated[str, BeforeValidator(_reason)]], BeforeValidator(_kinds)] = (
        Field(
            default_factory=dict,
            description="The kinds of work besides pods that a change may end, each with the reason. A host "
            f"whose change would disturb any other kind is refused. The kinds: {', '.join(KINDS)}.",
            examples=[{"docker": "exporters, which start again by themselves"}],
        )
    )
    max_unavailable: ShareText = Field(
        default="1",
        description="How many nodes of the pool may be out of service at once, for any reason, and how many "
        "hosts may be changed at once without a drain. `numaforge rollout` requires it if hosts outside a "
        "cluster reboot.",
        examples=["10%"],
    )
    pool: str = Field(
        default=DEFAULT_POOL,
        description="The label selector of the nodes that share this budget.",
        examples=["node-role.kubernetes.io/gpu"],
    )
    failure_domain: str | None = Field(
        default=None,
        description="Node label of the failure domains, which are rolled out one after the other "
        "[default: racks, by nvidia.com/gpu.clique].",
        examples=["topology.kubernetes.io/zone"],
    )
    domains_at_once: int = Field(
        default=1, ge=1, description="How many domains may be in progress at once.", examples=[1]
    )
    max_unavailable_per_domain: ShareText | None = Field(
        default=None,
        description="How many nodes of one domain may be out of service at once.",
        examples=["2"],
    )
    ends_compute_domains: bool = Field(
        default=False,
        description="Also drain nodes of a ComputeDomain, which ends its work on all of its nodes "
        "[default: wait until it has ended].",
        examples=[True],
    )
    control_plane_outage: Annotated[str, BeforeValidator(_reason)] | None = Field(
        default=None,
        description="Permits taking out a control-plane node without which the API is unavailable, or whose "
        "etcd the cluster does not show; the value is the reason.",
        examples=["one control-plane node, window on Sunday"],
    )
    canaries: int = Field(
        default=1,
        ge=0,
        description="How many hosts of each stage must succeed before its others begin.",
        examples=[2],
    )
    canary_hosts: tuple[str, ...] = Field(
        default=(),
        description="Hosts that go first, each in its stage [default: a stage's first ones by name].",
        examples=[["gpu-07"]],
    )
    soak_seconds: Seconds = Field(
        default=0, description="The pause after the canaries and after each failure domain.", examples=[600]
    )
    max_failures: int = Field(
        default=0, ge=0, description="How many hosts may be rolled back or held.", examples=[1]
    )
    max_blocked: int | None = Field(
        default=None,
        ge=0,
        description="How many hosts may be blocked or refused [default: any number].",
        examples=[5],
    )
    drain_timeout: Seconds | None = Field(
        default=None,
        description="How long a drain may take [default: 600, or the longest grace period plus a minute "
        "if that is more].",
        examples=[3600],
    )
    delete_empty_dir_data: bool = Field(
        default=False,
        description="Also evict pods with emptyDir volumes, whose data is lost.",
        examples=[True],
    )
    force: bool = Field(
        default=False, description="Also evict pods that nothing re-creates.", examples=[True]
    )
    wait_for: dict[str, str] = Field(
        default_factory=dict,
        description="Labels of pods that run to completion instead of being evicted.",
        examples=[{"job": "training"}],
    )
    include_cordoned: bool = Field(
        default=False,
        description="Also change nodes that are cordoned already; they stay cordoned.",
        examples=[True],
    )
    slot_timeout: Seconds = Field(
        default=14400, description="How long to wait for room in the budget.", examples=[86400]
    )
    maintenance_timeout: Seconds = Field(
        default=0, description="How long to wait for other tools to finish their work.", examples=[1800]
    )
    unreachable_timeout: Seconds = Field(
        default=900, description="How long to wait for an unreachable API server or host.", examples=[1800]
    )
    ready_timeout: Seconds = Field(
        default=300, description="How long a changed node may take to match its plan.", examples=[600]
    )
    settle_seconds: Seconds = Field(
        default=30, description="How long it must then match its plan without interruption.", examples=[60]
    )
    verify: bool = Field(
        default=True, description="Run the verification suite before the uncordon.", examples=[False]
    )

    retry_failed: bool = Field(
        default=False,
        description="Retry a plan that was rolled back on the host before [default: refused until the plan "
        "changes or the host reboots].",
        examples=[True],
    )

    @property
    def says_how_many(self) -> bool:
        """Whether max_unavailable is set on the command line or in the inventory."""
        return "max_unavailable" in self.model_fields_set

    def cluster(self) -> KubectlCluster:
        """Return the cluster, a context manager."""
        from numaforge.rollout.kubectl import KubectlCluster

        return KubectlCluster(
            Path(self.kubeconfig).expanduser() if self.kubeconfig else None,
            context=self.context,
            namespace=self.namespace,
            kubectl=self.kubectl,
        )

    def budget(self) -> Budget:
        """Return the budget."""
        from numaforge.rollout.budget import Budget, Share

        per_domain = self.max_unavailable_per_domain
        return Budget(
            max_unavailable=Share.parse(self.max_unavailable),
            pool=self.pool,
            domain=self.failure_domain,
            domains_at_once=self.domains_at_once,
            max_unavailable_per_domain=Share.parse(per_domain) if per_domain else None,
            control_plane_outage=self.control_plane_outage is not None,
            ends_compute_domains=self.ends_compute_domains,
        )

    def for_node(self) -> NodeSettings:
        """Return the settings for one node."""
        from numaforge.rollout.drain import DrainSettings
        from numaforge.rollout.gate import GateSettings
        from numaforge.rollout.outcome import NodeSettings

        return NodeSettings(
            budget=self.budget(),
            drain=DrainSettings(self.drain_timeout, self.delete_empty_dir_data, self.force, self.wait_for),
            gate=GateSettings(self.ready_timeout, self.settle_seconds),
            include_cordoned=self.include_cordoned,
            slot_timeout=self.slot_timeout,
            maintenance_timeout=self.maintenance_timeout,
            unreachable_timeout=self.unreachable_timeout,
        )


def read_options(*documents: Mapping[str, Any] | None, where: str = PLACE) -> RolloutOptions:
    """Return the options of several mappings, where later ones win by key; raises NumaforgeError."""
    merged: dict[str, Any] = {}
    for document in documents:
        if document is not None and not isinstance(document, Mapping):
            raise NumaforgeError(f"{document!r} is not a mapping", where=where)
        merged |= document or {}
    if not merged:
        return RolloutOptions.model_construct()  # makes no validator, which a run may not need otherwise
    return validated(RolloutOptions, merged, where)
