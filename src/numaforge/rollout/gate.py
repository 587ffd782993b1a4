"""The proof that a node works again: fresh evidence from cluster and node, for some time without a break."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from numaforge.change.transaction import Process
from numaforge.kubelet.admission.nvidia_resources import GPU_RESOURCE
from numaforge.kubelet.config.comparison import differences, meaning, same_memory
from numaforge.lib.errors import HostUnreachableError
from numaforge.rollout.cluster import ApiUnreachableError, Cluster, ClusterNode
from numaforge.rollout.configz import OwnConfig, SilentKubeletError, running_config
from numaforge.rollout.continuity import Continuity, Mismatch, Observation
from numaforge.rollout.labels import MANAGER_STATES, Labels
from numaforge.rollout.patience import Patience
from numaforge.rollout.steps import Clock, Steps

_ASK_AGAIN_SECONDS = 2.0
_NO_FLICKER_SECONDS = 10.0
_DONE = "success"
NOTHING_SEEN = Continuity()


@dataclass(frozen=True)
class Expected:
    """The expected state: fields of the running KubeletConfiguration, and Allocatable in quantities.

    With `all_gpus`, `allocatable` lists all that NVIDIA's device plugin may advertise. The same holds for
    resources that begin with one of `prefixes`. `memory_bytes` is the MemTotal from which its memory was
    computed; None where unknown. `labels` are our labels for the Node; a value of None removes one, and None
    in place of the mapping leaves labels open. `devices` are those that the node sets by itself.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    memory_bytes: int | None = None
    all_gpus: bool = False
    labels: Labels | None = None
    prefixes: tuple[str, ...] = ()  # "rdma/"
    devices: frozenset[str] = frozenset()

    def decides(self, resource: str) -> bool:
        """Whether a resource that is missing in `allocatable` must not be advertised."""
        return (self.all_gpus and bool(GPU_RESOURCE.fullmatch(resource))) or resource.startswith(
            self.prefixes
        )


@dataclass(frozen=True)
class GateSettings:
    """How long a node may take to be as expected, and how long it must then stay so without a break."""

    ready_timeout: float = 300.0
    stable_seconds: float = 30.0


@dataclass(frozen=True)
class Proof:
    """The result of a proof: what was `wrong` when time was up, and the kubelet's state from now on."""

    wrong: tuple[Mismatch, ...]
    continuity: Continuity


def offered_resources(node: ClusterNode) -> dict[str, str]:
    """Return what a node offers pods, but for its ephemeral storage, which changes by itself."""
    return {
        name: quantity for name, quantity in sorted(node.allocatable.items()) if name != "ephemeral-storage"
    }


def stale_resources(node: ClusterNode, expected: Expected) -> dict[str, str]:
    """Return resources that a node should no longer advertise, with their quantities: "0" is harmless.

    A restarted kubelet sets resources that no plugin registers to 0 and keeps their names
    (k8s-device-plugin#240); without a restart they keep their counts, and pods are scheduled for them.
    """
    return {
        name: quantity
        for name, quantity in sorted(node.allocatable.items())
        if expected.decides(name) and name not in expected.allocatable
    }


