"""One machine: everything that the project's rules find on it, and the facts to compare with its siblings."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from numaforge.findings import Finding
from numaforge.findings.engine import MachineRule, Verdict, check
from numaforge.findings.gpudirect import rules as gpudirect
from numaforge.findings.gpus import rules as gpus
from numaforge.fleet.audit import drift
from numaforge.fleet.audit import host_rules as userland
from numaforge.fleet.audit.facts import facts_of
from numaforge.fleet.audit.makes import Make, make_of
from numaforge.fleet.audit.readings import Values
from numaforge.kubelet.startup.check import kubelet_report
from numaforge.machine.topology.memory_mode import gpu_memory_mode
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.trays import cliques_of

MACHINE_RULES: tuple[MachineRule, ...] = (*gpus.RULES, *gpudirect.RULES, *userland.RULES, *drift.RULES)
"""Every rule about one machine except those of its kubelet."""


@dataclass(frozen=True)
class AuditedMachine:
    """An audited machine: its make, its facts by rule, its findings, and the rules with unknown result.

    `fabrics` are its GPUs' NVLink domains, "<cluster uuid>.<clique id>", `imex` the state of its IMEX
    service.
    """

    hostname: str | None
    make: Make
    facts: Mapping[str, Values]
    findings: tuple[Finding, ...]
    unknown: tuple[str, ...] = ()
    fabrics: tuple[str, ...] = ()
    imex: Mapping[str, str] = field(default_factory=dict)
    gpu_memory: str | None = None


def audited(machine: NodeTopology) -> AuditedMachine:
    """Return what the rules find on a machine, and its facts."""
    judgements = check(MACHINE_RULES, machine)
    report = kubelet_report(machine)
    findings = [finding for judgement in judgements for finding in judgement.findings]
    findings += report.findings if report else ()
    install = machine.nvidia_install
    imex = {
        "service": install.imex_service if install else None,
        "nodes": str(install.imex_nodes) if install and install.imex_nodes is not None else None,
        "list": install.imex_list if install else None,
    }
    mode = gpu_memory_mode(machine)
    return AuditedMachine(
        hostname=machine.hostname,
        make=make_of(machine),
        facts=facts_of(machine, report.effective if report else {}),
        findings=tuple(findings),
        unknown=tuple(judgement.rule.id for judgement in judgements if judgement.verdict is Verdict.UNKNOWN),
        fabrics=cliques_of(machine),
        imex={name: tray for name, tray in imex.items() if tray is not None},
        gpu_memory=mode.mode if mode else None,
    )
