"""Where a pod or a gang would go, and why not elsewhere: as text and JSON."""

import textwrap
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from numaforge.cluster.explain.allocation import RequestCount
from numaforge.cluster.explain.candidates import SaidOfPod
from numaforge.cluster.explain.cluster import LivePod
from numaforge.cluster.explain.explanation import Explanation, OfNode
from numaforge.cluster.explain.remedies import Remedy
from numaforge.cluster.explain.workload import Workload
from numaforge.kubelet.admission.demand import qos_class
from numaforge.kubelet.admission.hints import Opinion
from numaforge.kubelet.admission.node import Admission
from numaforge.kubelet.admission.pod import pod_requests
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import counted, format_amount
from numaforge.report.admit import grants, in_the_way, places_document
from numaforge.report.hostnames import folded
from numaforge.report.terminal import style
from numaforge.report.wording import amount_in_words, styled_lines, wrapped

_WIDTH = 80
_MOST_OF_A_COLUMN = 24
_MOST_SETS = 4
_MOST_GROUPS = 40
_STATUS = ("phase", "node", "reason", "message")
_SENDS = "may send it"
_UPDATE_WAITS = (
    "a rolling update would wait for ever: it adds a pod before it takes one away (maxUnavailable is 0), and "
    "no node has room; write strategy type Recreate, or maxSurge: 0 with maxUnavailable: 1"
)


def explanation_document(answer: Explanation, subject: LivePod | None) -> dict[str, Any]:
    """Return the answer for one workload as JSON data."""
    workload, pod = answer.workload, answer.about.pod
    requests = {
        resource: int(amount) if amount.denominator == 1 else float(amount)
        for resource, amount in pod_requests(pod).items()
    }
    return {
        "kind": workload.kind,
        "name": workload.name,
        "pods": len(workload.members),
        "least": workload.least,
        "gang": workload.is_gang,
        "fit": answer.fit,
        "fits": answer.fits,
        "about": pod.name,
        "asks": {"qos": qos_class(pod), "requests": requests},
        "scheduler": answer.about.placing.scheduler,
        "likely": answer.likely,
        "domain": {"label": workload.domain, "value": answer.domain} if workload.domain else None,
        "status": {name: getattr(subject, name) for name in _STATUS} if subject else None,
        "nodes": [_node_document(verdict) for verdict in answer.verdicts],
        "update_waits": answer.update_waits,
        "disagree": [verdict.node for verdict in answer.disagreeing],
        "remedies": [remedy._asdict() for remedy in answer.remedies],
        "remarks": [{"field": one.field, "reason": one.reason} for one in answer.remarks],
        "not_judged": list(_not_judged(answer)),
    }


def explanation_lines(answer: Explanation, subject: LivePod | None) -> list[str]:
    """Return the answer for one workload in lines of 80 columns."""
    pods = len(answer.workload.members)
    # changes were tried where all pods of a gang are there, and a kubelet is known
    tried = answer.workload.least <= pods and any(one.judgement.kubelet for one in answer.verdicts)
    lines = [*_heading(answer, subject), "", *_table(answer)]
    if details := [*_details(answer)]:
        lines += ["", *details]
    if answer.disagreeing:
        lines += ["", *_disagreement(answer)]
    if answer.remedies:
        lines += ["", style("What would help (each has been tried)", bold=True)]
        lines += [line for remedy in answer.remedies for line in _remedy(remedy, pods)]
    elif not answer.fits and tried:
        lines += ["", "No change that was tried lets it fit."]
    notes = [_UPDATE_WAITS] if answer.update_waits else []
    notes += [f"{remark.field}: {remark.reason}" for remark in answer.remarks]
    notes += [f"not judged: {unseen}" for unseen in _not_judged(answer)]
    doubts = grouped((doubt, verdict.node) for verdict in answer.verdicts for doubt in verdict.doubts)
    notes += [f"{folded(nodes)}: {doubt}" for doubt, nodes in doubts.items()]
    return [*lines, *(line for note in notes for line in wrapped(note, _WIDTH, ""))]


def _heading(answer: Explanation, subject: LivePod | None) -> Iterator[str]:
    workload, pod = answer.workload, answer.about.pod
    many = len(workload.members)
    amounts = ", ".join(amount_in_words(name, amount) for name, amount in pod_requests(pod).items())
    asked = f"{qos_class(pod)}: {amounts or 'nothing'}"
    yield from wrapped(f"{workload.name}  {workload.kind}  {asked}", _WIDTH, "")
    if subject is not None and subject.phase == "Failed":
        reason = f"{subject.reason}: {subject.message}" if subject.message else str(subject.reason)
        yield from wrapped(f"failed on {subject.node or 'no node'}: {reason}", _WIDTH, "")
    elif subject is not None and subject.node:
        yield f"runs on {subject.node}; judged as if it were to be placed again"
    if many == 1:
        fits = sum(verdict.judgement.fits for verdict in answer.verdicts)
        count = f"fits on {fits} of {counted(len(answer.verdicts), 'node')}"
        yield style(count, fg="green" if fits else "red")
        return
    reason = f"{answer.fit} of {many} pods fit{_within(answer)}; {_together(workload)}"
    yield from styled_lines(reason, _WIDTH, fg="green" if answer.fits else "red")
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
    # a list without blanks is broken after its commas
    texts = (cell.replace(",", ", ") if " " not in cell else cell for cell in cells)
    parts = [
        textwrap.wrap(text, width or 1, break_on_hyphens=False)
        for text, width in zip(texts, widths, strict=True)
    ]
    for line in zip_longest(*parts, fillvalue=""):
        yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()


