"""The public API: names that keep their meaning between minor versions. Everything else may move."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from numaforge.cluster.explain.claims import NOTHING_KNOWN
from numaforge.cluster.explain.node_claims import with_claims
from numaforge.findings import Finding
from numaforge.kubelet.admission.fit import FitReport, Scenario
from numaforge.kubelet.admission.fit import fit as fit_node
from numaforge.kubelet.admission.inventory import inventory_as_it_is
from numaforge.kubelet.admission.node import Admission
from numaforge.kubelet.admission.pod import UNNAMED, Pod
from numaforge.kubelet.admission.scheduler import unschedulable
from numaforge.kubelet.config.loading import below
from numaforge.kubelet.findings import Report, require_start
from numaforge.kubelet.startup.check import check
from numaforge.kubelet_minors.versions import LATEST_MINOR
from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.lib.errors import ArgumentError, KubeletConfigError, NumaforgeError
from numaforge.lib.kubelet_paths import DROP_IN_DIR
from numaforge.machine.snapshot.capture import from_local, from_root
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.document import from_document, to_document
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.read import read_topology
from numaforge.machine.topology.saved import ready_machine, ready_machines
from numaforge.planning.document import dumps, loads
from numaforge.planning.document import to_document as plan_document
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.planned_node import planned_node
from numaforge.planning.profile import NodeProfile
from numaforge.planning.profiles import load_profile, ready_profiles
from numaforge.planning.render import files_of, render_plan
from numaforge.report.difference import Unlike, differences
from numaforge.report.svg import draw
from numaforge.roles.role import kubelet

__all__ = [
    "Admission",
    "ArgumentError",
    "Finding",
    "FitReport",
    "NodePlan",
    "NodeProfile",
    "NodeTopology",
    "NumaforgeError",
    "Pod",
    "Report",
    "Snapshot",
    "Unlike",
    "admit",
    "check",
    "diff",
    "draw",
    "dumps",
    "fit",
    "format_cpulist",
    "from_document",
    "from_local",
    "from_root",
    "load_profile",
    "loads",
    "parse_cpulist",
    "plan_node",
    "read_topology",
    "ready_machine",
    "ready_machines",
    "ready_profiles",
    "render_plan",
    "to_document",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _taking(**kinds: type | tuple[type, ...]) -> Callable[[_Function], _Function]:
    """Return a decorator that raises ArgumentError, naming function and argument, for another type."""

    def checking(function: _Function) -> _Function:
        signature = inspect.signature(function)

        @wraps(function)
        def checked(*arguments: Any, **keywords: Any) -> Any:
            bound = signature.bind(*arguments, **keywords).arguments
            for name, kind in kinds.items():
                if name in bound and not isinstance(bound[name], kind):
                    allowed = " or ".join(
                        "None" if one is type(None) else one.__name__
                        for one in (kind if isinstance(kind, tuple) else (kind,))
                    )
                    raise ArgumentError(
                        f"{name} is {type(bound[name]).__name__} where {allowed} is taken",
                        where=f"{function.__name__}()",
                    )
            return function(*arguments, **keywords)

        return cast(_Function, checked)

    return checking


_OPTIONAL_TEXT = (str, type(None))
_OPTIONAL_PLAN = (NodePlan, type(None))

check = _taking(config_text=str, topology=NodeTopology)(check)
draw = _taking(topology=NodeTopology, plan=_OPTIONAL_PLAN)(draw)
dumps = _taking(plan=NodePlan)(dumps)
format_cpulist = _taking(ids=Iterable)(format_cpulist)
from_root = _taking(root=Path)(from_root)
load_profile = _taking(source=(str, Path, Mapping))(load_profile)
loads = _taking(text=str)(loads)
parse_cpulist = _taking(text=str)(parse_cpulist)
plan_node = _taking(topology=NodeTopology, profile=NodeProfile, kubelet_version=_OPTIONAL_TEXT)(plan_node)
read_topology = _taking(snapshot=Snapshot)(read_topology)
render_plan = _taking(plan=NodePlan, config_text=_OPTIONAL_TEXT)(render_plan)
to_document = _taking(topology=NodeTopology)(to_document)


@_taking(machine=NodeTopology, pods=Iterable, plan=_OPTIONAL_PLAN, config_text=_OPTIONAL_TEXT)
def admit(
    machine: NodeTopology,
    pods: Iterable[Pod | Mapping[str, Any]],
    *,
    plan: NodePlan | None = None,
    config_text: str | None = None,
) -> tuple[Admission, ...]:
    """Return a node's answer to each pod, in order; each is a manifest, or a Pod.

    With a plan the node is as planned, else as it is. `config_text` is the kubelet's configuration file
    [default: the machine's own]. Raises KubeletConfigError where the kubelet would not start.
    """
    node = _scenario(machine, plan, config_text).node()
    answers = []
    for number, pod_or_manifest in enumerate(pods):
        pod = _pod(pod_or_manifest)
        pod = pod.renamed(f"{UNNAMED}-{number}") if pod.name == UNNAMED else pod
        if pod.name in node.pods:
            raise ArgumentError(f"pod {pod.name!r} is admitted already", where="admit()")
        answers.append(unschedulable(node, pod) or node.admit(pod))
    return tuple(answers)


@_taking(machine=NodeTopology, pod=(Pod, Mapping), plan=_OPTIONAL_PLAN, config_text=_OPTIONAL_TEXT)
def fit(
    machine: NodeTopology,
    pod: Pod | Mapping[str, Any],
    *,
    plan: NodePlan | None = None,
    config_text: str | None = None,
) -> FitReport:
    """Return how many pods of one shape fit on a node, what runs out, and remedies; as for `admit`."""
    return fit_node(_scenario(machine, plan, config_text), _pod(pod))


@_taking(left=(NodeTopology, NodePlan), right=(NodeTopology, NodePlan))
def diff(
    left: NodeTopology | NodePlan, right: NodeTopology | NodePlan, *, names_of_host: bool = False
) -> list[Unlike]:
    """Compare two machines, or two plans; `names_of_host` adds names, UUIDs and processes."""
    if isinstance(left, NodePlan) != isinstance(right, NodePlan):
        raise ArgumentError("a machine and a plan cannot be compared", where="diff()")
    sides = (plan_document(one) if isinstance(one, NodePlan) else to_document(one) for one in (left, right))
    return differences(*sides, names_of_host=names_of_host)


def _pod(pod_or_manifest: Pod | Mapping[str, Any]) -> Pod:
    return pod_or_manifest if isinstance(pod_or_manifest, Pod) else Pod.from_manifest(pod_or_manifest)


def _scenario(machine: NodeTopology, plan: NodePlan | None, config_text: str | None) -> Scenario:
    install = machine.kubelet
    text = machine.kubelet_config if config_text is None else config_text
    if plan is not None:
        if install is not None and config_text is not None:
            machine = replace(machine, kubelet=replace(install, config_text=config_text, drop_ins={}))
        planned = planned_node(machine, plan, files_of(kubelet, plan, text), {})
        return with_claims(planned.scenario(machine.hostname), plan, NOTHING_KNOWN)
    if text is None:
        raise KubeletConfigError(
            "the machine comes without a kubelet configuration", remedy="give one: config_text, or a plan"
        )
    kept_install = install if config_text is None else None
    report = check(
        text,
        topology=machine,
        version=install.version if install and install.version else f"1.{LATEST_MINOR}",
        drop_ins=below(kept_install.config_dir or DROP_IN_DIR, kept_install.drop_ins) if kept_install else {},
        flags=kept_install.flags if kept_install else (),
    )
    require_start(report, machine.hostname)
    scenario = Scenario(machine, report.effective, inventory_as_it_is(machine), version=report.version)
    return with_claims(scenario, None, NOTHING_KNOWN)
