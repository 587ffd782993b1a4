"""Say how many pods of one shape fit on each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from numaforge.commands.machine import machine_option
from numaforge.commands.options import output_option
from numaforge.commands.scenario import scenario_of, scenario_options
from numaforge.errors import ExitCode, NumaforgeError
from numaforge.report.fit import fit_document, fit_tables, hosts_table, shape_documents
from numaforge.report.terminal import show, show_json

# What is not needed for `--help` is imported where it is used.
if TYPE_CHECKING:
    from numaforge.kubelet.admission import Pod
    from numaforge.kubelet.admission.fit import FitReport, Scenario

_GPU = "gpu"


@click.command()
@click.argument("pod", metavar="POD.yaml", type=click.Path(allow_dash=True))
@machine_option("--topology", "topologies", multiple=True)
@scenario_options
@output_option("table", "json")
def fit(pod: str, topologies: tuple[str, ...], output: str, **kubelet: Any) -> int:
    """Say how many pods of one shape fit on each node, what runs out, and what would help.

    Exits with 0 where at least one pod fits somewhere, 1 where none does.
    """
    from numaforge.kubelet.admission.fit import fit as fit_node
    from numaforge.kubelet.admission.fit import largest_shapes
    from numaforge.kubelet.admission.scheduler import not_known

    shape = _only_pod(pod)
    documents: list[dict[str, Any]] = []
    reports: list[tuple[str, FitReport]] = []
    for path in topologies or (None,):
        scenario = scenario_of(path, **kubelet)
        report = fit_node(scenario, shape)
        resource = _device_resource(scenario, shape)
        shapes = largest_shapes(scenario, resource) if resource else ()
        unknown = not_known(scenario.node(), shape)
        node = scenario.topology.hostname or path or "this machine"
        reports.append((node, report))
        if output == "json":
            documents.append(
                {
                    "node": node,
                    **fit_document(report),
                    "not_known": list(unknown),
                    "largest": shape_documents(resource, shapes),
                }
            )
        else:
            show(fit_tables(node, shape.name, report, resource, shapes, unknown))
    total = sum(report.configured.pods for _, report in reports)
    if output == "json":
        show_json({"schema": 1, "pod": shape.name, "pods": total, "nodes": documents})
    elif len(topologies) > 1:
        show(hosts_table(reports, shape.name))
    return ExitCode.YES if total else ExitCode.NO


def _only_pod(path: str) -> Pod:
    from numaforge.commands.inputs import read_operations

    pods = [operation for operation in read_operations([path]) if not isinstance(operation, str)]
    if len(pods) != 1:
        raise NumaforgeError(
            f"holds {len(pods)} pods", where=path, remedy="give the one whose shape is to fit"
        )
    return pods[0]


def _device_resource(scenario: Scenario, pod: Pod) -> str | None:
    """Return the resource to vary: the devices that the pod asks for, else the node's GPUs, else slices."""
    offered = scenario.devices or {}
    asked = [resource for container in pod.containers for resource in container.limits if resource in offered]
    slices = [resource for resource, devices in offered.items() if any(one.part_of for one in devices)]
    return next(iter([*asked, *(resource for resource in offered if _GPU in resource), *slices]), None)
