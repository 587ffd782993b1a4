"""Which settings admit most of what a fleet runs: tables of 80 columns and JSON."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from numaforge.kubelet.admission.node import Free
from numaforge.kubelet.admission.scheduler import is_counted
from numaforge.kubelet.admission.shapes import KindOutcome, Load, SettingOutcome, ShapesReport
from numaforge.lib.quantity import counted
from numaforge.report.columns import add_row, columns, text_line
from numaforge.report.fit import free_document, left_on_node
from numaforge.report.hostnames import folded


def shapes_document(report: ShapesReport, load: Load) -> dict[str, Any]:
    """Return the answer as JSON data."""
    return {
        "shapes": [{"name": shape.name, "count": shape.count} for shape in load.shapes],
        "on_every_node": len(load.everywhere) - report.on_one_node,
        "on_one_node": report.on_one_node,
        "sums": _outcome(report.sums),
        "configured": _outcome(report.configured),
        "policies": [_outcome(outcome) for outcome in report.policies],
        "options": [_outcome(outcome) for outcome in report.options],
        "best": _outcome(report.best),
        "unselected": list(report.unselected),
    }


def shapes_tables(report: ShapesReport, load: Load, nodes: int, kinds: int) -> RenderableType:
    """Return the settings side by side, each shape's pods, and what no shape can use."""
    total, best = sum(shape.count for shape in load.shapes), report.best
    shapes = counted(len(load.shapes), "shape")
    headline = f"{counted(total, 'pod')} of {shapes}, on {counted(nodes, 'node')} of {counted(kinds, 'kind')}"
    scope = "" if best.policy == "none" else f", topologyManagerScope: {best.scope}"
    change = f", {best.change}" if best.change else ""
    advice = f"Best: topologyManagerPolicy: {best.policy}{scope}{change}"
    if best.change == "as configured":
        advice = "No setting that was tried serves more: the nodes are best as they are configured."
    excluded = "never: {}: its nodeSelector or affinity excludes every node"
    never = [
        (excluded if shape in report.unselected else "never as configured: {}").format(shape)
        for shape in report.configured.never
    ]
    parts: list[RenderableType] = [
        text_line(headline, "bold"),
        *_of_daemonsets(len(load.everywhere) - report.on_one_node, report.on_one_node),
        text_line(""),
        _settings_table(report, total),
        text_line(""),
        *map(text_line, _options_lines(report, total)),
        text_line(""),
        text_line(advice, "bold"),
        text_line(""),
        _shapes_table(report, load),
        *map(text_line, never),
    ]
    for kind in best.kinds:
        if kind.free is not None and kind.busy:
            parts += [text_line(""), *_free_lines(kind, kind.free, load)]
    return Group(*parts)


def _of_daemonsets(on_each: int, on_one: int) -> Iterator[Text]:
    """Yield the nodes that count pods of DaemonSets; nothing without any."""
    alone = f"on {'the node of its claim' if on_one == 1 else 'the nodes of their claims'} alone"
    if on_each:
        more = f", {on_one} {alone}" if on_one else ""
        yield text_line(f"beside {counted(on_each, 'pod')} of DaemonSets on each node{more}")
    elif on_one:
        yield text_line(f"beside {counted(on_one, 'pod')} of DaemonSets {alone}")


def _settings_table(report: ShapesReport, total: int) -> RenderableType:
    numbers = ("pods", "served", "aligned", "GPUs", "refused")
    table = columns("policy", "scope", *numbers, "", right=numbers, wraps=(*numbers, ""), style="dim")
    add_row(table, "sums alone", "", *_numbers(report.sums, total), "")
    rows = report.policies if report.configured in report.policies else (report.configured, *report.policies)
    for outcome in rows:
        mark = "<- configured" if outcome is report.configured else ""
        scope = "" if outcome.policy == "none" else outcome.scope
        never = f"never: {len(outcome.never)} of the shapes" if outcome.never else ""
        add_row(table, outcome.policy, scope, *_numbers(outcome, total), outcome.error or mark or never)
    return table


def _numbers(outcome: SettingOutcome, total: int) -> tuple[object, ...]:
    """Return the pods of a setting, the share that is served, aligned pods, GPUs, and refused pods."""
    if outcome.error:
        return ("-",) * 5
    share = "100%" if outcome.pods == total else f"{min(99.9, round(outcome.share * 100, 1)):g}%"
    aligned, refused = sum(outcome.aligned.values()), sum(outcome.refused.values())
    return outcome.pods, share, aligned, outcome.devices, refused or ""


def _options_lines(report: ShapesReport, total: int) -> list[str]:
    """Return the options and reservations that change the result of the best policy and scope."""
    base = max((report.configured, *report.policies), key=lambda option: option.rank)
    changed = [option for option in report.options if not option.error and option.rank[:4] != base.rank[:4]]
    if not changed:
        return ["No option and no other reservation that was tried changes that."]
    lines = ["With one more change"]
    for option in sorted(changed, key=lambda option: option.rank, reverse=True):
        _, served, aligned, *_ = _numbers(option, total)
        lines.append(f"  {counted(option.pods, 'pod')}, {served} served, {aligned} aligned: {option.change}")
    return lines


def _shapes_table(report: ShapesReport, load: Load) -> RenderableType:
    runs = {"by sums": report.sums, "as configured": report.configured, "at best": report.best}
    if report.best is report.configured:
        del runs["at best"]
    counts = ("pods", *runs)
    table = columns("shape", *counts, right=counts, folds=("shape", *counts), style="dim")
    for shape in load.shapes:
        add_row(table, shape.name, shape.count, *(run.admitted.get(shape.name, 0) for run in runs.values()))
    return table


def _free_lines(kind: KindOutcome, free: Free, load: Load) -> Iterator[RenderableType]:
    """Yield what no shape can use of a full node of a kind: of resources that shapes ask for, and GPUs."""
    busy = f"{kind.busy} of {counted(len(kind.names), 'node')} busy"
    yield text_line(f"{folded(kind.names)}: {busy}; of a full one no shape can use", "bold")
    requested = {name for shape in load.shapes for one in shape.pod.containers for name in one.limits}
    shown = [name for name in free.devices if name in requested or is_counted(name)]
    numa_nodes = tuple(
        replace(node, devices={name: node.devices[name] for name in shown}) for node in free.numa_nodes
    )
    devices = {name: free.devices[name] for name in shown}
    yield from left_on_node(replace(free, devices=devices, numa_nodes=numa_nodes))
    if kind.no_more_pods:
        yield text_line("it runs as many pods as its kubelet takes (maxPods)")


def _outcome(outcome: SettingOutcome) -> dict[str, Any]:
    return {
        "policy": outcome.policy,
        "scope": outcome.scope,
        "change": outcome.change,
        "pods": outcome.pods,
        "served": round(outcome.share, 4),
        "aligned": sum(outcome.aligned.values()),
        "gpus": outcome.devices,
        "admitted": dict(outcome.admitted),
        "refused": dict(outcome.refused),
        "never": list(outcome.never),
        "error": outcome.error,
        "kinds": [
            {
                "nodes": list(kind.names),
                "busy": kind.busy,
                "admitted": dict(kind.admitted),
                "left": free_document(kind.free) if kind.free else None,
                "no_more_pods": kind.no_more_pods,
            }
            for kind in outcome.kinds
        ],
    }
