"""What a roll-out would do, and the state of roll-outs in the cluster."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from numaforge.kubelet.config.comparison import meaning
from numaforge.lib.quantity import counted
from numaforge.machine.topology.trays import NODE_LISTS, Disagreement
from numaforge.report.columns import add_row, columns, text_line
from numaforge.report.fleet import condensed
from numaforge.report.hostnames import disagreement_text, folded, grouped_by_reason, in_short, without_name
from numaforge.report.wording import some_of
from numaforge.rollout.launch import Survey
from numaforge.rollout.options import RolloutOptions
from numaforge.rollout.orders import NamedRollout, NodeStatus, RolloutStatus, working
from numaforge.rollout.outlook import NodeOutlook, UndrainedOutlook
from numaforge.rollout.self_planned import SelfPlanned
from numaforge.rollout.shards import Stage

_ROWS = 12
"""The longest table of nodes that leaves room for the rest on one screen."""
_FEW = 4
_GROUPS = 3
_LINES_OF_CHANGES = 9
"""How many groups of hosts, and lines of what changes on them all, leave room for the rest on one screen."""


def outlook_tables(
    ahead: Sequence[NodeOutlook],
    survey: Survey,
    options: RolloutOptions,
    undrained: Sequence[UndrainedOutlook] = (),
    refused: Mapping[str, str] = MappingProxyType({}),
    own: Mapping[str, SelfPlanned] = MappingProxyType({}),
    racks: Sequence[Disagreement] = (),
    *,
    verbose: bool = False,
) -> RenderableType:
    """Return what a roll-out would do, in order; without `verbose`, equal entries are merged."""
    restarts = sum(outlook.needs.restarts for outlook in ahead)
    kubelets = f"{restarts} of {len(survey.needs)} kubelets have to restart"
    budget = f"out of service together at most: {options.max_unavailable}"
    parts: list[RenderableType] = [text_line(f"{kubelets}; {budget}", "bold"), text_line("")]
    parts += [_turns(ahead)] if verbose or len(ahead) <= _ROWS else _order(ahead)
    parts += _changes_of_groups(_changes_by_hosts(ahead), verbose=verbose)
    for stage in Stage:
        parts += _stage(stage, [one for one in undrained if one.stage is stage], verbose=verbose)
    parts += _by_reason("{} refused: {}", refused)
    shown_racks = [rack for rack in racks if rack.what != NODE_LISTS or not {*rack.hosts} & {*refused}]
    parts += [text_line(disagreement_text(rack), "yellow") for rack in shown_racks]
    parts += _by_reason("{} did not answer: {}", survey.silent)
    themselves = {name: f"by profile {one.profile}: {one.verdict}" for name, one in own.items()}
    parts += _by_reason("Beside these plan themselves {}, {}", themselves, "")
    return Group(*parts)


_STAGES = {
    Stage.IN_PLACE: "Then, with their pods on them",
    Stage.OUTSIDE: "Then, as they are not Nodes of the cluster",
}


def _stage(stage: Stage, hosts: Sequence[UndrainedOutlook], *, verbose: bool) -> Iterator[RenderableType]:
    """Yield the hosts of a stage without a drain, and what changes on them."""
    if not hosts:
        return
    boots = sum(outlook.needs.reboots for outlook in hosts)
    rebooted = f", {boots} with a reboot" if boots else ""
    yield text_line("")
    names = ", ".join if verbose else some_of
    yield text_line(f"{_STAGES[stage]}: {names([outlook.needs.host for outlook in hosts])}{rebooted}", "bold")
    yield from _by_reason(
        "In the way of {}: {}", {one.needs.host: "; ".join(one.in_the_way) for one in hosts}
    )
    changes = _hosts_by_lines({outlook.needs.host: outlook.needs.does for outlook in hosts})
    yield from _changes_of_groups(changes, verbose=verbose)


def _by_reason(words: str, reasons: Mapping[str, str], style: str = "yellow") -> list[Text]:
    """Return a line for each reason, with its hosts before it; none for an empty one."""
    given = {host: why for host, why in reasons.items() if why}
    return [text_line(words.format(in_short(hosts), why), style) for why, hosts in grouped_by_reason(given)]


def _changes_by_hosts(ahead: Sequence[NodeOutlook]) -> list[tuple[list[str], list[str]]]:
    """Return changes and the hosts that share them; those of most hosts first."""
    lines_of = {}
    for outlook in ahead:
        lines = [*outlook.needs.sentences]
        lines += [
            f"Allocatable {name}: {current} -> {then}"
            for name, (current, then) in outlook.allocatable.items()
            if meaning(current) != meaning(then)
        ]
        labels = outlook.labels.items()
        lines += [
            f"label {name}: {current or 'none'} -> {then or 'none'}" for name, (current, then) in labels
        ]
        lines += [
            f"{pod} loses its {counted(cpus, 'own CPU')} until it names a claim"
            for pod, cpus in sorted(outlook.unpinned.items())
        ]
        lines_of[outlook.needs.host] = lines
    return _hosts_by_lines(lines_of)


def _hosts_by_lines(lines_of: Mapping[str, Sequence[str]]) -> list[tuple[list[str], list[str]]]:
    """Return lines and the hosts that share them; those of most hosts first."""
    groups: dict[tuple[str, ...], list[tuple[list[str], str]]] = {}
    for host, sentences in lines_of.items():
        lines = [*condensed(sentences)]
        groups.setdefault(tuple(without_name(line, host) for line in lines), []).append((lines, host))
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    return [
        (members[0][0] if len(members) == 1 else [*shared], [host for _, host in members])
        for shared, members in ordered
    ]


def _changes_of_groups(
    groups: Sequence[tuple[list[str], list[str]]], *, verbose: bool
) -> Iterator[RenderableType]:
    """Yield the changes of each group of hosts; without `verbose`, as much as fits a screen."""
    shown = len(groups) if verbose else _GROUPS
    most = None if verbose else max(2, _LINES_OF_CHANGES // max(1, min(len(groups), shown)))
    for lines, hosts in groups[:shown]:
        yield text_line("")
        yield text_line(
            ", ".join(hosts) if verbose else f"{counted(len(hosts), 'host')}: {folded(hosts)}", "bold"
        )
        yield from (text_line(f"  {line}") for line in lines[:most])
        if most is not None and len(lines) > most:
            yield text_line(f"  and {counted(len(lines) - most, 'more change')}; --verbose names them")
    if hidden := groups[shown:]:
        names = folded(host for _, hosts in hidden for host in hosts)
        yield text_line(f"and {counted(len(hidden), 'more group')}: {names}")


def _turns(ahead: Sequence[NodeOutlook]) -> Table:
    titles = ("Turn", "Node", "Domain", "Pods to evict", "In the way")
    table = columns(*titles, right=("Turn", "Pods to evict"), folds=titles, style="table.header")
    for turn, outlook in enumerate(ahead, start=1):
        add_row(
            table, turn, outlook.needs.host, outlook.domain or "-", outlook.evicted, _troubles(outlook) or "-"
        )
    return table


def _order(ahead: Sequence[NodeOutlook]) -> list[RenderableType]:
    """Return the order in few lines: the first nodes, and the nodes with blockers."""
    hosts = some_of(outlook.needs.host for outlook in ahead)
    pods = counted(sum(outlook.evicted for outlook in ahead), "pod")
    troubles = {outlook.needs.host: "; ".join(_troubles(outlook)) for outlook in ahead}
    line = text_line(f"In this order: {hosts}; {pods} to evict. --verbose names them all")
    return [line, *_by_reason("In the way of {}: {}", troubles)]


def _troubles(outlook: NodeOutlook) -> tuple[str, ...]:
    return (*outlook.in_the_way, *outlook.waits_for)


def outlook_document(
    ahead: Sequence[NodeOutlook],
    survey: Survey,
    undrained: Sequence[UndrainedOutlook] = (),
    refused: Mapping[str, str] = MappingProxyType({}),
    own: Mapping[str, SelfPlanned] = MappingProxyType({}),
    racks: Sequence[Disagreement] = (),
) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        "nodes": [
            {
                "host": one.needs.host,
                "node": one.needs.node,
                "failure_domain": one.domain,
                "pods_to_evict": one.evicted,
                "in_the_way": list(one.in_the_way),
                "waits_for": list(one.waits_for),
                "changes": list(one.needs.sentences),
                "allocatable": _moves(one.allocatable, "predicted"),
                "labels": _moves(one.labels, "planned"),
                "unpinned": one.unpinned,
            }
            for one in ahead
        ],
        "undrained": [
            {
                "host": one.needs.host,
                "node": one.needs.node if one.stage is Stage.IN_PLACE else None,
                "stage": one.stage,
                "reboots": one.needs.reboots,
                "in_the_way": list(one.in_the_way),
                "changes": list(one.needs.does),
            }
            for one in undrained
        ],
        "refused": dict(refused),
        "racks": [
            {
                "rack": rack.rack,
                "what": rack.what,
                "groups": [{"value": value, "hosts": list(hosts)} for value, hosts in rack.groups.items()],
            }
            for rack in racks
        ],
        "plan_themselves": {name: asdict(self_plan) for name, self_plan in own.items()},
        "without_restart": [need.host for need in survey.needs if not need.restarts],
        "without_kubelet": list(survey.without_kubelet),
        "silent": dict(survey.silent),
    }


def situation_tables(status: RolloutStatus, *, verbose: bool = False) -> RenderableType:
    """Return the state of roll-outs in the cluster; of many nodes, only open ones without `verbose`."""
    slots = [f"Slot {slot.lease.name}: held by {slot.node} for {slot.runner}" for slot in status.slots]
    if len(slots) > _FEW and not verbose:
        slots = [f"{len(slots)} slots are held, by {in_short(slot.node for slot in status.slots)}"]
    parts: list[RenderableType] = [*_leads(status.rollouts, verbose), *map(text_line, slots)]
    parts += [text_line(trouble, "yellow") for trouble in status.troubles]
    nodes = list(status.nodes)
    if len(nodes) > _ROWS and not verbose:
        counts = Counter(map(_node_state, nodes)).most_common()
        states = ", ".join(f"{number} {state}" for state, number in counts)
        parts.append(text_line(f"{counted(len(nodes), 'node')}: {states}; --verbose names them all"))
        nodes = [node for node in nodes if _is_open(node)]
        if len(nodes) > _ROWS:
            parts.append(text_line(f"the first {_ROWS} of {len(nodes)} that are not over or not in service:"))
        nodes = nodes[:_ROWS]
    if nodes:
        parts.append(_nodes(nodes))
    return Group(*parts) if parts else text_line("no roll-out has been here")


def _leads(rollouts: Sequence[NamedRollout], verbose: bool) -> list[Text]:
    shown = rollouts if verbose or len(rollouts) <= _FEW else [led for led in rollouts if led.leader]
    lines = []
    for led in shown:
        ended = f"ended, {led.state.get('ended', 'at no known time')}"
        leader, stop = (
            f"led by {led.leader}" if led.leader else ended,
            f", stopped by {led.stop}" if led.stop else "",
        )
        lines.append(f"Roll-out {led.name}: {leader}{stop}")
    if len(shown) < len(rollouts):
        lines.append(f"{counted(len(rollouts) - len(shown), 'roll-out')} ended; --verbose names them")
    return [*map(text_line, lines)]


def _nodes(nodes: Sequence[NodeStatus]) -> Table:
    titles = ("Node", "State", "By", "Why")
    table = columns(*titles, folds=titles, style="table.header")
    for node in nodes:
        notes = (
            ("not released", node.tainted),
            ("cordoned", node.unschedulable),
            ("not Ready", not node.ready),
        )
        marks = dict.fromkeys((_node_state(node), *(word for word, applies in notes if applies)))
        why = node.trouble or "; ".join(filter(None, (node.reason, node.left)))
        add_row(table, node.node, ", ".join(marks), _by(node), why or (node.own.verdict if node.own else ""))
    return table


def _node_state(node: NodeStatus) -> str:
    if node.trouble:
        return "unreadable"
    if node.record:
        phase = node.record.phase.value
        return f"{phase}, interrupted" if node.left else phase
    return node.ending or ("plans itself" if node.own else "is silent")


def _by(node: NodeStatus) -> str:
    """Return the process that works on a node, else its own profile and plan."""
    if node.left and node.runner_gone:
        return f"{working(node)}, whose process has ended"
    if node.left:
        return f"{working(node)}, silent for {node.silent_seconds} s"
    return working(node) or (f"profile {node.own.profile}, plan {node.own.plan}" if node.own else "")


def _is_open(node: NodeStatus) -> bool:
    """Whether a node is in the middle of a roll-out, out of service or not verified."""
    wrong = node.own is not None and not node.own.verified
    return bool(node.trouble or node.record or node.unschedulable or not node.ready or node.tainted or wrong)


def _moves(values: Mapping[str, tuple[object, object]], later: str) -> dict[str, dict[str, object]]:
    return {name: {"now": current, later: then} for name, (current, then) in values.items()}


def situation_document(status: RolloutStatus) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        "rollouts": [
            {**led.state, "name": led.name, "leader": led.leader, "stop": led.stop} for led in status.rollouts
        ],
        "slots": [
            {"slot": slot.lease.name, "node": slot.node, "runner": slot.runner} for slot in status.slots
        ],
        "nodes": [_node_document(node) for node in status.nodes],
        "troubles": list(status.troubles),
    }


def _node_document(node: NodeStatus) -> dict[str, Any]:
    record = node.record
    return {
        "node": node.node,
        "phase": record.phase.value if record else None,
        "runner": record.runner if record else None,
        "runner_gone": node.runner_gone,
        "silent_seconds": node.silent_seconds,
        "transaction": record.transaction if record else None,
        "ending": node.ending or None,
        "rollout": record.rollout if record else None,
        "reason": node.reason,
        "trouble": node.trouble or None,
        "planned_itself": asdict(node.own) if node.own else None,
        "tainted": node.tainted,
        "unschedulable": node.unschedulable,
        "ready": node.ready,
    }
