"""The checks before the first node is taken out of service."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from numaforge.commands.over_inventory import say_how, say_notices
from numaforge.commands.rollout.options import NOT_HERE
from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.lib.ordering import natural
from numaforge.lib.quantity import counted
from numaforge.preflight.cluster import RBAC
from numaforge.preflight.runner import verification_check
from numaforge.report.hostnames import disagreement_text, grouped_by_reason, in_short
from numaforge.report.terminal import progress
from numaforge.rollout.cluster import Cluster, ClusterNode, Lease
from numaforge.rollout.control_plane import is_control_plane
from numaforge.rollout.fleet import Member
from numaforge.rollout.kubectl import permissions
from numaforge.rollout.launch import Pyinfra, Survey
from numaforge.rollout.names import PLACE
from numaforge.rollout.options import RolloutOptions, read_options
from numaforge.rollout.outcome import Outcome
from numaforge.rollout.program import tail
from numaforge.rollout.record import Ending, node_leases, unreadable
from numaforge.rollout.refusals import RACK_REMEDY, disagreeing, held_back, refusals, unknown_node
from numaforge.rollout.slots import held_slots
from numaforge.rollout.steps import Steps, run

T = TypeVar("T")

_REASONS = 10
_FOR_THE_FLEET = {*RolloutOptions.model_fields} - {*NOT_HERE, "verify", "retry_failed"}


def waiting(steps: Steps[T], activity: str, far: Callable[[], str] = str) -> T:
    """Run steps that take a while; a terminal shows `activity` and `far`, its progress."""
    with progress(activity) as show_far:

        def sleep(seconds: float) -> None:
            show_far(far())
            time.sleep(seconds)

        return run(steps, sleep)


def surveyed(program: Pyinfra) -> Survey:
    """Ask every host what it needs."""
    return asked(program, program.survey(), "asking every host what it needs")


def asked(program: Pyinfra, steps: Steps[T], activity: str) -> T:
    """Run steps of pyinfra, and print the inventory's notices."""
    try:
        return waiting(steps, activity, lambda: program.answered)
    finally:
        if program.last_asked:
            say_how(program.last_asked)
            say_notices(program.last_asked)


def common_options(survey: Survey) -> RolloutOptions:
    """Return the options that all hosts agree on. Raises NumaforgeError where they do not."""
    if not survey.needs:
        silent = did_not_answer(survey)
        others = {**dict.fromkeys(survey.without_kubelet, "without a kubelet"), **silent}
        lines = _by_reason(dict(sorted(survey.refused.items())), ": ", survey.log)
        lines += _by_reason(others, " ", survey.log)
        none = NumaforgeError(
            "\n  ".join(["no host can be changed:", *(lines or tail(survey.log))]),
            where=str(survey.log),
            remedy="nothing was begun",
        )
        if silent and not survey.refused:
            none.exit_code = ExitCode.UNREACHABLE
        raise none
    return read_options(agreed({need.host: need.options for need in survey.needs}, _FOR_THE_FLEET))


def _by_reason(reasons: Mapping[str, str], between: str, log: Path) -> list[str]:
    """Return a line for each of the first reasons with its hosts, and a hint at the others."""
    groups = grouped_by_reason(reasons)
    lines = [f"{in_short(hosts)}{between}{reason}" for reason, hosts in groups[:_REASONS]]
    if len(groups) > _REASONS:
        lines.append(f"and {counted(len(groups) - _REASONS, 'more reason')}: see {log}")
    return lines


def agreed(options_of: Mapping[str, Mapping[str, Any]], names: Collection[str]) -> dict[str, Any]:
    """Return the options among `names` that hosts set; raises NumaforgeError for hosts that disagree."""
    common: dict[str, Any] = {}
    said_by: dict[str, str] = {}
    for host, options in options_of.items():
        for name in (name for name in names if name in options):
            value = options[name]
            if common.setdefault(name, value) != value:
                raise NumaforgeError(
                    f"{host} says {value!r}, {said_by[name]} says {common[name]!r}",
                    where=f"{PLACE}.{name}",
                    remedy="set it equally for all hosts of a roll-out, or on the command line",
                )
            said_by.setdefault(name, host)
    return common


