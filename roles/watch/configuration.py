"""The configuration of the node's watch: /etc/numaforge/watch.conf, lines of tab-separated fields.

    node NAME, folder PATH, kubeconfig PATH        where it reports
    owner WHAT LABEL PROCESS                       another tool's, by the Node's label and a pod's process
    text LINE                                      a line of the metrics, verbatim
    measured WHAT SERIES PATH                      a sample whose value is the file's first line
    counted WHAT METRIC CPUS PATH                  a sample for each text in the CPUs' files
    stalled WHAT METRIC PATH                       the two samples of a pressure file
    file WHAT CHECKSUM PATH                        a file that we have written
    link WHAT PATH                                 the link that starts a unit at boot
    COMPARISON WHAT VALUE NEED CPUS PATH           a kernel file (roles/expectation.py)

WHAT and labels are escaped as in Prometheus, METRIC is a name with its first labels and an open brace, CPUS a
cpulist whose CPUs replace "{}" in PATH, or "-".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import PlanError
from numaforge.lib.file_content import boot_link, boot_units
from numaforge.roles.device_owners import OWNERS
from numaforge.roles.expectation import Expected
from numaforge.roles.expected import all_expected
from numaforge.roles.watch.metrics import Family, families, stated

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


def configuration(plan: NodePlan, fingerprint: str, sums: Mapping[str, str]) -> str:
    """Return the configuration for a plan with a watch, without its header.

    `fingerprint` identifies the plan, `sums` are the checksums of the written files, by path. Raises
    PlanError for a value that does not fit into a field.
    """
    return "".join(f"{_line(row)}\n" for row in _rows(plan, fingerprint, sums))


def _rows(plan: NodePlan, fingerprint: str, sums: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    watch = plan.watch
    if watch is None:
        return
    node = watch.node or plan.hostname.lower()
    yield ("node", node)
    yield ("folder", watch.directory)
    if watch.kubeconfig:
        yield ("kubeconfig", watch.kubeconfig)
        for owner in OWNERS:
            if owner.label and owner.sets(plan):
                yield ("owner", f"owner:{owner.devices}", owner.label, owner.process)
    for family in _families(plan, fingerprint):
        yield from _family(family, node)
    yield from map(_comparison, all_expected(plan))
    for path, checksum in sums.items():
        yield ("file", _escaped(f"file:{path}"), checksum, path)
    for unit in boot_units(plan.files):
        yield ("link", _escaped(f"unit:{unit.name}"), boot_link(str(unit)))


def _families(plan: NodePlan, fingerprint: str) -> Iterable[Family]:
    policy = plan.kubelet.settings.get("cpuManagerPolicy", "") if plan.kubelet else ""
    labels = {"plan": fingerprint, "cpu_manager_policy": str(policy)}
    yield Family(
        "numaforge_plan_info",
        "gauge",
        "The plan of this node, by the checksum of its document.",
        (stated(labels),),
    )
    yield from families(plan)


def _family(family: Family, node: str) -> Iterator[tuple[str, ...]]:
    if not family.samples:
        return
    yield ("text", f"# HELP {family.name} {family.help}")
    yield ("text", f"# TYPE {family.name} {family.kind}")
    subject = family.name.removeprefix("numaforge_").removesuffix("_seconds_total")
    for sample in family.samples:
        series = _series(family.name, node, sample.labels)
        match sample.origin:
            case "stated":
                yield ("text", f"{series}}} {sample.source}")
            case "measured":
                yield ("measured", subject, f"{series}}}", sample.source)
            case "stalled":
                yield ("stalled", subject, f"{series},kind=", sample.source)
            case "counted":
                yield (
                    "counted",
                    subject,
                    f"{series},{sample.by}=",
                    format_cpulist(sample.cpus),
                    sample.source,
                )


def _comparison(row: Expected) -> tuple[str, ...]:
    cpus = "-" if row.cpus is None else format_cpulist(row.cpus)
    need = "optional" if row.optional else "needed"
    return (row.comparison, _escaped(row.what), row.text, need, cpus, row.path)


def _series(name: str, node: str, labels: Mapping[str, str]) -> str:
    """Return a metric with its labels, without the closing brace."""
    return f"{name}{{" + ",".join(
        f'{key}="{_escaped(text)}"' for key, text in {"node": node, **labels}.items()
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _line(row: tuple[str, ...]) -> str:
    for field in row:
        if re.search(r"[\t\n\r\0]", field):
            raise PlanError(f"{field!r} is more than a line", where="watch")
    return "\t".join(row)