def _details(answer: Explanation) -> Iterator[str]:
    """Yield the resource managers' answers for each kind of node that the scheduler may choose."""
    for group in _groups(answer)[:_MOST_GROUPS]:
        judged = group[0].judgement
        if judged.reasons and not judged.requests:
            continue
        yield style(folded(verdict.node for verdict in group), bold=True)
        lines = [*map(_request, judged.requests)]
        given = {tuple(_given_on(verdict.judgement)) for verdict in group}
        lines += given.pop() if len(given) == 1 else ()
        if not judged.reasons:
            lines += (
                [f"not known: {judged.unknown}"] if judged.kubelet is None else _admission(judged.kubelet)
            )
        for line in lines:
            yield from wrapped(line, _WIDTH)


def _request(request: RequestCount) -> str:
    """Return how many devices a request asks for, how many match it, and how many of these are free."""
    count = "all" if request.requested is None else str(request.requested)
    share = " and ".join(f"{format_amount(amount)} {name}" for name, amount in request.capacity)
    line = f"{request.claim}: {request.request} asks for {count} of {request.device_class}"
    line += f" with {share} each; " if share else "; "
    line += f"{request.match} match, {request.free} of them "
    line += "with as much left" if share else "free"
    return f"{line}; {request.unsure} might match" if request.unsure else line


def _given_on(judged: SaidOfPod) -> Iterator[str]:
    for claim, devices in judged.devices:
        near = [f" (NUMA {format_cpulist(one.numa_nodes)})" if one.numa_nodes else "" for one in devices]
        names = (f"{one.driver}/{one.name}{place}" for one, place in zip(devices, near, strict=True))
        yield f"{claim} gets: {', '.join(names) or 'no devices'}"


def _admission(kubelet: Admission) -> Iterator[str]:
    for container, opinions in kubelet.opinions.items():
        yield f"{container} wants: {'; '.join(f'{one.resource} {_sets(one)}' for one in opinions)}"
    if kubelet.admitted:
        yield from (f"{container} gets: {got}" for container, got in grants(kubelet, names_of_devices=False))
        return
    yield str(kubelet.status_message)
    if kubelet.in_the_way:
        yield f"in the way: {in_the_way(kubelet.in_the_way)}"


def _disagreement(answer: Explanation) -> Iterator[str]:
    names = [verdict.node for verdict in answer.disagreeing]
    kubelets = [verdict.judgement.kubelet for verdict in answer.disagreeing]
    reasons = " or ".join(sorted({str(kubelet.reason) for kubelet in kubelets if kubelet}))
    default = answer.about.placing.by_default
    scheduler = "The scheduler" if default else "The default filters"
    does = ("the scheduler counts", "sees") if default else ("they count", "see")
    text = f"{scheduler} may send it to {folded(names)}, where it fails with {reasons}: "
    text += f"{does[0]} a node's resources, and {does[1]} no NUMA nodes."
    several = sum(not verdict.judgement.reasons for verdict in answer.verdicts) > 1
    if default and several and answer.likely in names:
        text += f" It prefers {answer.likely}, the emptiest."
    yield from wrapped(text, _WIDTH, "")


def _remedy(remedy: Remedy, pods: int) -> list[str]:
    place = f"in the {remedy.of}{'s' if remedy.of == 'node' else ''}: {remedy.change}"
    where = f"{counted(remedy.fit, 'pod')} on" if pods > 1 else "on"
    then = "" if remedy.of == "cluster" else f"; then {where} {folded(remedy.nodes)}"
    return wrapped(f"{place}{then}", _WIDTH)


def _groups(answer: Explanation, *, by_placed: bool = False) -> list[list[OfNode]]:
    """Return the nodes grouped by answer, accepting ones first."""
    groups: dict[object, list[OfNode]] = {}
    for verdict in answer.verdicts:
        judged = verdict.judgement
        kubelet = _kubelet_in_short(judged) if judged.reasons else repr(judged.kubelet)
        key = (judged.reasons, judged.requests, kubelet, judged.unknown, by_placed and verdict.placed)
        groups.setdefault(key, []).append(verdict)
    by_answer = groups.values()
    return sorted(by_answer, key=lambda one: (bool(one[0].judgement.reasons), not one[0].judgement.fits))


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
    preferred, otherwise = opinion.preferred, opinion.otherwise
    return {
        "resource": opinion.resource,
        "preferred": None if preferred is None else [format_cpulist(nodes) for nodes in preferred],
        "otherwise": None if otherwise is None else format_cpulist(otherwise),
    }