def preflight(
    cluster: Cluster, options: RolloutOptions, survey: Survey
) -> tuple[dict[str, ClusterNode], dict[str, Lease]]:
    """Refuse what fails on every host; return the nodes by name, and the Leases with their records."""
    if missing := [str(one) for one in permissions(options.namespace) if not cluster.may(one)]:
        lacking = f"this login lacks permissions: {', '.join(missing)}"
        raise NumaforgeError(lacking, where=options.kubeconfig or "the kubeconfig", remedy=RBAC)
    suite = verification_check() if options.verify else None
    if suite is not None and suite.severity:
        raise NumaforgeError(suite.evidence, where=suite.name, remedy=f"{suite.remedy}; nothing was begun")
    nodes_by_name = {node.name: node for node in cluster.nodes()}
    joined = [need for need in survey.needs if need.joined]
    if joined and not any(need.node in nodes_by_name for need in joined):
        raise NumaforgeError(
            unknown_node(joined[0], nodes_by_name), where=joined[0].host, remedy="nothing was begun"
        )
    return nodes_by_name, node_leases(cluster.leases(ended=True))


def refused_hosts(
    cluster: Cluster,
    options: RolloutOptions,
    nodes: Mapping[str, ClusterNode],
    leases: Mapping[str, Lease],
    survey: Survey,
) -> dict[str, str]:
    """Return the hosts that are not changed, and why; raises NumaforgeError for a canary, or for all."""
    refused_alone = refusals(cluster, nodes, leases, survey, options.budget())
    racks = held_back(disagreeing(survey, refused_alone), survey, nodes, leases)
    refused = {
        **{host: f"{disagreement_text(disagreement)}: {RACK_REMEDY}" for host, disagreement in racks.items()},
        **refused_alone,
    }
    if not survey.shards and all(need.host in refused for need in survey.needs):
        lines = _by_reason(dict(sorted(refused.items())), ": ", survey.log)
        raise NumaforgeError("nothing was begun:\n" + "\n".join(lines))
    reasons = {**did_not_answer(survey), **refused}
    for host in options.canary_hosts:
        if host in reasons:
            raise NumaforgeError(
                f"it is a canary and cannot be changed: {reasons[host]}",
                where=host,
                remedy="nothing was begun: repair it, or name another --canary",
            )
    return refused


@dataclass(frozen=True)
class Sorted:
    """The hosts that change, those `blocked` by a record that cannot be read, and those that need nothing."""

    members: list[Member]
    blocked: dict[str, Outcome]
    as_planned: tuple[str, ...]


def sort_hosts(
    cluster: Cluster,
    nodes: Mapping[str, ClusterNode],
    leases: Mapping[str, Lease],
    survey: Survey,
    refused: Collection[str],
) -> Sorted:
    """Return which hosts change and which are drained for it; hosts in a roll-out are included."""
    members, blocked, as_planned = [], {}, []
    slots = {slot.node for slot in held_slots(cluster.leases())}
    for need in survey.needs:
        if need.host in refused:
            continue
        node = nodes[need.node] if need.joined else None
        lease = leases.get(need.node)
        drains = node is not None and (need.drains(node, lease) or node.name in slots)
        if node is not None and lease is not None and (trouble := unreadable(lease)):
            blocked[need.host] = Outcome(Ending.BLOCKED, trouble)
        elif drains or need.changes:
            name = node.name if node is not None else None
            control_plane = node is not None and is_control_plane(node)
            members.append(Member(need.host, name, drains, need.unfinished, control_plane))
        else:
            as_planned.append(need.host)
    return Sorted(members, blocked, tuple(sorted(as_planned, key=natural)))


def did_not_answer(survey: Survey) -> dict[str, str]:
    return {host: f"did not answer: {why}" for host, why in survey.silent.items()}
