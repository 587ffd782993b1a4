"""Whether the kubelet still has the planned version and settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from numaforge.findings.drift import Concern, DriftRule
from numaforge.findings.engine import Seen
from numaforge.findings.finding import Severity
from numaforge.kubelet.config.comparison import differences
from numaforge.kubelet.startup.check import kubelet_report
from numaforge.kubelet_minors.versions import KubeletVersion
from numaforge.machine.topology.model import NodeTopology

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


def _settings(machine: NodeTopology, plan: NodePlan) -> Iterator[Seen]:
    report = kubelet_report(machine)
    if report is None or not report.effective:
        yield Seen(unknown="the running kubelet's configuration is unknown")
        return
    for name, value in (plan.kubelet.settings if plan.kubelet else {}).items():
        for difference in differences(name, value, report.effective.get(name)):
            yield Seen(difference, name)


def _version(machine: NodeTopology, plan: NodePlan) -> Iterator[Seen]:
    planned, running = plan.kubelet, machine.kubelet.version if machine.kubelet else None
    if running is None:
        yield Seen(unknown="the kubelet's version is not known")
    elif planned and KubeletVersion.parse(running).minor != KubeletVersion.parse(planned.version).minor:
        yield Seen(f"{running}, planned for {planned.version}", "kubelet")


_CONCERN = Concern(
    "with a plan of numaforge's for its kubelet",
    lambda plan: plan.kubelet is not None,
    "its plan leaves the kubelet alone",
)
DRIFT = (
    DriftRule("NP108", Severity.ERROR, "the kubelet's settings are not as planned", _settings, _CONCERN),
    DriftRule(
        "NP109",
        Severity.WARNING,
        "the plan is for another minor of the kubelet",
        _version,
        _CONCERN,
        remedy="`numaforge apply` plans for the kubelet that is there",
    ),
)
