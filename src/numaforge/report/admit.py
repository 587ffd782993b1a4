"""Whether a node would admit pods: each verdict as text and JSON."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from numaforge.kubelet.admission.claims import JudgedClaims
from numaforge.kubelet.admission.node import UNSCHEDULABLE, Admission
from numaforge.kubelet.admission.nvidia_resources import MIG_PREFIX, mig_resource
from numaforge.kubelet.admission.qos import Remark
from numaforge.kubelet.admission.scheduler import like
from numaforge.lib.cpulist import format_cpulist
from numaforge.machine.topology.model import Gpu, NodeTopology
from numaforge.report.near_gpus import granted_document, granted_lines
from numaforge.report.terminal import line_of, style
from numaforge.report.wording import human_bytes
from numaforge.roles.mig.models import known_model

_MOST_NAMES = 4
_MOST_LETTERS = 40
CLAIM_REMEDY = (
    "ResourceClaims, templates, DeviceClasses and ResourceSlices may be in the pods' file; --profile and "
    "--plan say what drivers will offer"
)


class JudgedAdmission(NamedTuple):
    """One admission, with what the pod's author should know about QoS and alignment.

    `short_of` are the resources that keep the scheduler from sending the pod to this node, `not_known` those
    that only their own plugin knows. `offered` are those of the node's plugins. `claims` is the outcome of
    the pod's claims. `gpus` are the whole GPUs that each container got, of the machine `topology`. `advices`
    say what would admit a refused pod.
    """

    admission: Admission
    remarks: tuple[Remark, ...]
    short_of: tuple[str, ...]
    not_known: tuple[str, ...]
    offered: tuple[str, ...]
    claims: JudgedClaims
    gpus: Mapping[str, Sequence[Gpu]]
    topology: NodeTopology
    advices: tuple[str, ...]


def answer_lines(answer: JudgedAdmission) -> list[str]:
    """Return one admission for a terminal: the verdict, what each container got, remarks."""
    admission = answer.admission
    name = style(admission.name, bold=True)
    if admission.admitted:
        lines: list[str] = [line_of(name, "  ", style("admitted", fg="green"), f"  {admission.qos}")]
        for container, got in grants(admission):
            lines.append(f"  {container}: {got}")
            gpus = answer.gpus.get(container, ())
            lines += [f"    {line}" for line in granted_lines(answer.topology, gpus)]
    else:
        verdict = style(f"refused, {admission.reason}", fg="red")
        lines = [line_of(name, "  ", verdict, f"  {admission.qos}"), f"  {admission.status_message}"]
        if admission.in_the_way:
            lines.append(f"  in the way: {in_the_way(admission.in_the_way)}")
        if admission.reason == UNSCHEDULABLE:
            names = other_names(admission.in_the_way, answer.offered, answer.topology)
            lines += [f"  -> {advice}" for advice in names]
        lines += [f"  -> {advice}" for advice in answer.advices]
    if answer.short_of:
        lines.append(f"  the scheduler would not send it here: Insufficient {', '.join(answer.short_of)}")
    if answer.not_known:
        lines.append(f"  not known of this machine, so not counted: {', '.join(answer.not_known)}")
        lines.append(
            "  -> the scheduler sends it only to nodes that advertise them; --devices says what this one does"
        )
    for resource in admission.may_crash:
        lines.append(
            f"  the plugin of {resource} may crash while it chooses: it takes a set of too few GPUs "
            "(go-gpuallocator v0.6), and the kubelet then refuses the pod"
        )
    lines += _claim_lines(answer.claims)
    for remark in answer.remarks:
        lines += [f"  {remark.field}: {remark.reason}", f"  -> {remark.change}"]
    return lines


def other_names(missing: Iterable[str], offered: Iterable[str], machine: NodeTopology) -> Iterable[str]:
    """Yield for each resource that a node lacks its other ones of that vendor, and its GPUs' MIG profiles."""
    plugins = tuple(offered)
    is_cut = any(name.startswith(MIG_PREFIX) for name in plugins)
    models = dict.fromkeys(model for gpu in machine.gpus if (model := known_model(gpu)))
    profiles = dict.fromkeys(mig_resource(one.name) for model in models for one in model.profiles)
    for resource in (name for name in missing if name not in plugins):
        if names := [name for name in like(resource, plugins) if name != resource][:_MOST_NAMES]:
            yield f"no device plugin advertises {resource} here; this node offers {', '.join(names)}"
        if "mig-" in resource and not is_cut and profiles:
            yield f"the profiles of its GPUs, once a profile or mig-parted cuts them: {', '.join(profiles)}"


