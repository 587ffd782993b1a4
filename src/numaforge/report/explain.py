"""Where a pod or a gang would go, and why not elsewhere: as text and JSON."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from numaforge.cluster.explain.allocation import RequestCount
from numaforge.cluster.explain.candidates import SaidOfPod
from numaforge.cluster.explain.cluster import LivePod
from numaforge.cluster.explain.explanation import Explanation, OfNode
from numaforge.cluster.explain.remedies import Remedy
from numaforge.cluster.explain.workload import Workload
from numaforge.kubelet.admission.claims import ClaimedDevice
from numaforge.kubelet.admission.demand import qos_class
from numaforge.kubelet.admission.hints import Opinion
from numaforge.kubelet.admission.node import Admission
from numaforge.kubelet.admission.pod import Pod, pod_requests
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import counted, format_amount
from numaforge.report.admit import grants, in_the_way, places_document
from numaforge.report.hostnames import folded
from numaforge.report.terminal import style
from numaforge.report.wording import amount_in_words, wrapped

_WIDTH = 80
_MOST_OF_A_COLUMN = 24
_MOST_SETS = 4
_MOST_GROUPS = 40
_PLACES = {"pod": "in the pod", "node": "in the nodes", "cluster": "in the cluster"}
_STATUS = ("phase", "node", "reason", "message")
_SENDS = "may send it"
_UPDATE_WAITS = (
    "a rolling update would wait for ever: it adds a pod before it takes one away (maxUnavailable is 0), and "
    "no node has room; write strategy type Recreate, or maxSurge: 0 with maxUnavailable: 1"
)


def explanation_document(answer: Explanation, subject: LivePod | None) -> dict[str, Any]:
    """Return the answer for one workload as JSON data."""
    workload = answer.workload
    return {
        "kind": workload.kind,
        "name": workload.name,
        "pods": len(workload.members),
        "least": workload.least,
        "gang": workload.is_gang,
        "fit": answer.fit,
        "fits": answer.fits,
        "about": answer.about.pod.name,
        "asks": _asks(answer.about.pod),
        "scheduler": answer.about.placing.scheduler,
        "likely": answer.likely,
        "domain": {"label": workload.domain, "value": answer.domain} if workload.domain else None,
        "status": {name: getattr(subject, name) for name in _STATUS} if subject else None,
        "nodes": [_node_document(verdict) for verdict in answer.verdicts],
        "update_waits": answer.update_waits,
        "disagree": [verdict.node for verdict in answer.disagreeing],
        "remedies": [
            {"of": remedy.of, "change": remedy.change, "fit": remedy.fit, "nodes": list(remedy.nodes)}
            for remedy in answer.remedies
        ],
        "remarks": [{"field": one.field, "reason": one.reason} for one in answer.remarks],
        "not_judged": list(_not_judged(answer)),
    }


def explanation_lines(answer: Explanation, subject: LivePod | None) -> list[str]:
    """Return the answer for one workload in lines of 80 columns."""
    lines = [*_heading(answer, subject), "", *_table(answer)]
    if details := [*_details(answer)]:
        lines += ["", *details]
    if answer.disagreeing:
        lines += ["", *_disagreement(answer)]
    if answer.remedies:
        lines += ["", style("What would help (each has been tried)", bold=True)]
        for remedy in answer.remedies:
            lines += _remedy(remedy, len(answer.workload.members))
    elif not answer.fits and _could_be_tried(answer):
        lines += ["", "No change that was tried lets it fit."]
    if answer.update_waits:
        lines += wrapped(_UPDATE_WAITS, _WIDTH, "")
    for remark in answer.remarks:
        lines += wrapped(f"{remark.field}: {remark.reason}", _WIDTH, "")
    for unseen in _not_judged(answer):
        lines += wrapped(f"not judged: {unseen}", _WIDTH, "")
    for doubt in dict.fromkeys(doubt for verdict in answer.verdicts for doubt in verdict.doubts):
        names = folded(verdict.node for verdict in answer.verdicts if doubt in verdict.doubts)
        lines += wrapped(f"{names}: {doubt}", _WIDTH, "")
    return lines


def _could_be_tried(answer: Explanation) -> bool:
    """Whether changes could be tried: all pods of a gang are there, and a kubelet is known."""
    has_kubelet = any(verdict.judgement.kubelet for verdict in answer.verdicts)
    return has_kubelet and answer.workload.least <= len(answer.workload.members)


def _heading(answer: Explanation, subject: LivePod | None) -> Iterator[str]:
    workload, pod = answer.workload, answer.about.pod
    many = len(workload.members)
    yield from wrapped(f"{workload.name}  {workload.kind}  {_asked_in_words(pod)}", _WIDTH, "")
    if subject is not None and subject.phase == "Failed":
        reason = f"{subject.reason}: {subject.message}" if subject.message else str(subject.reason)
        yield from wrapped(f"failed on {subject.node or 'no node'}: {reason}", _WIDTH, "")
    elif subject is not None and subject.node:
        yield f"runs on {subject.node}; judged as if it were to be placed again"
    if many == 1:
        nodes = [verdict.node for verdict in answer.verdicts if verdict.judgement.fits]
        reason = f"fits on {len(nodes)} of {counted(len(answer.verdicts), 'node')}"
        yield style(reason, fg="green" if nodes else "red")
        return
    colour = "green" if answer.fits else "red"
    reason = f"{answer.fit} of {many} pods fit{_within(answer)}; {_together(workload)}"
    yield from (style(line, fg=colour) for line in wrapped(reason, _WIDTH, ""))
    if answer.fit < many:
        yield from wrapped(f"the first that does not: {pod.name}; its explanation follows", _WIDTH, "")


def _within(answer: Explanation) -> str:
    """Return which nodes are together, by the label whose value they share."""
    domains = [unit.domain for unit in answer.workload.units if unit.domain]
    if len(domains) > 1:
        return f", in {len(domains)} groups, each within one value of {domains[0]}"
    value = f" ({answer.domain})" if answer.domain else ""
    return f", within one value of {domains[0]}{value}" if domains else ""


def _together(workload: Workload) -> str:
    if workload.is_gang and workload.least > 1:
        return f"{workload.least} have to start together"
    if workload.is_gang:
        return "one is enough to start"
    if workload.kind == "PodGroup":
        return "they start one by one, by the policy of their PodGroup"
    return "they start one by one, and only a PodGroup would hold them together"


def _table(answer: Explanation) -> Iterator[str]:
    """Yield one row per group of nodes with the same answer."""
    many = len(answer.workload.members) > 1
    rows = [("nodes", "scheduler", "kubelet", "pods" if many else "")]
    groups = _groups(answer, by_placed=many)
    for group in groups[:_MOST_GROUPS]:
        judged = group[0].judgement
        placed = str(sum(verdict.placed for verdict in group)) if many else ""
        names = folded(verdict.node for verdict in group)
        rows.append((names, "; ".join(judged.reasons) or _SENDS, _kubelet_in_short(judged), placed))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    nodes, reasons, kubelet, pods = widths
    nodes, kubelet = min(nodes, _MOST_OF_A_COLUMN), min(kubelet, _MOST_OF_A_COLUMN)
    widths = [nodes, min(reasons, max(28, _WIDTH - nodes - kubelet - pods - 6)), kubelet, pods]
    for number, row in enumerate(rows):
        yield from (style(line, dim=True) if not number else line for line in _row(row, widths))
    if len(groups) > _MOST_GROUPS:
        yield f"and {counted(len(groups) - _MOST_GROUPS, 'other kind')}; -o json has all nodes"


def _row(cells: tuple[str, ...], widths: list[int]) -> Iterator[str]:
    parts = [
        textwrap.wrap(
            cell.replace(",", ", ") if " " not in cell else cell, width or 1, break_on_hyphens=False
        )
        or [""]
        for cell, width in zip(cells, widths, strict=True)
    ]
    for line in range(max(map(len, parts))):
        texts = [part[line] if line < len(part) else "" for part in parts]
        yield "  ".join(text.ljust(width) for text, width in zip(texts, widths, strict=True)).rstrip()


def _details(answer: Explanation) -> Iterator[str]:
    """Yield the resource managers' answers for each kind of node that the scheduler may choose."""
    for group in _groups(answer)[:_MOST_GROUPS]:
        judged = group[0].judgement
        if judged.reasons and not judged.requests:
            continue
        yield style(folded(verdict.node for verdict in group), bold=True)
        for line in (*map(_request, judged.requests), *_devices_given(group)):
            yield from wrapped(line, _WIDTH)
        if judged.reasons:
            continue
        if judged.kubelet is None:
            yield from wrapped(f"not known: {judged.unknown}", _WIDTH)
            continue
        for container, opinions in judged.kubelet.opinions.items():
            opinions_text = "; ".join(f"{opinion.resource} {_sets(opinion)}" for opinion in opinions)
            yield from wrapped(f"{container} wants: {opinions_text}", _WIDTH)
        if judged.kubelet.admitted:
            for container, got in grants(judged.kubelet, names_of_devices=False):
                yield from wrapped(f"{container} gets: {got}", _WIDTH)
        else:
            yield from wrapped(str(judged.kubelet.status_message), _WIDTH)
            if judged.kubelet.in_the_way:
                yield from wrapped(f"in the way: {in_the_way(judged.kubelet.in_the_way)}", _WIDTH)


