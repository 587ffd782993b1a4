"""What pods may ask of CRI-O for their own CPUs, and the runtime class that lets them.

Sources: internal/runtimehandlerhooks of CRI-O 1.36 (the annotations; they do something for Guaranteed pods
with whole CPUs alone), docs/crio.conf.5.md (allowed_annotations, inherit_default_runtime,
irqbalance_config_file).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from numaforge.lib.errors import PlanError
from numaforge.lib.reasons import Reasoned, Reasons
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.runtime import CRIO, crio_minor, runtime_unit
from numaforge.roles.crio.section import Ask

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.planning.profile import NodeProfile
    from numaforge.roles.kubelet.delivery import KubeletPlan


@dataclass(frozen=True)
class PodTuningPlan:
    """What pods of a runtime class may request from CRI-O for their own CPUs.

    Without `annotations` nothing is written. `irqbalance_file` is irqbalance's configuration, if not
    at CRI-O's default path.
    """

    annotations: tuple[str, ...] = ()  # "cpu-quota.crio.io"
    runtime_class: str = "high-performance"
    irqbalance_file: str | None = None


FIELD = "pod_tuning.allow"
HANDLER = "high-performance"  # CRI-O runs its hooks for every handler with this in its name
ANNOTATIONS: dict[Ask, str] = {
    "interrupts": "irq-load-balancing.crio.io",
    "cpu_quota": "cpu-quota.crio.io",
    "load_balancing": "cpu-load-balancing.crio.io",
    "c_states": "cpu-c-states.crio.io",
    "governor": "cpu-freq-governor.crio.io",
}
_SAID = {"governor": "performance"}  # what a pod says; the others say "disable"

_FIRST_MINOR_THAT_INHERITS = 32  # inherit_default_runtime; before, a handler needs the path of its program
_IRQBALANCE_OF_APT = "/etc/default/irqbalance"


def plan_pod_tuning(
    machine: NodeTopology, profile: NodeProfile, kubelet: KubeletPlan | None
) -> Reasoned[PodTuningPlan]:
    """Return what CRI-O should allow; raises PlanError where numaforge would set the same value."""
    wish, reasons = profile.pod_tuning, Reasons()
    if not wish.allow:
        return reasons.of(PodTuningPlan())
    if lacks := _lacks(machine):
        reasons.notice("no-pod-tuning", f"{lacks}: {FIELD} is left out")
        return reasons.of(PodTuningPlan())
    _refuse_two_masters(profile)
    without = dict(_without(machine))
    allowed = tuple(name for name in get_args(Ask) if name in wish.allow and name not in without)
    for name in wish.allow:
        if name in without:
            reasons.notice("no-such-pod-tuning", f"{without[name]}: pods may not ask for {name}")
    if not allowed:
        return reasons.of(PodTuningPlan())
    debian = bool(machine.userland and machine.userland.package_manager == "apt")
    plan = PodTuningPlan(
        annotations=tuple(ANNOTATIONS[name] for name in allowed),
        runtime_class=wish.runtime_class,
        irqbalance_file=_IRQBALANCE_OF_APT if debian and "interrupts" in allowed else None,
    )
    policy = kubelet.settings.get("cpuManagerPolicy") if kubelet else "static"
    if policy != "static":
        reasons.notice(
            "pod-tuning-without-own-cpus",
            "without cpuManagerPolicy static no pod has CPUs to itself, and CRI-O does nothing for it",
        )
    reason = (
        f"{profile.choice(FIELD)}, for Guaranteed pods with whole CPUs and the runtime class "
        f"{wish.runtime_class} alone (crio.conf(5), allowed_annotations)"
    )
    reasons.decide(FIELD, ", ".join(allowed), reason)
    return reasons.of(plan)


def runtime_class(plan: NodePlan) -> dict[str, Any]:
    """Return the RuntimeClass for the handler of a node's plan. Raises PlanError where it has none."""
    if not plan.pod_tuning.annotations:
        raise PlanError(
            "lets pods ask for nothing",
            where=f"{plan.hostname}: {FIELD}",
            remedy=f"plan a node whose runtime is CRI-O with {FIELD}; the plan's notices say what it lacks",
        )
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": plan.pod_tuning.runtime_class},
        "handler": HANDLER,
    }


def pod_lines(plan: PodTuningPlan) -> dict[str, Any]:
    """Return what a pod that requests all of it must specify: annotations and the runtime class."""
    asks = {annotation: name for name, annotation in ANNOTATIONS.items()}
    return {
        "metadata": {
            "annotations": {
                annotation: _SAID.get(asks[annotation], "disable")
                for annotation in plan.annotations
                if annotation in asks
            }
        },
        "spec": {"runtimeClassName": plan.runtime_class},
    }


def _lacks(topology: NodeTopology) -> str | None:
    """Return why this host's runtime ignores these annotations, None where it reads them."""
    unit = runtime_unit(topology)
    if unit != CRIO:
        runtime = unit.removesuffix(".service") if unit else "k3s with its own containerd"
        return (
            f"the container runtime is {runtime}, which reads no annotations about a pod's CPUs (CRI-O does)"
        )
    minor = crio_minor(topology)
    if minor is not None and minor < _FIRST_MINOR_THAT_INHERITS:
        return (
            f"CRI-O 1.{minor} has no inherit_default_runtime, without which a handler has to name its "
            f"program; it came with 1.{_FIRST_MINOR_THAT_INHERITS}"
        )
    return None


def _without(topology: NodeTopology) -> Iterator[tuple[Ask, str]]:
    """Yield what the kernel lacks, with the reason: CRI-O would fail a pod that requests it."""
    if topology.cpufreq is None or not topology.cpufreq.available:
        yield "governor", "the kernel offers no governors"
    if not topology.idle_states:
        yield "c_states", "the kernel manages no sleep states"


def _refuse_two_masters(profile: NodeProfile) -> None:
    """Refuse what CRI-O sets when such a pod starts and ends, where numaforge sets it for the whole node.

    When a pod ends CRI-O adds its CPUs to default_smp_affinity, takes them out of irqbalance's banned ones,
    and restarts irqbalance, or has it run once where it is off (setIRQLoadBalancing).
    """
    wish, allowed = profile.interrupts, profile.pod_tuning.allow
    keys = [
        name
        for name in ("irqbalance", "devices", "default_affinity")
        if getattr(wish, name) not in (None, "keep")
    ]
    if "interrupts" in allowed and keys:
        raise PlanError(
            f"interrupts, and interrupts.{keys[0]} is {getattr(wish, keys[0])}: when a pod ends, CRI-O gives "
            "its CPUs to default_smp_affinity and irqbalance, and interrupts come to pods' CPUs again",
            where=FIELD,
            remedy=f"leave interrupts out of {FIELD}: section interrupts keeps them off pods' CPUs by itself",
        )
    if "governor" in allowed and profile.tuning.governor is not None:
        raise PlanError(
            f"governor, and tuning.governor is {profile.tuning.governor}: the next run would take a running "
            "pod's governor from it",
            where=FIELD,
            remedy=f"leave tuning.governor out, or governor out of {FIELD}",
        )
