"""What is asked and refused before the first node is taken out of service."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from numaforge.commands.over_inventory import say_how
from numaforge.commands.rollout.options import NOT_HERE
from numaforge.errors import NumaforgeError
from numaforge.preflight.cluster import RBAC
from numaforge.preflight.runner import verification_check
from numaforge.report.summary import grouped_by_reason
from numaforge.report.terminal import progress
from numaforge.report.wording import counted, some_of
from numaforge.rollout.cluster import Cluster, ClusterNode
from numaforge.rollout.configz import refuse_unreadable
from numaforge.rollout.fleet import Member
from numaforge.rollout.kubectl import permissions
from numaforge.rollout.launch import Pyinfra, Survey
from numaforge.rollout.options import PLACE, RolloutOptions, read_options
from numaforge.rollout.outcome import Outcome
from numaforge.rollout.program import tail
from numaforge.rollout.record import Ending, unreadable
from numaforge.rollout.steps import Steps, run

T = TypeVar("T")

_REASONS = 10
_FOR_THE_FLEET = {*RolloutOptions.model_fields} - {*NOT_HERE, "verify", "retry_failed"}


def waiting(steps: Steps[T], what: str, far: Callable[[], str] = str) -> T:
    """Do work that takes more than a moment, with a sign of life on a terminal, and how `far` it is."""
    with progress(what) as show_far:

        def sleep(seconds: float) -> None:
            show_far(far())
            time.sleep(seconds)

        return run(steps, sleep)


def asked(program: Pyinfra) -> Survey:
    """Ask every host what it needs."""
    try:
        return waiting(program.survey(), "asking every host what it needs", lambda: program.answered)
    finally:
        if program.surveyed:
            say_how(program.surveyed)


def common_options(survey: Survey) -> RolloutOptions:
    """Return the options that all hosts agree on.

    Raises NumaforgeError for hosts that cannot be planned, and for hosts that disagree.
    """
    if survey.refused:
        lines = _by_reason(dict(sorted(survey.refused.items())), ": ", survey.log)
        raise NumaforgeError("nothing was begun:\n" + "\n".join(lines))
    if not survey.needs:
        hosts = {**did_not_answer(survey), **dict.fromkeys(survey.without_kubelet, "without a kubelet")}
        lines = _by_reason(hosts, " ", survey.log) or [*tail(survey.log)]
        raise NumaforgeError(
            "\n  ".join(["no host with a kubelet said what it needs:", *lines]),
            where=str(survey.log),
            remedy="nothing was begun",
        )
    return read_options(agreed({each.host: each.options for each in survey.needs}, _FOR_THE_FLEET))


def _by_reason(reasons: Mapping[str, str], between: str, log: Path) -> list[str]:
    """Return a line for each reason with its hosts, the first few, and where the others are."""
    groups = grouped_by_reason(reasons)
    lines = [f"{some_of(hosts)}{between}{reason}" for reason, hosts in groups[:_REASONS]]
    if len(groups) > _REASONS:
        lines.append(f"and {counted(len(groups) - _REASONS, 'more reason')}: see {log}")
    return lines


def agreed(said: Mapping[str, Mapping[str, Any]], names: Collection[str]) -> dict[str, Any]:
    """Return those options that hosts say; `said` has those of each host.

    Raises NumaforgeError for hosts that disagree.
    """
    common: dict[str, Any] = {}
    said_by: dict[str, str] = {}
    for host, options in said.items():
        for name in (name for name in names if name in options):
            value = options[name]
            if common.setdefault(name, value) != value:
                raise NumaforgeError(
                    f"{host} says {value!r}, {said_by[name]} says {common[name]!r}",
                    where=f"{PLACE}.{name}",
                    remedy="say the same for all hosts of a roll-out, or say it on the command line",
                )
            said_by.setdefault(name, host)
    return common


def preflight(cluster: Cluster, options: RolloutOptions, survey: Survey) -> dict[str, ClusterNode]:
    """Refuse what would fail later: missing permissions, a suite that cannot run, hosts that the cluster
    does not know.

    Returns the cluster's nodes by name.
    """
    missing = [str(each) for each in permissions(options.namespace) if not cluster.may(each)]
    if missing:
        raise NumaforgeError(
            f"this login lacks permissions: {', '.join(missing)}",
            where=options.kubeconfig or "the kubeconfig",
            remedy=RBAC,
        )
    suite = verification_check() if options.verify else None
    if suite is not None and suite.severity:
        raise NumaforgeError(suite.found, where=suite.name, remedy=f"{suite.remedy}; nothing was begun")
    known = {node.name: node for node in cluster.nodes()}
    for each in survey.needs:
        if each.joined and each.node not in known:
            raise NumaforgeError(
                f"the cluster knows no node {each.node}; it has {len(known)} others",
                where=each.host,
                remedy="check kubeconfig and context; the node has the host's name, or what the kubelet's "
                "--hostname-override says",
            )
    return known


def require_readable(cluster: Cluster, survey: Survey) -> None:
    """Refuse hosts whose kubelets could not be proved to run with the new configuration."""
    refuse_unreadable(cluster, {each.host: each.unreadable for each in survey.needs if each.unreadable})


def members_of(nodes: Mapping[str, ClusterNode], survey: Survey) -> tuple[list[Member], dict[str, Outcome]]:
    """Return the hosts that need a restart or are in a roll-out; and those whose record cannot be read."""
    members, refused = [], {}
    for each in survey.needs:
        if not each.joined:
            continue
        node = nodes[each.node]
        if trouble := unreadable(node):
            refused[each.host] = Outcome(Ending.BLOCKED, trouble)
        elif each.is_member(node):
            members.append(Member(each.host, each.node))
    return members, refused


def did_not_answer(survey: Survey) -> dict[str, str]:
    return {host: f"did not answer: {why}" for host, why in survey.silent.items()}