def _request(request: RequestCount) -> str:
    """Return how many devices a request asks for, how many match it, and how many of these are free."""
    count = "all" if request.requested is None else str(request.requested)
    share = " and ".join(f"{format_amount(amount)} {name}" for name, amount in request.capacity)
    line = f"{request.claim}: {request.request} asks for {count} of {request.device_class}"
    line += f" with {share} each; " if share else "; "
    line += f"{request.match} match, {request.free} of them "
    line += "with as much left" if share else "free"
    return f"{line}; {request.unsure} might match" if request.unsure else line


def _devices_given(group: Sequence[OfNode]) -> Iterator[str]:
    """Yield what each claim gets, if it is the same on all nodes of the group."""
    variants = {tuple(_given_on(verdict.judgement)) for verdict in group}
    if len(variants) == 1:
        yield from variants.pop()


def _given_on(judged: SaidOfPod) -> Iterator[str]:
    for claim, devices in judged.devices:
        names = ", ".join(f"{device.driver}/{device.name}{_near(device)}" for device in devices)
        yield f"{claim} gets: {names or 'no devices'}"


def _near(device: ClaimedDevice) -> str:
    return f" (NUMA {format_cpulist(device.numa_nodes)})" if device.numa_nodes else ""


def _disagreement(answer: Explanation) -> Iterator[str]:
    names = [verdict.node for verdict in answer.disagreeing]
    reasons = sorted(
        {str(verdict.judgement.kubelet.reason) for verdict in answer.disagreeing if verdict.judgement.kubelet}
    )
    default = answer.about.placing.by_default
    scheduler, does = (
        ("The scheduler", "the scheduler counts") if default else ("The default filters", "they count")
    )
    text = (
        f"{scheduler} may send it to {folded(names)}, where it fails with {' or '.join(reasons)}: "
        f"{does} a node's resources, and {'sees' if default else 'see'} no NUMA nodes."
    )
    if (
        default
        and answer.likely in names
        and sum(not verdict.judgement.reasons for verdict in answer.verdicts) > 1
    ):
        text += f" It prefers {answer.likely}, the emptiest."
    yield from wrapped(text, _WIDTH, "")


