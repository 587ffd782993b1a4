"""Show whether a node would admit pods, and how many of a shape fit: the `admit` and `fit` commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from numaforge.errors import ExitCode, NumaforgeError
from numaforge.report.terminal import show, show_json

# What is not needed for `--help` is imported where it is used.
if TYPE_CHECKING:
    from rich.console import RenderableType

    from numaforge.kubelet.admission import Admission, Pod
    from numaforge.kubelet.admission.fit import Fit, FitReport, LargestShape, Scenario
    from numaforge.kubelet.admission.hints import Hint
    from numaforge.kubelet.admission.node import Free
    from numaforge.kubelet.admission.qos import Remark

_GPU = "gpu"

_config_option = click.option("--config", metavar="FILE", type=click.Path(), help="Else the machine's own.")
_drop_in_option = click.option(
    "--drop-in", metavar="DIR", type=click.Path(), help="The folder of --config-dir."
)
_flag_option = click.option("--flag", "flags", metavar="FLAG", multiple=True, help="A kubelet flag.")
_version_option = click.option(
    "--kubelet-version", metavar="VERSION", help="Whose defaults apply; else the newest one that is known."
)
_devices_option = click.option(
    "--devices",
    metavar="FILE",
    type=click.Path(),
    help='What device plugins advertise, as {"nvidia.com/gpu": [0, 0, 1, 1]}; else the machine\'s GPUs.',
)
_state_option = click.option(
    "--state-dir",
    metavar="DIR",
    type=click.Path(),
    help="Start from the state files in this kubelet root directory.",
)
_output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="What to print.",
)


@dataclass(frozen=True)
class Answer:
    """One admission, with what the pod's author should know about its QoS class."""

    admission: Admission
    remarks: tuple[Remark, ...]


@click.command()
@click.argument("pods", metavar="POD.yaml...", nargs=-1, required=True, type=click.Path(allow_dash=True))
@click.option(
    "--topology", metavar="FILE", required=True, type=click.Path(), help="A snapshot or a topology (JSON)."
)
@_config_option
@_drop_in_option
@_flag_option
@_version_option
@_devices_option
@_state_option
@_output_option
def admit(
    pods: tuple[str, ...],
    topology: str,
    config: str | None,
    drop_in: str | None,
    flags: tuple[str, ...],
    kubelet_version: str | None,
    devices: str | None,
    state_dir: str | None,
    output: str,
) -> int:
    """Say whether a node's kubelet would admit pods, one after the other.

    POD.yaml holds pods, or anything with a pod template, as many times as it has replicas; a document
    `remove: NAME` takes a pod away again. Exits with 0 where all are admitted, 1 where one is refused.
    """
    from numaforge.kubelet.admission.qos import explain
    from numaforge.kubelet.admission.settings import STATIC
    from numaforge.report.inputs import read_operations

    node = _scenario(topology, config, drop_in, flags, kubelet_version, devices, state_dir).node()
    static = node.settings.cpu_policy == STATIC
    answers: list[Answer] = []
    held = node.pods
    for operation in read_operations(pods, replicas=True):
        if isinstance(operation, str):
            node.remove(operation)
            continue
        if operation.name in node.pods and operation.name not in held:
            raise NumaforgeError(
                f"pod {operation.name!r} is admitted already",
                remedy=f"take it away first, with a document `remove: {operation.name}`, or rename one",
            )
        remarks = explain(operation, cpu_manager_is_static=static, gates=node.settings.gates)
        answers.append(Answer(node.admit(operation), remarks))
    if output == "json":
        show_json({"schema": 1, "admissions": [answer_document(answer) for answer in answers]})
    else:
        click.echo("\n".join(answer_text(answer) for answer in answers))
    return ExitCode.YES if all(answer.admission.admitted for answer in answers) else ExitCode.NO


@click.command()
@click.argument("pod", metavar="POD.yaml", type=click.Path(allow_dash=True))
@click.option(
    "--topology",
    "topologies",
    metavar="FILE",
    multiple=True,
    required=True,
    type=click.Path(),
    help="A snapshot or a topology (JSON); once for each node.",
)
@_config_option
@_drop_in_option
@_flag_option
@_version_option
@_devices_option
@_state_option
@_output_option
def fit(
    pod: str,
    topologies: tuple[str, ...],
    config: str | None,
    drop_in: str | None,
    flags: tuple[str, ...],
    kubelet_version: str | None,
    devices: str | None,
    state_dir: str | None,
    output: str,
) -> int:
    """Say how many pods of one shape fit on each node, what runs out, and what would help.

    Exits with 0 where at least one pod fits somewhere, 1 where none does.
    """
    from numaforge.kubelet.admission.fit import fit as fit_node
    from numaforge.kubelet.admission.fit import largest_shapes

    shape = _only_pod(pod)
    documents: list[dict[str, Any]] = []
    total = 0
    for path in topologies:
        scenario = _scenario(path, config, drop_in, flags, kubelet_version, devices, state_dir)
        report = fit_node(scenario, shape)
        resource = _device_resource(scenario, shape)
        shapes = largest_shapes(scenario, resource) if resource else ()
        total += report.configured.pods
        node = scenario.topology.hostname or path
        if output == "json":
            documents.append(
                {"node": node, **fit_document(report), "largest": shape_documents(resource, shapes)}
            )
        else:
            show(fit_tables(node, shape.name, report, resource, shapes))
    if output == "json":
        show_json({"schema": 1, "pod": shape.name, "pods": total, "nodes": documents})
    elif len(topologies) > 1:
        click.echo(f"all {len(topologies)} nodes together: {total} pods of {shape.name}")
    return ExitCode.YES if total else ExitCode.NO


