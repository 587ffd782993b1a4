"""A kubelet's file with everything corrected that has exactly one right value.

These are the shares of reservedMemory, words in another case, values without their quotes, feature gates that
this kubelet does not know any more or has locked, and top-level keys that are written twice.
"""

import re
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial

from numaforge.kubelet.admission.machine import MachineInfo
from numaforge.kubelet.config.gates import gate, known_minors_of
from numaforge.kubelet.findings import Report
from numaforge.kubelet.startup.managers import shares_of
from numaforge.kubelet_minors.options import TOPOLOGY_MANAGER_POLICIES, TOPOLOGY_MANAGER_SCOPES
from numaforge.kubelet_minors.tables import GATES
from numaforge.kubelet_minors.versions import KubeletVersion
from numaforge.lib.quantity import Quantity
from numaforge.machine.topology.model import NodeTopology

_OF_SHARES = frozenset({"NF214", "NF215", "NF216", "NF217"})
"""The rules about reservedMemory that the right shares satisfy."""
_WANTS_TEXT = "the kubelet wants text"

_BLOCK = re.compile(
    r"^(?P<indent> *)reservedMemory:.*\n(?:(?P=indent)[ -].*\n|[ \t]*\n(?=(?P=indent)[ -]))*", re.M
)
_POLICY = re.compile(r"^(?P<indent> *)memoryManagerPolicy:.*\n", re.M)


_POLICIES = {
    "cpuManagerPolicy": ("none", "static"),
    "memoryManagerPolicy": ("None", "Static"),
    "topologyManagerPolicy": TOPOLOGY_MANAGER_POLICIES,
    "topologyManagerScope": TOPOLOGY_MANAGER_SCOPES,
    "cgroupDriver": ("cgroupfs", "systemd"),
}
_TRUTHS = {"yes": "true", "on": "true", "no": "false", "off": "false"}  # YAML 1.1's


def fixed(text: str, report: Report, topology: NodeTopology, file: str) -> str:
    """Return the text of a file, corrected by the findings in it; all other lines as they are.

    What has several right values, or lies on a line that is not read here, stays.
    """
    lines = (text if text.endswith("\n") else f"{text}\n").splitlines(keepends=True)
    minor = KubeletVersion.parse(report.version)
    for finding in report.findings:
        if finding.file != file or finding.line is None or finding.where is None:
            continue
        key, index = _last_key(finding.where), finding.line - 1
        if finding.id == "NF004" and _WANTS_TEXT in finding.evidence:
            lines[index] = _with_value(lines[index], key, _quoted)
        elif finding.id in ("NF111", "NF205") and key in _POLICIES:
            lines[index] = _with_value(lines[index], key, partial(_in_its_case, key))
        elif finding.id == "NF101" and (known_minors_of(key) or not get_close_matches(key, GATES, 1, 0.8)):
            lines[index] = _without(lines[index], key)
        elif finding.id == "NF102" and (state := gate(minor, key)):
            lines[index] = _with_value(lines[index], key, lambda _: str(state.default).lower())
        elif finding.id == "NF502" and finding.where == key:
            _drop_earlier(lines, key, index)
    return _with_shares("".join(lines), report, topology)


def _last_key(path: str) -> str:
    """Return the last key of a path such as `evictionHard["memory.available"]`."""
    return path.rpartition('["')[2].removesuffix('"]') if path.endswith('"]') else path.rpartition(".")[2]


def _with_value(line: str, key: str, change: Callable[[str], str]) -> str:
    """Return a line with another value of a key, which stands in a block or in braces."""
    at = re.compile(
        rf"""(?P<head>(?:^|[\s{{,])["']?{re.escape(key)}["']?\s*:\s+)(?P<value>"[^"]*"|'[^']*'|[^\s,}}#]+)"""
    )
    return at.sub(lambda match: f"{match['head']}{change(match['value'])}", line, count=1)


def _without(line: str, key: str) -> str:
    """Return a line without a key: nothing of its own line, the others in braces."""
    entry = rf"""["']?{re.escape(key)}["']?\s*:"""
    if re.fullmatch(rf"\s*{entry}[^{{]*\n", line):
        return ""
    return re.sub(rf"{entry}[^,}}]*,\s*|(,\s*)?{entry}[^,}}]*(?=}})", "", line, count=1)


def _quoted(value: str) -> str:
    return f'"{_TRUTHS.get(value.lower(), value)}"'


def _in_its_case(key: str, value: str) -> str:
    """Return the word that differs from a value in its case alone; else the value."""
    bare = value.strip("\"'")
    return next((word for word in _POLICIES[key] if word.lower() == bare.lower()), value)


def _drop_earlier(lines: list[str], key: str, last: int) -> None:
    """Empty the lines of a top-level key before its last place."""
    start = re.compile(rf"""["']?{re.escape(key)}["']?\s*:""")
    for index in range(last):
        if start.match(lines[index]):
            lines[index] = ""
            for below in range(index + 1, last):
                if not re.match(r"[ -]", lines[below]):
                    break
                lines[below] = ""


def _with_shares(text: str, report: Report, topology: NodeTopology) -> str:
    """Return the text with the right shares of reservedMemory, where the reservation is known."""
    total = report.reservation.get("memory")
    if total is None or not any(finding.id in _OF_SHARES for finding in report.findings):
        return text
    shares = shares_of(Quantity.parse(total), MachineInfo.from_topology(topology))

    def block(match: re.Match[str]) -> str:
        indent = match["indent"]
        entries = (f"{indent}- {{numaNode: {node}, limits: {{memory: {share}}}}}\n" for node, share in shares)
        before = match[0] if match.re is _POLICY else ""
        return f"{before}{indent}reservedMemory:\n{''.join(entries)}"

    changed, count = _BLOCK.subn(block, text, count=1)
    return changed if count else _POLICY.sub(block, text, count=1)