def prove(
    cluster: Cluster,
    node: str,
    expected: Expected,
    settings: GateSettings,
    *,
    process: Callable[[], Process],
    own_config: OwnConfig,
    clock: Clock,
    check: Callable[[], ClusterNode],
    tell: Callable[[Sequence[Mismatch]], object],
    patience: Patience,
    host_patience: Patience,
    continuity: Continuity = NOTHING_SEEN,
) -> Steps[Proof]:
    """Prove that a node is as expected for a while, or return what was not when time was up.

    `process` returns the kubelet's process; a changed process ends the proof at once, unless the node has
    rebooted: then the proof starts again, once, `continuity` included. A kubelet that is down because its
    node is going down or coming up counts as no answer, and after a boot it may be restarted until it has
    come up. `own_config` returns the running configuration that the kubelet reports to its own node; where
    the node may not read it, the cluster is asked. A heartbeat counts once it differs from the first one
    seen, so that no two clocks have to agree. `check` returns the node, and raises when it is no longer ours.
    While a manager of the node's GPUs is at work, the kubelet may restart and the node reboot. Time without
    an answer does not count. Raises ApiUnreachableError or HostUnreachableError where that exceeds `patience`
    or `host_patience`.
    """
    watch = _Watch(settings, clock() + settings.ready_timeout)
    lease = _LeaseRenewal()
    runs_with = _RunsWith(cluster, node, own_config, expected.settings)
    settled = _manager_at_work(None, expected) is None
    while True:
        begun = clock()
        try:
            current = check()
            running = process()
            observation = continuity.observe(
                running, clock(), settled=settled, reported=_reported(current, running)
            )
            continuity = observation.after
            if observation.begins:
                lease = _LeaseRenewal()
            if observation.booted:
                _tell_reboot(tell, running)
                watch = _Watch(settings, clock() + settings.ready_timeout)
            if observation.no_answer:
                raise HostUnreachableError(observation.no_answer, where=node)
            # Read after the process: a renewal from before its start is not its own.
            renewed = lease.seen(cluster.node_heartbeat(node))
            looked = clock()
            settled = _manager_at_work(current, expected) is None
            stable = watch.is_stable(looked)
            wrong = (observation.wrong,) if observation.wrong else _wrong(current, running, renewed, expected)
            if not observation.wrong and not any(_not_heard(current, running, renewed)):
                wrong += runs_with.otherwise(running, anew=stable and not wrong)
        except (ApiUnreachableError, HostUnreachableError) as unreachable:
            of_host = isinstance(unreachable, HostUnreachableError)
            seconds = (host_patience if of_host else patience).wait(unreachable, clock() - begun)
            tell((Mismatch("an answer", "one", unreachable.message),))
            lost_since = watch.interrupt(begun)
            yield seconds
            watch.deadline += clock() - lost_since
            continue
        patience.answered()
        host_patience.answered()
        continuity = continuity if wrong else replace(continuity, came_up=True)
        if observation.final or (not wrong and stable):
            return Proof(wrong, continuity)
        watch.note(looked, good=not wrong)
        tell(wrong)
        if wrong and watch.is_over(clock()):
            return Proof(wrong, continuity)
        # Pause even where the answers took longer than the interval.
        yield max(_ASK_AGAIN_SECONDS / 2, _ASK_AGAIN_SECONDS - (clock() - begun))


@dataclass
class _LeaseRenewal:
    """Whether a node's Lease was renewed after the first look at it."""

    first: tuple[str | None] | None = None
    renewed: bool = False

    def seen(self, heartbeat: str | None) -> bool:
        self.first = self.first or (heartbeat,)
        self.renewed = self.renewed or heartbeat != self.first[0]
        return self.renewed


@dataclass
class _Watch:
    """Since when a node has been as expected or has not been, and until when it may become so, in seconds."""

    settings: GateSettings
    deadline: float
    good_since: float | None = None
    wrong_since: float | None = None

    def is_stable(self, now: float) -> bool:
        return self.good_since is not None and now - self.good_since >= self.settings.stable_seconds

    def note(self, now: float, *, good: bool) -> None:
        if good:
            self.good_since, self.wrong_since = now if self.good_since is None else self.good_since, None
        else:
            self.good_since, self.wrong_since = None, now if self.wrong_since is None else self.wrong_since

    def interrupt(self, begun: float) -> float:
        """Start the stable time again; return since when time does not count: a lost stable time neither."""
        since = begun if self.good_since is None else self.good_since
        self.good_since = self.wrong_since = None
        return since

    def is_over(self, now: float) -> bool:
        """Whether time is up; a node that was as expected a moment ago gets as much again."""
        flickers = self.wrong_since is None or now - self.wrong_since < _NO_FLICKER_SECONDS
        return now >= self.deadline + (self.settings.ready_timeout if flickers else 0.0)


def follow(
    process: Callable[[], Process],
    continuity: Continuity,
    *,
    clock: Clock,
    tell: Callable[[Sequence[Mismatch]], object],
    patience: Patience,
) -> Steps[Observation]:
    """Follow a proved kubelet: it is the same, gone for good, or rebooted; raises HostUnreachableError."""
    while True:
        begun = clock()
        try:
            running = process()
            observation = continuity.observe(running, clock())
            continuity = observation.after
            if observation.no_answer and not observation.booted:
                raise HostUnreachableError(observation.no_answer)
        except HostUnreachableError as unreachable:
            seconds = patience.wait(unreachable, clock() - begun)
            tell((Mismatch("an answer", "one", unreachable.message),))
            yield seconds
            continue
        patience.answered()
        if observation.booted:
            _tell_reboot(tell, running)
        if observation.booted or observation.final or observation.wrong is None:
            return observation
        tell((observation.wrong,))
        yield _ASK_AGAIN_SECONDS


