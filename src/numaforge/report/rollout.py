"""What a roll-out would do, and the state of roll-outs in the cluster."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from numaforge.report.hostnames import folded, grouped_by_reason, in_short, without_name
from numaforge.report.moves import condensed
from numaforge.report.racks import disagreement_text
from numaforge.report.wording import some_of
from numaforge.rollout.launch import Survey
from numaforge.rollout.options import RolloutOptions
from numaforge.rollout.orders import NamedRollout, NodeStatus, RolloutStatus, working
from numaforge.rollout.outlook import NodeOutlook, UndrainedOutlook
from numaforge.rollout.self_planned import SelfPlanned
from numaforge.rollout.slots import Slot
from numaforge.rollout.stages import Stage

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
    restarts = (
        f"{sum(outlook.needs.restarts for outlook in ahead)} of {len(survey.needs)} kubelets have to restart"
    )
    budget = f"out of service together at most: {options.max_unavailable}"
    parts: list[RenderableType] = [text_line(f"{restarts}; {budget}", "bold"), text_line("")]
    parts += [_turns(ahead)] if verbose or len(ahead) <= _ROWS else _order(ahead)
    parts += _changes_of_groups(_changes_by_hosts(ahead), verbose=verbose)
    for stage in Stage:
        parts += _stage(
            stage,
            [undrained_outlook for undrained_outlook in undrained if undrained_outlook.stage is stage],
            verbose=verbose,
        )
    parts += [
        text_line(f"{in_short(hosts)} refused: {why}", "yellow") for why, hosts in grouped_by_reason(refused)
    ]
    shown_racks = [rack for rack in racks if rack.what != NODE_LISTS or not {*rack.hosts} & {*refused}]
    parts += [text_line(disagreement_text(rack), "yellow") for rack in shown_racks]
    silent = grouped_by_reason(survey.silent)
    parts += [text_line(f"{in_short(hosts)} did not answer: {why}", "yellow") for why, hosts in silent]
    themselves = {
        name: f"by profile {self_plan.profile}: {self_plan.verdict}" for name, self_plan in own.items()
    }
    alike = grouped_by_reason(themselves)
    parts += [text_line(f"Beside these plan themselves {in_short(nodes)}, {how}") for how, nodes in alike]
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
    troubles = {outlook.needs.host: "; ".join(outlook.in_the_way) for outlook in hosts if outlook.in_the_way}
    yield from _in_the_way(troubles)
    yield from _changes_of_groups(
        _hosts_by_lines({outlook.needs.host: outlook.needs.does for outlook in hosts}), verbose=verbose
    )


def _in_the_way(troubles: Mapping[str, str]) -> list[Text]:
    return [
        text_line(f"In the way of {in_short(hosts)}: {why}", "yellow")
        for why, hosts in grouped_by_reason(troubles)
    ]


def _changes_by_hosts(ahead: Sequence[NodeOutlook]) -> list[tuple[list[str], list[str]]]:
    """Return changes and the hosts that share them; those of most hosts first."""
    return _hosts_by_lines(
        {
            outlook.needs.host: [
                *outlook.needs.sentences,
                *(f"Allocatable {line}" for line in _changes(outlook)),
                *[
                    f"label {name}: {current or 'none'} -> {then or 'none'}"
                    for name, (current, then) in outlook.labels.items()
                ],
                *[
                    f"{pod} loses its {counted(cpus, 'own CPU')} until it names a claim"
                    for pod, cpus in sorted(outlook.unpinned.items())
                ],
            ]
            for outlook in ahead
        }
    )


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
        troubles = tuple(_troubles(outlook)) or "-"
        add_row(table, turn, outlook.needs.host, outlook.domain or "-", outlook.evicted, troubles)
    return table


def _order(ahead: Sequence[NodeOutlook]) -> list[RenderableType]:
    """Return the order in few lines: the first nodes, and the nodes with blockers."""
    hosts = some_of(outlook.needs.host for outlook in ahead)
    pods = counted(sum(outlook.evicted for outlook in ahead), "pod")
    troubles = {outlook.needs.host: "; ".join(_troubles(outlook)) for outlook in ahead if _troubles(outlook)}
    return [
        text_line(f"In this order: {hosts}; {pods} to evict. --verbose names them all"),
        *_in_the_way(troubles),
    ]


def _troubles(outlook: NodeOutlook) -> tuple[str, ...]:
    return (*outlook.in_the_way, *outlook.waits_for)


def _changes(outlook: NodeOutlook) -> list[str]:
    return [
        f"{name}: {current} -> {then}"
        for name, (current, then) in outlook.allocatable.items()
        if meaning(current) != meaning(then)
    ]


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
                "host": outlook.needs.host,
                "node": outlook.needs.node,
                "failure_domain": outlook.domain,
                "pods_to_evict": outlook.evicted,
                "in_the_way": list(outlook.in_the_way),
                "waits_for": list(outlook.waits_for),
                "changes": list(outlook.needs.sentences),
                "allocatable": {
                    name: {"now": current, "predicted": then}
                    for name, (current, then) in outlook.allocatable.items()
                },
                "labels": {
                    name: {"now": current, "planned": then}
                    for name, (current, then) in outlook.labels.items()
                },
                "unpinned": outlook.unpinned,
            }
            for outlook in ahead
        ],
        "undrained": [
            {
                "host": outlook.needs.host,
                "node": outlook.needs.node if outlook.stage is Stage.IN_PLACE else None,
                "stage": outlook.stage,
                "reboots": outlook.needs.reboots,
                "in_the_way": list(outlook.in_the_way),
                "changes": list(outlook.needs.does),
            }
            for outlook in undrained
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
    parts: list[RenderableType] = [*_leads(status.rollouts, verbose), *_slots(status.slots, verbose)]
    parts += [text_line(trouble, "yellow") for trouble in status.troubles]
    nodes = list(status.nodes)
    if len(nodes) > _ROWS and not verbose:
        parts.append(text_line(f"{counted(len(nodes), 'node')}: {_states(nodes)}; --verbose names them all"))
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
        leader = (
            f"led by {led.leader}" if led.leader else f"ended, {led.state.get('ended', 'at no known time')}"
        )
        lines.append(
            text_line(f"Roll-out {led.name}: {leader}" + (f", stopped by {led.stop}" if led.stop else ""))
        )
    if len(shown) < len(rollouts):
        lines.append(
            text_line(f"{counted(len(rollouts) - len(shown), 'roll-out')} ended; --verbose names them")
        )
    return lines


def _slots(slots: Sequence[Slot], verbose: bool) -> list[Text]:
    if verbose or len(slots) <= _FEW:
        return [text_line(f"Slot {slot.lease.name}: held by {slot.node} for {slot.runner}") for slot in slots]
    return [text_line(f"{len(slots)} slots are held, by {in_short(slot.node for slot in slots)}")]


def _nodes(nodes: Sequence[NodeStatus]) -> Table:
    titles = ("Node", "State", "By", "Why")
    table = columns(*titles, folds=titles, style="table.header")
    for node in nodes:
        marks = [
            _node_state(node),
            *(["not released"] if node.tainted else []),
            *(["cordoned"] if node.unschedulable else []),
            *([] if node.ready else ["not Ready"]),
        ]
        add_row(table, node.node, ", ".join(dict.fromkeys(marks)), _by(node), _why(node))
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


def _why(node: NodeStatus) -> str:
    return (
        node.trouble
        or "; ".join(filter(None, (node.reason, node.left)))
        or (node.own.verdict if node.own else "")
    )


def _states(nodes: Iterable[NodeStatus]) -> str:
    return ", ".join(f"{number} {state}" for state, number in Counter(map(_node_state, nodes)).most_common())


def _is_open(node: NodeStatus) -> bool:
    """Whether a node is in the middle of a roll-out, out of service or not verified."""
    wrong = node.own is not None and not node.own.verified
    return bool(node.trouble or node.record or node.unschedulable or not node.ready or node.tainted or wrong)


def situation_document(status: RolloutStatus) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        "rollouts": [
            {**led.state, "name": led.name, "leader": led.leader, "stop": led.stop} for led in status.rollouts
        ],
        "slots": [
            {"slot": slot.lease.name, "node": slot.node, "runner": slot.runner} for slot in status.slots
        ],
        "nodes": [
            {
                "node": node.node,
                "phase": node.record.phase.value if node.record else None,
                "runner": node.record.runner if node.record else None,
                "runner_gone": node.runner_gone,
                "silent_seconds": node.silent_seconds,
                "transaction": node.record.transaction if node.record else None,
                "ending": node.ending or None,
                "rollout": node.record.rollout if node.record else None,
                "reason": node.reason,
                "trouble": node.trouble or None,
                "planned_itself": asdict(node.own) if node.own else None,
                "tainted": node.tainted,
                "unschedulable": node.unschedulable,
                "ready": node.ready,
            }
            for node in status.nodes
        ],
        "troubles": list(status.troubles),
    }