def answer_text(answer: Answer) -> str:
    """Return one admission for a terminal: the verdict, what each container got, remarks on QoS."""
    admission = answer.admission
    name = click.style(admission.name, bold=True)
    if admission.admitted:
        lines = [f"{name}  {click.style('admitted', fg='green')}  {admission.qos}"]
        lines += [f"  {container}: {got}" for container, got in _grants(admission)]
    else:
        verdict = click.style(f"refused, {admission.reason}", fg="red")
        lines = [f"{name}  {verdict}  {admission.qos}", f"  {admission.status_message}"]
        if admission.in_the_way:
            lines.append(f"  in the way: {_in_the_way(admission.in_the_way)}")
    for remark in answer.remarks:
        lines += [f"  {remark.field}: {remark.reason}", f"  -> {remark.change}"]
    return "\n".join(lines)


def answer_document(answer: Answer) -> dict[str, Any]:
    """Return one admission as JSON data."""
    from numaforge.cpulist import format_cpulist

    admission = answer.admission
    containers: dict[str, dict[str, Any]] = {
        name: {"hint": _hint(hint)} for name, hint in admission.hint.items()
    }
    for name, cpus in admission.cpus.items():
        containers.setdefault(name, {})["cpus"] = format_cpulist(cpus)
    for name, blocks in admission.memory.items():
        containers.setdefault(name, {})["memory"] = [
            {"resource": b.resource, "numa_nodes": format_cpulist(b.numa_nodes), "bytes": b.bytes}
            for b in blocks
        ]
    for name, held in admission.devices.items():
        containers.setdefault(name, {})["devices"] = {resource: list(ids) for resource, ids in held.items()}
    return {
        "name": admission.name,
        "admitted": admission.admitted,
        "qos": admission.qos,
        "reason": admission.reason,
        "message": admission.message,
        "in_the_way": list(admission.in_the_way),
        "containers": containers,
        "remarks": [{"field": r.field, "reason": r.reason, "value": r.value} for r in answer.remarks],
    }


def fit_document(report: FitReport) -> dict[str, Any]:
    """Return what fits on one node as JSON data."""
    free = report.configured.free
    return {
        "pods": report.configured.pods,
        "policies": [
            {
                "policy": each.policy,
                "scope": each.scope,
                "pods": each.pods,
                "runs_out": list(each.runs_out),
                "reason": each.refusal.reason if each.refusal else None,
                "error": each.error,
            }
            for each in report.alternatives
        ],
        "left": _free_document(free) if free else None,
        "advice": [{"change": advice.change, "pods": advice.pods} for advice in report.advice],
    }


def shape_documents(resource: str | None, shapes: Iterable[LargestShape]) -> list[dict[str, Any]]:
    """Return the largest shapes as JSON data."""
    return [
        {
            "resource": resource,
            "devices": shape.devices,
            "pods": shape.pods,
            "cpus": shape.cpus,
            "memory_bytes": shape.memory_bytes,
        }
        for shape in shapes
    ]


def fit_tables(
    node: str, pod: str, report: FitReport, resource: str | None, shapes: Iterable[LargestShape]
) -> RenderableType:
    """Return what fits on one node: by policy, what is left over, what would help, the largest shapes."""
    from rich.console import Group
    from rich.text import Text

    from numaforge.report.wording import counted

    configured = report.configured
    parts: list[RenderableType] = [
        Text.assemble((node, "bold"), f"  {counted(configured.pods, 'pod')} of {pod}"),
        Text(""),
        _policy_table(configured, report.alternatives),
    ]
    if configured.free:
        parts += [Text(""), Text("Left over", style="bold"), _left_table(configured.free)]
    if report.advice:
        lines = [f"  {counted(each.pods, 'pod')} with {each.change}" for each in report.advice]
        parts += [Text(""), Text("What would help", style="bold"), Text("\n".join(lines))]
    if resource and shapes:
        parts += [Text(""), Text(f"Largest Guaranteed pod by {resource}", style="bold"), _shape_table(shapes)]
    return Group(*parts, Text(""))