def _tell_reboot(tell: Callable[[Sequence[Mismatch]], object], process: Process) -> None:
    tell((Mismatch("the node", "up", f"it rebooted at {process.booted}: the proof starts over"),))


def _wrong(node: ClusterNode, process: Process, heard: bool, expected: Expected) -> tuple[Mismatch, ...]:
    wrong = list(_not_heard(node, process, heard))
    for name, quantity in expected.allocatable.items():
        actual = node.allocatable.get(name, "0")
        if actual != quantity and not _means(node, name, actual, quantity, expected):
            if "/" in name and node.capacity.get(name) == quantity:
                actual += f", the other devices of {quantity} are unhealthy"
            wrong.append(Mismatch(f"Allocatable {name}", quantity, actual))
    for name, actual in stale_resources(node, expected).items():
        if actual != "0":
            wrong.append(Mismatch(f"Allocatable {name}", "not advertised", actual))
    for name, value in (expected.labels or {}).items():
        if node.labels.get(name) != value:
            label, none = node.labels.get(name), "no such label"
            wrong.append(Mismatch(f"the label {name}", value or none, label or none))
    if waits := _manager_at_work(node, expected):
        wrong.append(waits)
    return tuple(wrong)


def _not_heard(node: ClusterNode, process: Process, heard: bool) -> Iterator[Mismatch]:
    if not _reported(node, process):
        yield Mismatch("the node's status", f"of the boot at {process.booted}", "of another one")
    if not node.ready:
        yield Mismatch("the Ready condition", "True", node.ready_message or "not True")
    if not heard:
        yield Mismatch("the node's Lease", "renewed since the restart", "not yet")


def _reported(node: ClusterNode, process: Process) -> bool:
    """Whether the kubelet has reported its present boot to the cluster; also where no boot is reported."""
    return not node.boot_id or node.boot_id.lower() == process.boot_id.lower()


def _means(node: ClusterNode, name: str, actual: str, quantity: str, expected: Expected) -> bool:
    """Whether a quantity equals the predicted one, in another notation or up to a boot's effect on memory."""
    if name == "memory" and expected.memory_bytes is not None and name in node.capacity:
        return same_memory(quantity, actual, expected.memory_bytes, node.capacity[name])
    return bool(meaning(actual) == meaning(quantity))


def _manager_at_work(node: ClusterNode | None, expected: Expected) -> Mismatch | None:
    """Return a GPU manager's unfinished state; AMD's "failure" is not final: it retries."""
    for label, state_label in MANAGER_STATES.items():
        if (expected.labels or {}).get(label) is not None:
            state = node.labels.get(state_label, "no such label") if node else "not known"
            if state != _DONE:
                return Mismatch(f"the label {state_label}", _DONE, state)
    return None


@dataclass
class _RunsWith:
    """The kubelet's running configuration, its /configz: read once by its process, so one answer lasts."""

    cluster: Cluster
    node: str
    own_config: OwnConfig
    settings: Mapping[str, Any]
    _answered: Process | None = None
    _wrong: tuple[Mismatch, ...] = ()

    def otherwise(self, process: Process, *, anew: bool) -> tuple[Mismatch, ...]:
        """Return differences from the settings, asked `anew`; a kubelet that alone is silent is one."""
        if not self.settings or (process == self._answered and process.pid and not anew):
            return self._wrong
        try:
            running = running_config(self.cluster, self.node, self.own_config)
        except SilentKubeletError as silent:
            self.cluster.node(self.node)
            return (Mismatch("/configz", "an answer", silent.message),)
        self._answered = process
        self._wrong = tuple(
            Mismatch(name, repr(value), repr(running.get(name)))
            for name, value in self.settings.items()
            if differences(name, value, running.get(name))
        )
        return self._wrong