def _remedy(remedy: Remedy, pods: int) -> Iterator[str]:
    where = f"{counted(remedy.fit, 'pod')} on" if pods > 1 else "on"
    if remedy.of == "cluster":
        yield from wrapped(f"{_PLACES[remedy.of]}: {remedy.change}", _WIDTH)
        return
    yield from wrapped(f"{_PLACES[remedy.of]}: {remedy.change}; then {where} {folded(remedy.nodes)}", _WIDTH)


def _groups(answer: Explanation, *, by_placed: bool = False) -> list[list[OfNode]]:
    """Return the nodes grouped by answer, accepting ones first."""

    def answer_key(judged: SaidOfPod) -> tuple[object, ...]:
        kubelet = _kubelet_in_short(judged) if judged.reasons else repr(judged.kubelet)
        return judged.reasons, judged.requests, kubelet, judged.unknown

    groups = grouped(
        ((*answer_key(verdict.judgement), by_placed and verdict.placed), verdict)
        for verdict in answer.verdicts
    ).values()
    return sorted(groups, key=lambda group: (bool(group[0].judgement.reasons), not group[0].judgement.fits))


def _kubelet_in_short(judged: SaidOfPod) -> str:
    if judged.reasons:
        return "-"
    if judged.kubelet is None:
        return "not known"
    if not judged.kubelet.admitted:
        return str(judged.kubelet.reason)
    return "admits" if judged.kubelet.aligned else "admits, not aligned"