def _policy_table(configured: Fit, alternatives: Iterable[Fit]) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("policy", "scope", "pods", "runs out"):
        table.add_column(heading, justify="right" if heading == "pods" else "left")
    for each in alternatives:
        mark = "  <- configured" if each is configured else ""
        runs_out = each.error or _in_the_way(each.runs_out)
        table.add_row(
            each.policy, "" if each.policy == "none" else each.scope, str(each.pods), runs_out + mark
        )
    return table


def _left_table(free: Free) -> RenderableType:
    from rich.table import Table

    from numaforge.report.wording import human_bytes

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("NUMA node", "exclusive CPUs", "memory", *free.devices):
        table.add_column(heading, justify="right")
    for node in free.numa_nodes:
        cpus = "-" if node.cpus is None else str(len(node.cpus))
        memory = "-" if node.memory_bytes is None else human_bytes(node.memory_bytes)
        table.add_row(str(node.id), cpus, memory, *(str(node.devices[resource]) for resource in free.devices))
    counts = (str(count) for count in free.devices.values())
    table.add_row("all", f"{free.cpu_milli / 1000:g}", human_bytes(free.memory_bytes), *counts)
    return table


def _shape_table(shapes: Iterable[LargestShape]) -> RenderableType:
    from rich.table import Table

    from numaforge.report.wording import human_bytes

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("devices", "pods", "CPUs each", "memory each"):
        table.add_column(heading, justify="right")
    for shape in shapes:
        sizes = (str(shape.cpus), human_bytes(shape.memory_bytes)) if shape.pods else ("-", "-")
        table.add_row(str(shape.devices), str(shape.pods), *sizes)
    return table


def _free_document(free: Free) -> dict[str, Any]:
    from numaforge.cpulist import format_cpulist

    return {
        "cpu_milli": free.cpu_milli,
        "memory_bytes": free.memory_bytes,
        "devices": dict(free.devices),
        "numa_nodes": [
            {
                "id": node.id,
                "cpus": None if node.cpus is None else format_cpulist(node.cpus),
                "memory_bytes": node.memory_bytes,
                "devices": dict(node.devices),
            }
            for node in free.numa_nodes
        ],
    }


def _grants(admission: Admission) -> Iterable[tuple[str, str]]:
    from numaforge.cpulist import format_cpulist
    from numaforge.report.wording import human_bytes

    names = dict.fromkeys([*admission.hint, *admission.cpus, *admission.memory, *admission.devices])
    for name in names:
        parts = [f"CPUs {format_cpulist(admission.cpus[name])}" if name in admission.cpus else "shared CPUs"]
        parts += [
            f"{human_bytes(block.bytes)} {block.resource} on NUMA node {format_cpulist(block.numa_nodes)}"
            for block in admission.memory.get(name, ())
        ]
        held: Mapping[str, tuple[str, ...]] = admission.devices.get(name, {})
        parts += [f"{resource} {', '.join(ids)}" for resource, ids in held.items()]
        yield name, "; ".join(parts)


def _hint(hint: Hint) -> dict[str, Any]:
    from numaforge.cpulist import format_cpulist

    nodes = hint.numa_nodes
    return {"numa_nodes": None if nodes is None else format_cpulist(nodes), "preferred": hint.preferred}


def _in_the_way(resources: tuple[str, ...]) -> str:
    if len(resources) < 2:
        return "".join(resources)
    return f"{', '.join(resources[:-1])} and {resources[-1]} on the same NUMA nodes"


def _scenario(
    topology: str,
    config: str | None,
    drop_in: str | None,
    flags: tuple[str, ...],
    kubelet_version: str | None,
    devices: str | None,
    state_dir: str | None,
) -> Scenario:
    from numaforge.kubelet.admission import inventory_of
    from numaforge.kubelet.admission.fit import Scenario
    from numaforge.report.inputs import read_config, read_devices, read_machine, read_state

    machine = read_machine(topology)
    return Scenario(
        topology=machine,
        config=read_config(config, drop_in, flags, kubelet_version, machine),
        devices=read_devices(devices) if devices else inventory_of(machine),
        state=read_state(state_dir) if state_dir else None,
    )


def _only_pod(path: str) -> Pod:
    from numaforge.report.inputs import read_operations

    pods = [operation for operation in read_operations([path]) if not isinstance(operation, str)]
    if len(pods) != 1:
        raise NumaforgeError(
            f"holds {len(pods)} pods", where=path, remedy="give the one whose shape is to fit"
        )
    return pods[0]


def _device_resource(scenario: Scenario, pod: Pod) -> str | None:
    """Return the resource to vary: the devices that the pod asks for, else the node's GPUs."""
    offered = scenario.devices or {}
    asked = [resource for container in pod.containers for resource in container.limits if resource in offered]
    return next(iter([*asked, *(resource for resource in offered if _GPU in resource)]), None)
