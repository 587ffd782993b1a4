"""`numaforge cluster`: what schedulers and operators read about nodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numaforge.commands.cluster_explain import explain
from numaforge.commands.machine import (
    answers_of,
    each_named,
    machine_and_plan,
    machines_argument,
    planning_options,
)
from numaforge.commands.options import login_options, output_option
from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.report.terminal import echo, echo_lines, print_data, remark, show_json

# Imports that `--help` does not need are inside the functions that use them.
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numaforge.cluster.schedulers.fleet import ServedNode
    from numaforge.cluster.schedulers.live import Deviation
    from numaforge.cluster.schedulers.systems import Folder

_LINK = re.compile(r"[\w.~:/?\[\]@!$&()*+,;=%-]+", re.ASCII)
"""The characters of a URL before its fragment; no quotes, which could end the YAML string around it."""

_DRA = "dra"
SYSTEMS = (
    "labels",
    "nfd",
    "noderesourcetopology",
    "volcano",
    "koordinator",
    "crane",
    "coscheduling",
    "gangs",
    "kueue",
    "openshift",
    _DRA,
    "gpu-operator",
    "network-operator",
    "amd-gpu-operator",
)
"""The names of the systems in `numaforge.cluster.schedulers.systems`, for --help and completion."""


@click.group()
def cluster() -> None:
    """Write and verify what schedulers read about nodes."""


@cluster.command()
@machines_argument
@planning_options
@click.option(
    "--for", "systems", multiple=True, type=click.Choice(SYSTEMS), help="Limit to this system; repeatable."
)
@click.option(
    "--to", "folder", metavar="DIR", type=click.Path(), help="Write a folder per system below this folder."
)
@click.option("--live", is_flag=True, help="Ask the cluster which version of PodGroup it serves (read-only).")
@login_options
@output_option("yaml", "json")
def generate(
    sources: tuple[str, ...],
    profile: str | None,
    kubelet_version: str | None,
    systems: tuple[str, ...],
    folder: str | None,
    live: bool,
    output: str,
    **login: str | None,
) -> int:
    """Write what schedulers read about nodes: a folder per system, for kubectl apply -k.

    Each file states its reason. Asks no cluster without --live, and applies nothing. Names on standard error
    what a system cannot express, such as NUMA nodes without CPUs.

    Exit codes: 1 a machine cannot be planned.

    \b
    Examples:
      numaforge cluster generate dgx-h100 --profile training --to cluster
      numaforge cluster generate fleet/ --profile training --for volcano
    """
    from numaforge.cluster.schedulers.kubectl_get import Kubectl
    from numaforge.cluster.schedulers.systems import generate as generated

    nodes, code = _all_served(sources, profile, kubelet_version)
    if not nodes:
        return code
    uses_cluster = live or any(login.values())
    folders = generated(nodes, systems, Kubectl(**login).gang_version() if uses_cluster else None)
    for written in folders:
        if written.nothing:
            remark(f"{written.name}: nothing to write: {written.nothing}")
        for node, why in written.left_out.items():
            remark(f"{written.name}: {node} is incomplete: {why}")
    if folder is not None:
        _write(folders, Path(folder))
    elif output == "json":
        show_json({"schema": 1, "systems": {written.name: dict(written.texts()) for written in folders}})
    else:
        for written in folders:
            for name, text in written.texts():
                print_data(f"---\n# {written.name}/{name}\n{text.rstrip()}\n")
    return code


def _all_served(
    sources: tuple[str, ...], profile: str | None, kubelet_version: str | None
) -> tuple[list[ServedNode], int]:
    """Return the machines as their plans make them, and the exit code for those that cannot be planned."""
    if not sources:
        raise click.UsageError("name machines: files, a folder of snapshots, ready machines, hosts")
    answers = answers_of(each_named(sources), lambda name: _served(name, profile, kubelet_version))
    for name, why in answers.failed.items():
        remark(f"{name}: {why}")
    nodes = [node for _, node in answers.read]
    _require_names(nodes)
    return nodes, answers.code


def _served(source: str, profile: str | None, kubelet_version: str | None) -> ServedNode:
    """Return a machine as its plan makes it."""
    from numaforge.cluster.schedulers.fleet import ServedNode
    from numaforge.rollout.names import node_name

    machine, plan = machine_and_plan(source, None, profile, kubelet_version)
    if plan is None:
        raise click.UsageError(f"{source} has no plan: give --profile")
    if not machine.hostname:
        raise NumaforgeError("snapshot has no hostname; cannot match a Node", where=source)
    node_name(machine.hostname.lower())
    return ServedNode.of(machine, plan)


def _require_names(nodes: Sequence[ServedNode]) -> None:
    names = [node.name for node in nodes]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise NumaforgeError(f"{', '.join(twice)}: several machines have this name, and a cluster takes one")


def _write(folders: Sequence[Folder], below: Path) -> None:
    for folder in folders:
        if folder.files:
            _write_files(below / folder.name, dict(folder.texts()))
            remark(f"wrote {below / folder.name}: {folder.why}")


def _write_files(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        file = folder / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise NumaforgeError(f"cannot be written: {error.strerror}", where=str(file)) from error


@cluster.command()
@click.option("--to", "folder", metavar="DIR", type=click.Path(), help="Write the files to this folder.")
@click.option(
    "--runbooks",
    metavar="URL",
    help="URL of docs/alerts.md; each alert links to its section.",
)
@output_option("yaml", "json")
def monitoring(folder: str | None, runbooks: str | None, output: str) -> None:
    """Write what Prometheus, Grafana and GPU exporters need to watch planned nodes.

    Alert rules, as a file and as a PrometheusRule; a dashboard; counters and settings of NVIDIA's
    dcgm-exporter and AMD's metrics exporter. Asks no cluster, and applies nothing.

    \b
    Examples:
      numaforge cluster monitoring --to monitoring
      numaforge cluster monitoring --to monitoring --runbooks https://wiki.example.com/gpu-alerts
    """
    from numaforge.fleet.monitoring import RUNBOOKS, monitoring_files

    if runbooks is not None and not _LINK.fullmatch(runbooks):
        raise click.BadParameter(f"{runbooks!r} is not a URL: write it without #", param_hint="--runbooks")
    texts = monitoring_files(runbooks or RUNBOOKS)
    if folder is not None:
        _write_files(Path(folder), texts)
        for name in texts:
            remark(f"wrote {Path(folder) / name}")
    elif output == "json":
        show_json({"schema": 1, "files": texts})
    else:
        for name, text in texts.items():
            print_data(f"---\n# {name}\n{text.rstrip()}\n")


@cluster.command()
@machines_argument
@planning_options
@click.option(
    "--for", "systems", multiple=True, type=click.Choice(SYSTEMS), help="Limit to this system; repeatable."
)
@login_options
@output_option("table", "json")
def verify(
    sources: tuple[str, ...],
    profile: str | None,
    kubelet_version: str | None,
    systems: tuple[str, ...],
    output: str,
    **login: str | None,
) -> int:
    """Compare a cluster's live objects with the plans of these nodes, and name the writer of each difference.

    Read-only. Compares ResourceSlices, which drivers write, with the topology; skips systems whose objects
    the API server does not serve.

    Exit codes: 0 all is as planned, 1 something differs or is missing.

    \b
    Example:
      numaforge cluster verify fleet/ --profile training --for volcano
    """
    from dataclasses import asdict

    from numaforge.cluster.schedulers.kubectl_get import Kubectl
    from numaforge.cluster.schedulers.slices import slice_deviations
    from numaforge.cluster.schedulers.systems import generate as generated
    from numaforge.report.wording import counted

    nodes, code = _all_served(sources, profile, kubelet_version)
    if not nodes:
        return code
    deviations_of, passed_over, count_compared = {}, dict[str, list[str]](), 0
    for folder in generated(nodes, systems):
        deviations_of[folder.name], count, unserved = _deviations(folder, login)
        count_compared += count
        if unserved:
            passed_over[folder.name] = unserved
    if _DRA in (systems or SYSTEMS):
        slices = Kubectl(**login).resource_slices()
        if slices is None and any(node.plan.dra for node in nodes):
            passed_over.setdefault(_DRA, []).append("resource.k8s.io ResourceSlice")
        node_names = {node.name for node in nodes}
        count_compared += sum(
            (device_slice.get("spec") or {}).get("nodeName") in node_names for device_slice in slices or ()
        )
        deviations_of.setdefault(_DRA, []).extend(
            slice_deviations(nodes, slices) if slices is not None else ()
        )
    wrong = any(deviations_of.values())
    if output == "json":
        show_json(
            {
                "schema": 1,
                "objects": count_compared,
                "deviations": {
                    name: [asdict(one) for one in deviations_list]
                    for name, deviations_list in deviations_of.items()
                },
                "not_served": passed_over,
            }
        )
    else:
        for name, kinds in passed_over.items():
            remark(f"{name}: the cluster does not serve {', '.join(kinds)}")
        for name, deviations_list in deviations_of.items():
            for one in deviations_list:
                echo_lines([f"{name}: {one}"])
        how = "see above" if wrong else "as planned"
        echo(f"{counted(count_compared, 'object')} held to {counted(len(nodes), 'plan')}: {how}")
    return ExitCode.NO if wrong else code


def _deviations(folder: Folder, login: Mapping[str, str | None]) -> tuple[list[Deviation], int, list[str]]:
    """Return the deviations of a system's live objects, the number compared, and the kinds not served."""
    from numaforge.cluster.schedulers.kubectl_get import Kubectl, identity
    from numaforge.cluster.schedulers.live import deviations

    if folder.nothing:
        remark(f"{folder.name}: nothing to hold a cluster to: {folder.nothing}")
    live, unserved = Kubectl(**login).live_objects(folder.compared())
    documents = folder.held_where_served(unserved)
    unlike = [
        one
        for document in documents
        for one in deviations(document, folder.completed(live.get(identity(document))))
    ]
    return unlike, len(documents), [" ".join(kind) for kind in unserved]


cluster.add_command(explain)
