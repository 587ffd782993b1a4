"""Drain a cordoned node: list its pods again on every pass, until no pod is left that has to go.

A drain is done when the pods are gone, not when their evictions are accepted. A pod that does not terminate
is reported with its name and cause: never an endless wait, never a reason to ignore a PodDisruptionBudget.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numaforge.lib.kubernetes_objects import ENDED_PHASES
from numaforge.rollout.cluster import (
    ApiUnreachableError,
    Cluster,
    ClusterPod,
    DisruptionBudget,
    Eviction,
    EvictionAnswer,
)
from numaforge.rollout.patience import Patience
from numaforge.rollout.steps import Clock, Steps

DRAIN_SECONDS = 600.0  # how long a drain takes by default; longer where a pod's grace period is
_PASS_SECONDS = 2.0
_FIRST_RETRY_SECONDS = 5.0
_LAST_RETRY_SECONDS = 30.0
_MARGIN_SECONDS = 60.0
_GENERATIONS = 3  # after this many successors on the cordoned node, a pod is considered to come back for ever


@dataclass(frozen=True)
class DrainSettings:
    """How to drain; without `timeout_seconds` in 10 minutes, or the longest grace period and a minute.

    `delete_empty_dir_data` and `force` (pods that nothing re-creates) permit losses. Pods that `wait_for`
    selects (labels and their values) are left to complete by themselves.
    """

    timeout_seconds: float | None = None
    delete_empty_dir_data: bool = False
    force: bool = False
    wait_for: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Blocker:
    """A pod ("namespace/name") that keeps a node from being empty, and the cause."""

    pod: str
    cause: str

    def __str__(self) -> str:
        return f"{self.pod}: {self.cause}"


@dataclass(frozen=True)
class SortedPods:
    """The pods of a node by the action they need; the eviction of `forbidden` ones needs a permission."""

    evict: tuple[ClusterPod, ...]
    delete: tuple[ClusterPod, ...]
    wait: tuple[ClusterPod, ...]
    forbidden: tuple[Blocker, ...]

    @property
    def empty(self) -> bool:
        """Whether no pod is left that has to go."""
        return not (self.evict or self.delete or self.wait or self.forbidden)


def sort_pods(pods: Iterable[ClusterPod], settings: DrainSettings) -> SortedPods:
    """Return the pods of a node by the action they need."""
    evict: list[ClusterPod] = []
    delete: list[ClusterPod] = []
    wait: list[ClusterPod] = []
    forbidden: list[Blocker] = []
    for pod in pods:
        if stays(pod):
            continue
        if pod.deleting:
            wait.append(pod)
        elif pod.phase in ENDED_PHASES:
            delete.append(pod)
        elif settings.wait_for and settings.wait_for.items() <= pod.labels.items():
            wait.append(pod)
        elif pod.owner is None and not settings.force:
            forbidden.append(Blocker(str(pod), "nothing would re-create it (permit: force)"))
        elif pod.empty_dirs and not settings.delete_empty_dir_data:
            volumes = ", ".join(pod.empty_dirs)
            cause = f"its emptyDir {volumes} would be lost (permit: delete_empty_dir_data)"
            forbidden.append(Blocker(str(pod), cause))
        else:
            evict.append(pod)
    evict.sort(key=lambda pod: (pod.priority, str(pod)))
    return SortedPods(tuple(evict), tuple(delete), tuple(wait), tuple(forbidden))


def stays(pod: ClusterPod) -> bool:
    """Whether a pod may stay: static pods are the kubelet's own, a DaemonSet's would only come back."""
    finished = pod.phase in ENDED_PHASES
    return pod.mirror or (pod.owner is not None and pod.owner.kind == "DaemonSet" and not finished)


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector selects these labels; an empty one selects everything, None nothing."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(expression, labels) for expression in selector.get("matchExpressions") or ())


def _holds(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator = requirement["key"], requirement["operator"]
    values: Sequence[str] = requirement.get("values") or ()
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return labels.get(key) not in values
    return bool((key in labels) == (operator == "Exists"))


def budgets_of(pod: ClusterPod, budgets: Iterable[DisruptionBudget]) -> list[DisruptionBudget]:
    return [
        budget
        for budget in budgets
        if budget.namespace == pod.namespace and selects(budget.selector, pod.labels)
    ]


@dataclass
class _Attempts:
    """What one drain remembers from pass to pass: when to ask again, and why it was refused."""

    retry_at: dict[str, float] = field(default_factory=dict)  # by pod UID
    delay: dict[str, float] = field(default_factory=dict)
    cause: dict[str, str] = field(default_factory=dict)
    throttled_until: float = 0.0
    at_first: dict[str, str] | None = None  # the pods of the first pass: pod UID -> its owner's UID
    successors: dict[str, set[str]] = field(default_factory=dict)  # owner UID -> pods that came later


def drain(
    cluster: Cluster,
    node: str,
    settings: DrainSettings,
    *,
    clock: Clock,
    check: Callable[[], object],
    tell: Callable[[Sequence[Blocker]], object],
    dice: random.Random,
    patience: Patience,
) -> Steps[tuple[Blocker, ...]]:
    """Drain a cordoned node; return the blockers left when time is up, () when it is empty.

    `check` is called on every pass and raises when the drain must stop. Time without an API server does not
    count; raises ApiUnreachableError where that takes too long.
    """
    attempts = _Attempts()
    begun = clock()
    timeout = settings.timeout_seconds
    while True:
        pass_begun = clock()
        try:
            check()
            pods = sort_pods(cluster.pods(node), settings)
            if pods.empty:
                return ()
            hopeless = _comes_back(pods.evict, attempts)
            if not (pods.forbidden or hopeless):
                _evict(cluster, pods, attempts, clock, dice)
        except ApiUnreachableError as unreachable:
            seconds = patience.wait(unreachable)
            tell((Blocker(node, unreachable.message),))
            yield seconds
            begun += clock() - pass_begun
            continue
        patience.answered()
        if timeout is None:
            graces = [pod.grace_seconds for pod in (*pods.evict, *pods.wait)]
            timeout = max(DRAIN_SECONDS, max(graces, default=0) + _MARGIN_SECONDS)
        accepted = "its eviction is accepted"
        evicted = [Blocker(str(pod), attempts.cause.get(pod.uid, accepted)) for pod in pods.evict]
        waiting = [Blocker(str(pod), _why_it_is_here(pod)) for pod in pods.wait]
        blockers = (*pods.forbidden, *evicted, *waiting)
        tell(blockers)
        if pods.forbidden or hopeless:
            return (*pods.forbidden, *hopeless)
        remaining = begun + timeout - clock()
        if remaining <= 0:
            return blockers
        yield min(_PASS_SECONDS, remaining)


def _comes_back(pods: Sequence[ClusterPod], attempts: _Attempts) -> list[Blocker]:
    """Return the pods that were re-created on this node too often."""
    if attempts.at_first is None:
        attempts.at_first = {pod.uid: pod.owner.uid for pod in pods if pod.owner is not None}
    hopeless = []
    for pod in pods:
        if pod.owner is None or pod.uid in attempts.at_first:
            continue
        successors = attempts.successors.setdefault(pod.owner.uid, set())
        successors.add(pod.uid)
        predecessors = Counter(attempts.at_first.values())[pod.owner.uid]
        if len(successors) >= _GENERATIONS * max(1, predecessors):
            cause = f"its {pod.owner.kind} {pod.owner.name} re-creates it on this node again and again"
            hopeless.append(Blocker(str(pod), f"{cause}: it tolerates the cordon, or names the node itself"))
    return hopeless


def _evict(
    cluster: Cluster, pods: SortedPods, attempts: _Attempts, clock: Clock, dice: random.Random
) -> None:
    for pod in pods.delete:
        cluster.delete_pod(pod)
    budgets: list[DisruptionBudget] | None = None
    for pod in pods.evict:
        if clock() < max(attempts.retry_at.get(pod.uid, 0.0), attempts.throttled_until):
            continue
        answer = cluster.evict(pod)
        if answer.result in (Eviction.ACCEPTED, Eviction.GONE):
            attempts.cause.pop(pod.uid, None)
            continue
        if answer.result in (Eviction.BUDGET, Eviction.TWO_BUDGETS) and budgets is None:
            budgets = cluster.disruption_budgets()
        attempts.cause[pod.uid] = _cause(pod, answer, budgets or ())
        delay = attempts.delay.get(pod.uid, _FIRST_RETRY_SECONDS)
        attempts.delay[pod.uid] = min(2 * delay, _LAST_RETRY_SECONDS)
        pause = max(delay * dice.uniform(0.8, 1.2), answer.retry_after or 0.0)
        if answer.result is Eviction.THROTTLED:  # the server is busy, for every client
            attempts.throttled_until = clock() + pause
            return
        attempts.retry_at[pod.uid] = clock() + pause


def _cause(pod: ClusterPod, answer: EvictionAnswer, budgets: Sequence[DisruptionBudget]) -> str:
    selecting = budgets_of(pod, budgets)
    if answer.result is Eviction.TWO_BUDGETS:
        names = ", ".join(map(str, selecting)) or answer.message
        return f"more than one PodDisruptionBudget selects it: {names}"
    if answer.result is Eviction.BUDGET and selecting:
        budget = selecting[0]
        return (
            f"PodDisruptionBudget {budget} allows {budget.disruptions_allowed} disruptions "
            f"({budget.current_healthy} of {budget.desired_healthy} required pods are healthy)"
        )
    if answer.result is Eviction.THROTTLED:
        return f"the API server is busy: {answer.message}"
    return answer.message


def _why_it_is_here(pod: ClusterPod) -> str:
    if not pod.deleting:
        return "it is left to complete by itself"
    if pod.finalizers:
        return f"it is deleted, and waits for its finalizer {', '.join(pod.finalizers)}"
    return f"it is ending, for which it may take {pod.grace_seconds} s"
