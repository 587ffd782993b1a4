"""`numaforge fit`: how many pods of one shape fit on each node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from numaforge.commands.machine import each_named, machine_option
from numaforge.commands.options import output_option, path_option
from numaforge.commands.scenario import scenario_of, scenario_options
from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.lib.given import digits
from numaforge.report.terminal import remark, show, show_answer, show_json

if TYPE_CHECKING:
    from numaforge.kubelet.admission.device_manager import Inventory
    from numaforge.kubelet.admission.fit import FitReport, Scenario
    from numaforge.kubelet.admission.pod import Pod

_GPU = "gpu"

MOST_NODES = 10_000
"""Limit of nodes for one machine. Kubernetes supports 5,000."""


@click.command()
@click.argument("pod", metavar="[POD.yaml]", required=False, type=click.Path(allow_dash=True))
@machine_option("topologies", multiple=True)
@path_option("--shapes", help="Compare settings by how many of these pods they admit, instead of POD.")
@scenario_options
@output_option("table", "json")
def fit(pod: str | None, topologies: tuple[str, ...], shapes: str | None, output: str, **kubelet: Any) -> int:
    """Count the pods of one shape that fit on each node.

    Shows what runs out, and what would help. With --shapes, finds the topology manager policy, scope, options
    and reservation that admit the most pods of a fleet, on all the machines together. FILE is a list or a CSV
    of shapes with their counts, or the output of `kubectl get pods -A -o json`. `--machine dgx-h100=40` is 40
    such nodes, a folder its snapshots. The files may also hold the claim objects that pods refer to.

    Exit codes: 0 a pod fits somewhere (with --shapes: all fit), 1 none does.
    """
    if (pod is None) == (shapes is None):
        raise click.UsageError("give a POD.yaml, or --shapes FILE: one of both")
    if shapes is not None:
        return _fit_shapes(shapes, topologies, output, kubelet)
    return _fit_pod(str(pod), topologies, output, kubelet)


def _fit_pod(pod: str, topologies: tuple[str, ...], output: str, kubelet: dict[str, Any]) -> int:
    from numaforge.commands.inputs import read_pods
    from numaforge.kubelet.admission.alignment import explain_gpus
    from numaforge.kubelet.admission.fit import fit as fit_node
    from numaforge.kubelet.admission.fit import largest_shapes
    from numaforge.kubelet.admission.scheduler import bound_claims, claims_not_known, not_known
    from numaforge.report.admit import other_names
    from numaforge.report.fit import fit_document, fit_tables, hosts_table, shape_documents
    from numaforge.report.near_gpus import near_document, near_lines

    request = read_pods([pod])
    pods = [operation for operation in request.operations if not isinstance(operation, str)]
    if len(pods) != 1:
        raise NumaforgeError(f"holds {len(pods)} pods", where=pod, remedy="give one pod")
    shape = pods[0]
    inventories: list[Inventory | None] = []
    is_bound = False
    documents: list[dict[str, Any]] = []
    reports: list[tuple[str, FitReport]] = []
    for path in topologies or (None,):
        if path and "=" in path and not Path(path).exists():
            raise click.UsageError(f"{path}: =COUNT is for --shapes only")
        scenario = scenario_of(path, request.claims, **kubelet)
        inventories.append(scenario.devices)
        refusal = request.unselected(shape, scenario)
        report = fit_node(scenario, shape, refusal)
        resource = None if refusal else _device_resource(scenario, shape)
        shapes = largest_shapes(scenario, resource) if resource else ()
        empty = scenario.node()
        is_bound = is_bound or bool(bound_claims(empty, shape))
        unknown = (*not_known(empty, shape), *claims_not_known(empty, shape))
        node = scenario.topology.hostname or path or "this machine"
        reports.append((node, report))
        sizes = _whole_gpus_of(shape, scenario)
        if output == "json":
            document = {"node": node, **fit_document(report), "not_known": unknown}
            document["largest"] = shape_documents(resource, shapes)
            document["near"] = near_document(scenario.topology, sizes) if sizes else None
            documents.append(document)
        else:
            near = [*near_lines(scenario.topology, sizes)] if sizes else []
            lacking = report.configured.runs_out if report.configured.pods == 0 else ()
            others = [*other_names(lacking, empty.device_manager.plugins, scenario.topology)]
            show(fit_tables(node, shape.name, report, resource, shapes, unknown, near, others))
    counts = [report.configured.pods for _, report in reports]
    together = [max(counts)] if is_bound else counts
    total = sum(together)
    remarks = [f"{one.field}: {one.reason}" for one in explain_gpus(shape, *inventories)]
    if output == "json":
        show_json({"schema": 1, "pod": shape.name, "pods": total, "remarks": remarks, "nodes": documents})
        return ExitCode.YES if total else ExitCode.NO
    for line in remarks:
        remark(line)
    if len(topologies) > 1:
        show(hosts_table(reports, shape.name, together))
    return ExitCode.YES if total else ExitCode.NO


def _fit_shapes(shapes: str, topologies: tuple[str, ...], output: str, kubelet: dict[str, Any]) -> int:
    from numaforge.cluster.explain.candidates import kind_of
    from numaforge.commands.shapes_file import read_load
    from numaforge.kubelet.admission.scheduler import claims_not_known
    from numaforge.kubelet.admission.shapes import best_settings, kinds_of
    from numaforge.report.shapes import shapes_document, shapes_tables

    if kubelet["state_dir"]:
        raise click.UsageError("--shapes fills empty nodes: leave out --state-dir")
    load_file = read_load(shapes)
    for remark_text in load_file.remarks:
        remark(remark_text)
    nodes: list[tuple[str, Scenario, frozenset[str], object]] = []
    unknown: dict[str, None] = {}
    for source, count in _nodes_named(topologies):
        scenario = scenario_of(source, load_file.claims, **kubelet)
        name = scenario.topology.hostname or source or "this machine"
        alike: object = kind_of(scenario)
        if load_file.claims.slices is not None:
            alike = alike, source  # a ResourceSlice belongs to one node
        empty = scenario.node()
        unknown |= dict.fromkeys(
            note for shape in load_file.load.shapes for note in claims_not_known(empty, shape.pod)
        )
        names = [name] if count == 1 else [f"{name}-{number}" for number in range(1, count + 1)]
        excludes = load_file.excluded_from(scenario)
        nodes += [(node_name, scenario, excludes, alike) for node_name in names]
    for unread in unknown:
        remark(f"not counted: {unread}")
    kinds = kinds_of(nodes)
    report = best_settings(kinds, load_file.load)
    show_answer(
        output,
        lambda: {"schema": 1, "nodes": len(nodes), **shapes_document(report, load_file.load)},
        lambda: shapes_tables(report, load_file.load, len(nodes), len(kinds)),
    )
    pods_of_load = sum(shape.count for shape in load_file.load.shapes)
    return ExitCode.YES if report.configured.pods == pods_of_load else ExitCode.NO


def _nodes_named(topologies: tuple[str, ...]) -> Iterator[tuple[str | None, int]]:
    """Yield each machine with its number of nodes; `dgx-h100=40` is 40."""
    if not topologies:
        yield None, 1
    for source in topologies:
        name, equals, count = source.rpartition("=")
        if equals and name and not Path(source).exists():
            number = digits(count)
            if number is None or not 0 < number <= MOST_NODES:
                raise NumaforgeError(
                    f"{count!r} is not a number of nodes", where=source, remedy=f"write 1 to {MOST_NODES}"
                )
            yield name, number
        else:
            yield from ((source_name, 1) for source_name in each_named([source]))


def _whole_gpus_of(pod: Pod, scenario: Scenario) -> tuple[int, ...]:
    """Return the numbers of whole GPUs that containers request, a pair and four for one; empty for none."""
    from numaforge.kubelet.admission.inventory import gpus_of_devices
    from numaforge.report.near_gpus import USUAL_SIZES

    known = {resource for resource, _ in gpus_of_devices(scenario.topology, scenario.devices or {})}
    limits = [limit for container in pod.containers for limit in container.limits.items()]
    sizes = {int(amount) for resource, amount in limits if resource in known}
    return tuple(sorted(sizes - {0, 1})) or (USUAL_SIZES if sizes - {0} else ())


def _device_resource(scenario: Scenario, pod: Pod) -> str | None:
    """Return the resource to vary: the pod's devices, else the node's GPUs, else slices."""
    offered = scenario.devices or {}
    resources = [name for container in pod.containers for name in container.limits if name in offered]
    gpus = [name for name in offered if _GPU in name]
    slices = [name for name, devices in offered.items() if any(one.part_of for one in devices)]
    return next(iter([*resources, *gpus, *slices]), None)