def _claim_lines(claims: JudgedClaims) -> Iterable[str]:
    """Yield which devices a pod's claims get, or why that is not known."""
    if claims.unknown:
        yield f"  not known, so not counted: whether its claims can be served ({'; '.join(claims.unknown)})"
        yield f"  -> {CLAIM_REMEDY}"
        return
    for name, devices in claims.devices.items():
        yield f"  claim {name}: {', '.join(map(str, devices)) or 'no devices'}"


def places_document(admission: Admission) -> dict[str, dict[str, Any]]:
    """Return the hint, the exclusive CPUs and the memory of each container as JSON data."""
    containers: dict[str, dict[str, Any]] = {}
    for name, hint in admission.hint.items():
        numa_nodes = None if hint.numa_nodes is None else format_cpulist(hint.numa_nodes)
        containers[name] = {"hint": {"numa_nodes": numa_nodes, "preferred": hint.preferred}}
    for name, cpus in admission.cpus.items():
        containers.setdefault(name, {})["cpus"] = format_cpulist(cpus)
    for name, blocks in admission.memory.items():
        containers.setdefault(name, {})["memory"] = [
            {"resource": b.resource, "numa_nodes": format_cpulist(b.numa_nodes), "bytes": b.bytes}
            for b in blocks
        ]
    return containers


def answer_document(answer: JudgedAdmission) -> dict[str, Any]:
    """Return one admission as JSON data."""
    admission = answer.admission
    containers = places_document(admission)
    for name, devices in admission.devices.items():
        containers.setdefault(name, {})["devices"] = {
            resource: list(ids) for resource, ids in devices.items()
        }
        if choices := admission.choices.get(name):
            equal = {resource: [list(ids) for ids in sets] for resource, sets in choices.items()}
            containers[name]["equal_choices"] = equal
        if gpus := answer.gpus.get(name):
            containers[name]["near"] = granted_document(answer.topology, gpus)
    return {
        "name": admission.name,
        "admitted": admission.admitted,
        "qos": admission.qos,
        "reason": admission.reason,
        "message": admission.message,
        "in_the_way": list(admission.in_the_way),
        "advice": list(answer.advices),
        "scheduler": {
            "insufficient": list(answer.short_of),
            "not_known": list(answer.not_known),
            "claims": claims_document(answer.claims),
        },
        "containers": containers,
        "remarks": [{"field": r.field, "reason": r.reason, "value": r.value} for r in answer.remarks],
    }


def claims_document(claims: JudgedClaims) -> dict[str, Any] | None:
    """Return the outcome of a pod's claims as JSON data, without unknown devices; None without claims."""
    if not claims.asked:
        return None
    devices = {} if claims.unknown else claims.devices
    return {
        "asked": list(claims.asked),
        "refusal": claims.refusal,
        "not_known": list(claims.unknown),
        "devices": {name: list(map(str, several)) for name, several in devices.items()},
    }


def grants(admission: Admission, *, names_of_devices: bool = True) -> Iterable[tuple[str, str]]:
    """Yield what each container of an admitted pod got, in words."""
    for name in dict.fromkeys([*admission.hint, *admission.cpus, *admission.memory, *admission.devices]):
        parts = [f"CPUs {format_cpulist(admission.cpus[name])}" if name in admission.cpus else "shared CPUs"]
        parts += [
            f"{human_bytes(block.bytes)} {block.resource} on NUMA node {format_cpulist(block.numa_nodes)}"
            for block in admission.memory.get(name, ())
        ]
        choices = admission.choices.get(name, {})
        for resource, ids in admission.devices.get(name, {}).items():
            listed = f"{resource} {', '.join(ids)}{_others(choices.get(resource, ()))}"
            parts.append(listed if names_of_devices else f"{len(ids)} {resource}")
        yield name, "; ".join(parts)


def _others(choices: tuple[tuple[str, ...], ...]) -> str:
    """Return the device plugin's other choices, in words; nothing without a choice."""
    others = " or ".join(", ".join(ids) for ids in choices[1:])
    if len(others) > _MOST_LETTERS:
        return f" (one of {len(choices)} choices that are equal for the plugin)"
    return f" (or {others})" if others else ""


def in_the_way(resources: tuple[str, ...]) -> str:
    if len(resources) < 2:
        return "".join(resources)
    return f"{', '.join(resources[:-1])} and {resources[-1]} on the same NUMA nodes"
