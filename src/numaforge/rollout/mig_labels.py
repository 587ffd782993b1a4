"""Labels that a MIG manager of the GPU operator has left behind: recognised with evidence, and repaired.

It pauses the operator's operands by label while it changes the geometry. Where a pod does not go in time, or
its validator does not start again, it leaves them (mig-parted#485, gpu-operator#2833), and the node
advertises no GPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from numaforge.lib.errors import NumaforgeError
from numaforge.roles.device_owners import MIG_MANAGER
from numaforge.roles.device_plugin.labels import OPERATOR_STATE_LABEL
from numaforge.rollout.cluster import Cluster, ClusterNode, ClusterPod
from numaforge.rollout.patience import retried
from numaforge.rollout.record import unfinished

_PAUSED = "paused-for-mig-change"
_OPERANDS = "nvidia.com/gpu.deploy."
_UNDER_WAY = ("pending", "rebooting")
# mig-manager waits up to 5 minutes for each of 5 kinds of pods, and then for the GPUs.
_LONGEST_CHANGE = timedelta(minutes=30)
_MANAGER_COMES_BACK = timedelta(minutes=5)  # its pod is replaced, or the node reboots


@dataclass(frozen=True)
class MigChange:
    """A MIG change in progress by a node's labels, with `evidence`; `at_work`: by a manager, perhaps."""

    node: str
    state: str | None
    paused: tuple[str, ...]
    at_work: bool
    evidence: tuple[str, ...]

    @property
    def repair(self) -> dict[str, str | None]:
        """The labels that the MIG manager itself sets after a failed change."""
        labels: dict[str, str | None] = dict.fromkeys(self.paused, "true")
        return {**labels, OPERATOR_STATE_LABEL: "failed"} if self.state in _UNDER_WAY else labels


def mig_changes(cluster: Cluster, names: Sequence[str], now: datetime) -> list[MigChange]:
    """Return the MIG changes in progress by the labels of these nodes; no names: of all nodes."""
    nodes = [cluster.node(name) for name in names] if names else cluster.nodes()
    begun = unfinished(cluster.leases())
    return [change for node in nodes if (change := _change(cluster, node, node.name in begun, now))]


def repair_labels(cluster: Cluster, name: str, now: datetime) -> MigChange | None:
    """Repair a node's labels; return what was wrong; raises NumaforgeError while a manager may be at work."""

    def change() -> MigChange | None:
        node = cluster.node(name)
        mig_change = _change(cluster, node, name in unfinished(cluster.leases()), now)
        if mig_change is None:
            return None
        if mig_change.at_work:
            raise NumaforgeError(
                f"a MIG manager may be at work: {'; '.join(mig_change.evidence)}",
                where=name,
                remedy="wait for it, or delete its pod and ask again in 5 minutes",
            )
        cluster.patch_node(node, annotations={}, labels=mig_change.repair)
        return mig_change

    return retried(change, where=name)


def _change(cluster: Cluster, node: ClusterNode, in_rollout: bool, now: datetime) -> MigChange | None:
    paused = tuple(
        name for name, value in sorted(node.labels.items()) if name.startswith(_OPERANDS) and value == _PAUSED
    )
    state = node.labels.get(OPERATOR_STATE_LABEL)
    if not paused and state not in _UNDER_WAY:
        return None
    managers = [pod for pod in cluster.pods(node.name) if _is_manager(pod)]
    written = _last_write(node, (*paused, OPERATOR_STATE_LABEL))
    age = None if written is None else now - written[1]
    patience = _LONGEST_CHANGE if managers else _MANAGER_COMES_BACK
    at_work = in_rollout or (bool(managers) if age is None else age < patience)
    evidence = [f"{OPERATOR_STATE_LABEL} is {state or 'not there'}"]
    if paused:
        evidence.append(f"paused: {', '.join(name.removeprefix(_OPERANDS) for name in paused)}")
    if written is None or age is None:
        evidence.append("when that was written is not known")
    else:
        evidence.append(f"written {int(age.total_seconds() // 60)} minutes ago by {written[0]}")
    evidence.append(f"{managers[0]} runs" if managers else "no MIG manager runs on the node")
    if in_rollout:
        evidence.append("the node is in a roll-out of numaforge")
    return MigChange(node.name, state, paused, at_work, tuple(evidence))


def _is_manager(pod: ClusterPod) -> bool:
    return MIG_MANAGER.pod.items() <= pod.labels.items() and pod.phase == "Running" and not pod.deleting


def _last_write(node: ClusterNode, names: Sequence[str]) -> tuple[str, datetime] | None:
    writes = [
        (write.manager, datetime.fromisoformat(write.time).astimezone(UTC))
        for name in names
        if (write := node.label_writes.get(name)) and write.time
    ]
    return max(writes, key=lambda write: write[1], default=None)