def _sets(opinion: Opinion) -> str:
    if opinion.preferred is None:
        return "anywhere"
    if not opinion.preferred:
        if opinion.otherwise is None:
            return "nowhere"
        return f"only over NUMA nodes {format_cpulist(opinion.otherwise)}, not preferred"
    sets = [format_cpulist(cpus) for cpus in opinion.preferred]
    shown = " or ".join(sets[:_MOST_SETS])
    more = f" or {len(sets) - _MOST_SETS} others" if len(sets) > _MOST_SETS else ""
    return f"on NUMA {shown}{more}"


def _not_judged(answer: Explanation) -> Iterator[str]:
    about = answer.about
    if not about.placing.by_default:
        yield f"what {about.placing.scheduler} adds to the default filters"
    yield from about.placing.unseen
    yield from answer.workload.notes
    unseen = grouped((missing, verdict.node) for verdict in answer.verdicts for missing in verdict.not_seen)
    for missing, nodes in unseen.items():
        yield f"{missing}, unknown for {folded(nodes)}"


def _asked_in_words(pod: Pod) -> str:
    amounts = (amount_in_words(name, amount) for name, amount in pod_requests(pod).items())
    return f"{qos_class(pod)}: {', '.join(amounts) or 'nothing'}"


def _asks(pod: Pod) -> dict[str, Any]:
    return {
        "qos": qos_class(pod),
        "requests": {
            resource: int(amount) if amount.denominator == 1 else float(amount)
            for resource, amount in pod_requests(pod).items()
        },
    }


def _node_document(verdict: OfNode) -> dict[str, Any]:
    judged = verdict.judgement
    return {
        "node": verdict.node,
        "fits": judged.fits,
        "placed": verdict.placed,
        "scheduler": {"sends": not judged.reasons, "reasons": list(judged.reasons)},
        "kubelet": _kubelet_document(judged.kubelet) if judged.kubelet else None,
        "claims": [
            {
                "claim": request.claim,
                "request": request.request,
                "class": request.device_class,
                "asked": request.requested,
                "match": request.match,
                "free": request.free,
                "unsure": request.unsure,
                "capacity": {name: format_amount(amount) for name, amount in request.capacity},
            }
            for request in judged.requests
        ],
        "devices": {claim: list(map(str, devices)) for claim, devices in judged.devices},
        "unknown": judged.unknown or None,
        "not_seen": list(verdict.not_seen),
        "doubts": list(verdict.doubts),
    }


def _kubelet_document(admission: Admission) -> dict[str, Any]:
    containers = places_document(admission)
    for name, opinions in admission.opinions.items():
        containers.setdefault(name, {})["wants"] = [_opinion_document(opinion) for opinion in opinions]
    for name, devices in admission.devices.items():
        counts: Mapping[str, int] = {resource: len(ids) for resource, ids in devices.items()}
        containers.setdefault(name, {})["devices"] = dict(counts)
    return {
        "admitted": admission.admitted,
        "aligned": admission.admitted and admission.aligned,
        "qos": admission.qos,
        "reason": admission.reason,
        "message": admission.message,
        "in_the_way": list(admission.in_the_way),
        "containers": containers,
    }


def _opinion_document(opinion: Opinion) -> dict[str, Any]:
    return {
        "resource": opinion.resource,
        "preferred": None
        if opinion.preferred is None
        else [format_cpulist(cpus) for cpus in opinion.preferred],
        "otherwise": None if opinion.otherwise is None else format_cpulist(opinion.otherwise),
    }
