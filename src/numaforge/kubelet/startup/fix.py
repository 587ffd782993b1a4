"""A kubelet's file with reservedMemory as its reservation and its machine need it."""

from __future__ import annotations

import re

from numaforge.kubelet.admission.machine import MachineInfo
from numaforge.kubelet.findings import Report
from numaforge.kubelet.startup.managers import shares_of
from numaforge.lib.quantity import Quantity
from numaforge.machine.topology.model import NodeTopology

FIXED = frozenset({"NF214", "NF215", "NF216", "NF217"})
"""The rules about reservedMemory that the right shares satisfy."""

_BLOCK = re.compile(
    r"^(?P<indent> *)reservedMemory:.*\n(?:(?P=indent)[ -].*\n|[ \t]*\n(?=(?P=indent)[ -]))*", re.M
)
_POLICY = re.compile(r"^(?P<indent> *)memoryManagerPolicy:.*\n", re.M)


def fixed(text: str, report: Report, topology: NodeTopology) -> str | None:
    """Return the file's text with the right reservedMemory, all other lines as they are.

    None where nothing of it is wrong, the reservation is not known, or the file has it on a line of JSON.
    """
    total = report.reservation.get("memory")
    if total is None or not any(finding.id in FIXED for finding in report.findings):
        return None
    shares = shares_of(Quantity.parse(total), MachineInfo.from_topology(topology))

    def block(match: re.Match[str]) -> str:
        indent = match["indent"]
        entries = (f"{indent}- {{numaNode: {node}, limits: {{memory: {share}}}}}\n" for node, share in shares)
        before = match[0] if match.re is _POLICY else ""
        return f"{before}{indent}reservedMemory:\n{''.join(entries)}"

    lines = text if text.endswith("\n") else f"{text}\n"
    changed, count = _BLOCK.subn(block, lines, count=1)
    if not count:
        changed, count = _POLICY.subn(block, lines, count=1)
    return changed if count else None
