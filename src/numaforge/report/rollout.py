"""What a roll-out would do, and the state of roll-outs in the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from numaforge.kubelet.config.comparison import meaning
from numaforge.report.columns import add_row, columns, text_line
from numaforge.report.hostnames import folded, grouped_by_reason, in_short, without_name
from numaforge.report.moves import condensed
from numaforge.report.racks import disagreement_text
from numaforge.report.wording import counted, some_of
from numaforge.rollout.orders import NamedRollout, NodeStatus, RolloutStatus, working
from numaforge.rollout.stages import Stage
from numaforge.topology.trays import NODE_LISTS

if TYPE_CHECKING:
    from numaforge.rollout.launch import Survey
    from numaforge.rollout.options import RolloutOptions
    from numaforge.rollout.outlook import NodeOutlook, UndrainedOutlook
    from numaforge.rollout.self_planned import SelfPlanned
    from numaforge.rollout.slots import Slot
    from numaforge.topology.trays import Disagreement

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
    restarts = f"{sum(each.needs.restarts for each in ahead)} of {len(survey.needs)} kubelets have to restart"
    budget = f"out of service together at most: {options.max_unavailable}"
    parts: list[RenderableType] = [text_line(f"{restarts}; {budget}", "bold"), text_line("")]
    parts += [_turns(ahead)] if verbose or len(ahead) <= _ROWS else _order(ahead)
    parts += _changes_of_groups(_changes_by_hosts(ahead), verbose=verbose)
    for stage in Stage:
        parts += _stage(stage, [each for each in undrained if each.stage is stage], verbose=verbose)
    parts += [
        text_line(f"{in_short(hosts)} refused: {why}", "yellow") for why, hosts in grouped_by_reason(refused)
    ]
    told = [each for each in racks if each.what != NODE_LISTS or not {*each.hosts} & {*refused}]
    parts += [text_line(disagreement_text(each), "yellow") for each in told]
    silent = grouped_by_reason(survey.silent)
    parts += [text_line(f"{in_short(hosts)} did not answer: {why}", "yellow") for why, hosts in silent]
    themselves = {name: f"by profile {each.profile}: {each.verdict}" for name, each in own.items()}
    alike = grouped_by_reason(themselves)
    parts += [text_line(f"Beside these plan themselves {in_short(nodes)}, {how}") for how, nodes in alike]
    return Group(*parts)


_STAGES = {
    Stage.IN_PLACE: "Then, with their pods on them",
    Stage.OUTSIDE: "Then, as they are no Nodes of the cluster",
}


def _stage(stage: Stage, hosts: Sequence[UndrainedOutlook], *, verbose: bool) -> Iterator[RenderableType]:
    """Yield the hosts of a stage without a drain, and what changes on them."""
    if not hosts:
        return
    boots = sum(each.needs.reboots for each in hosts)
    rebooted = f", {boots} with a reboot" if boots else ""
    yield text_line("")
    names = ", ".join if verbose else some_of
    yield text_line(f"{_STAGES[stage]}: {names([each.needs.host for each in hosts])}{rebooted}", "bold")
    troubles = {each.needs.host: "; ".join(each.in_the_way) for each in hosts if each.in_the_way}
    yield from _in_the_way(troubles)
    yield from _changes_of_groups(
        _hosts_by_lines({each.needs.host: each.needs.does for each in hosts}), verbose=verbose
    )


def _in_the_way(troubles: Mapping[str, str]) -> list[Text]:
    return [
        text_line(f"In the way of {in_short(found)}: {why}", "yellow")
        for why, found in grouped_by_reason(troubles)
    ]


def _changes_by_hosts(ahead: Sequence[NodeOutlook]) -> list[tuple[list[str], list[str]]]:
    """Return changes and the hosts that share them; those of most hosts first."""
    return _hosts_by_lines(
        {
            each.needs.host: [
                *each.needs.sentences,
                *(f"Allocatable {line}" for line in _changes(each)),
                *_labels(each),
                *_unpinned(each),
            ]
            for each in ahead
        }
    )


def _hosts_by_lines(lines_of: Mapping[str, Sequence[str]]) -> list[tuple[list[str], list[str]]]:
    """Return lines and the hosts that share them; those of most hosts first."""
    groups: dict[tuple[str, ...], list[tuple[list[str], str]]] = {}
    for host, said in lines_of.items():
        lines = [*condensed(said)]
        groups.setdefault(tuple(without_name(line, host) for line in lines), []).append((lines, host))
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    return [
        (found[0][0] if len(found) == 1 else [*shared], [host for _, host in found])
        for shared, found in ordered
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
    if left := groups[shown:]:
        names = folded(host for _, hosts in left for host in hosts)
        yield text_line(f"and {counted(len(left), 'more group')}: {names}")


def _turns(ahead: Sequence[NodeOutlook]) -> Table:
    titles = ("Turn", "Node", "Domain", "Pods to evict", "In the way")
    table = columns(*titles, right=("Turn", "Pods to evict"), wraps=titles, style="table.header")
    for turn, each in enumerate(ahead, start=1):
        troubles = tuple(_troubles(each)) or "-"
        add_row(table, turn, each.needs.host, each.domain or "-", each.evicted, troubles)
    return table


def _order(ahead: Sequence[NodeOutlook]) -> list[RenderableType]:
    """Return the order in few lines: the first nodes, and what is in the way of which."""
    hosts = some_of(each.needs.host for each in ahead)
    pods = counted(sum(each.evicted for each in ahead), "pod")
    troubles = {each.needs.host: "; ".join(_troubles(each)) for each in ahead if _troubles(each)}
    return [
        text_line(f"In this order: {hosts}; {pods} to evict. --verbose names them all"),
        *_in_the_way(troubles),
    ]


def _troubles(each: NodeOutlook) -> tuple[str, ...]:
    return (*each.in_the_way, *each.waits_for)


def _changes(each: NodeOutlook) -> list[str]:
    return [
        f"{name}: {now} -> {then}"
        for name, (now, then) in each.allocatable.items()
        if meaning(now) != meaning(then)
    ]


def _labels(each: NodeOutlook) -> list[str]:
    return [f"label {name}: {now or 'none'} -> {then or 'none'}" for name, (now, then) in each.labels.items()]


def _unpinned(each: NodeOutlook) -> list[str]:
    return [
        f"{pod} loses its {counted(cpus, 'own CPU')} until it names a claim"
        for pod, cpus in sorted(each.unpinned.items())
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
                "host": each.needs.host,
                "node": each.needs.node,
                "failure_domain": each.domain,
                "pods_to_evict": each.evicted,
                "in_the_way": list(each.in_the_way),
                "waits_for": list(each.waits_for),
                "changes": list(each.needs.sentences),
                "allocatable": {
                    name: {"now": now, "predicted": then} for name, (now, then) in each.allocatable.items()
                },
                "labels": {name: {"now": now, "planned": then} for name, (now, then) in each.labels.items()},
                "unpinned": each.unpinned,
            }
            for each in ahead
        ],
        "undrained": [
            {
                "host": each.needs.host,
                "node": each.needs.node if each.stage is Stage.IN_PLACE else None,
                "stage": each.stage,
                "reboots": each.needs.reboots,
                "in_the_way": list(each.in_the_way),
                "changes": list(each.needs.does),
            }
            for each in undrained
        ],
        "refused": dict(refused),
        "racks": [
            {
                "rack": each.rack,
                "what": each.what,
                "groups": [{"value": value, "hosts": list(hosts)} for value, hosts in each.groups.items()],
            }
            for each in racks
        ],
        "plan_themselves": {name: asdict(said) for name, said in own.items()},
        "without_restart": [each.host for each in survey.needs if not each.restarts],
        "without_kubelet": list(survey.without_kubelet),
        "silent": dict(survey.silent),
    }


def situation_tables(found: RolloutStatus, *, verbose: bool = False) -> RenderableType:
    """Return the state of roll-outs in the cluster; of many nodes, only open ones without `verbose`."""
    parts: list[RenderableType] = [*_leads(found.rollouts, verbose), *_slots(found.slots, verbose)]
    parts += [text_line(trouble, "yellow") for trouble in found.troubles]
    nodes = list(found.nodes)
    if len(nodes) > _ROWS and not verbose:
        parts.append(text_line(f"{counted(len(nodes), 'node')}: {_states(nodes)}; --verbose names them all"))
        nodes = [each for each in nodes if _is_open(each)]
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
        who = f"led by {led.leader}" if led.leader else f"ended, {led.state.get('ended', 'at no known time')}"
        lines.append(
            text_line(f"Roll-out {led.name}: {who}" + (f", stopped by {led.stop}" if led.stop else ""))
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
    for each in nodes:
        marks = [
            _node_state(each),
            *(["not released"] if each.tainted else []),
            *(["cordoned"] if each.unschedulable else []),
            *([] if each.ready else ["not Ready"]),
        ]
        add_row(table, each.node, ", ".join(dict.fromkeys(marks)), _by(each), _why(each))
    return table


def _node_state(each: NodeStatus) -> str:
    if each.trouble:
        return "unreadable"
    if each.record:
        phase = each.record.phase.value
        return f"{phase}, interrupted" if each.left else phase
    return each.ending or ("plans itself" if each.own else "has said nothing")


def _by(each: NodeStatus) -> str:
    """Return who works on a node, else the profile and plan of one that plans itself."""
    if each.left and each.runner_gone:
        return f"{working(each)}, whose process has ended"
    if each.left:
        return f"{working(each)}, silent for {each.silent_seconds} s"
    return working(each) or (f"profile {each.own.profile}, plan {each.own.plan}" if each.own else "")


def _why(each: NodeStatus) -> str:
    return (
        each.trouble
        or "; ".join(filter(None, (each.reason, each.left)))
        or (each.own.verdict if each.own else "")
    )


def _states(nodes: Iterable[NodeStatus]) -> str:
    return ", ".join(f"{number} {state}" for state, number in Counter(map(_node_state, nodes)).most_common())


def _is_open(each: NodeStatus) -> bool:
    """Whether a node is in the middle of a roll-out, out of service or not verified."""
    wrong = each.own is not None and not each.own.verified
    return bool(each.trouble or each.record or each.unschedulable or not each.ready or each.tainted or wrong)


def situation_document(found: RolloutStatus) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        "rollouts": [
            {**led.state, "name": led.name, "leader": led.leader, "stop": led.stop} for led in found.rollouts
        ],
        "slots": [
            {"slot": slot.lease.name, "node": slot.node, "runner": slot.runner} for slot in found.slots
        ],
        "nodes": [
            {
                "node": each.node,
                "phase": each.record.phase.value if each.record else None,
                "runner": each.record.runner if each.record else None,
                "runner_gone": each.runner_gone,
                "silent_seconds": each.silent_seconds,
                "transaction": each.record.transaction if each.record else None,
                "ending": each.ending or None,
                "rollout": each.record.rollout if each.record else None,
                "reason": each.reason,
                "trouble": each.trouble or None,
                "planned_itself": asdict(each.own) if each.own else None,
                "tainted": each.tainted,
                "unschedulable": each.unschedulable,
                "ready": each.ready,
            }
            for each in found.nodes
        ],
        "troubles": list(found.troubles),
    }
