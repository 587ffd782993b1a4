"""Write what `numaforge check` says into docs/check.md: `python docs/check_examples.py`."""

from __future__ import annotations

import re
from pathlib import Path

from numaforge.kubelet.findings import RULES
from numaforge.kubelet.startup import check
from numaforge.report.check import as_text
from numaforge.topology.model import Core, NodeTopology, NumaNode, Package

PAGE = Path(__file__).with_name("check.md")
HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
_EXAMPLE = re.compile(r"```yaml (?P<version>[\d.]+)\n(?P<body>.*?)```\n\n```text\n.*?```\n", re.DOTALL)
_RULES = re.compile(r"<!-- begin rules -->\n.*?<!-- end rules -->", re.DOTALL)
_ESCAPES = re.compile("\x1b\\[[0-9;]*m")


def machine() -> NodeTopology:
    """Return the page's machine: cores of neighbouring threads, two packages, four NUMA nodes of 2 GiB."""
    cores = tuple(Core(first // 8, first // 4, frozenset({first, first + 1})) for first in range(0, 16, 2))
    nodes = [frozenset(range(4 * node, 4 * node + 4)) for node in range(4)]
    return NodeTopology(
        hostname="node",
        architecture="x86_64",
        kernel=None,
        kernel_cmdline=None,
        memory_bytes=8 * 2**30,
        swap_bytes=0,
        cgroup_version=2,
        online=frozenset(range(16)),
        offline=frozenset(),
        isolated=frozenset(),
        packages=(Package(0, nodes[0] | nodes[1]), Package(1, nodes[2] | nodes[3])),
        numa_nodes=tuple(
            NumaNode(node, cpus, 2**31, dict.fromkeys(range(4), 10), {}) for node, cpus in enumerate(nodes)
        ),
        cores=cores,
        l3_caches=(),
    )


def page(text: str) -> str:
    """Return the page with every answer and the table of findings renewed."""
    return _RULES.sub(lambda _: _rules(), _EXAMPLE.sub(_answered, text))


def _answered(match: re.Match[str]) -> str:
    report = check(
        HEADER + match["body"], topology=machine(), version=match["version"], config_path="kubelet.yaml"
    )
    answer = _ESCAPES.sub("", as_text(report))
    return f"```yaml {match['version']}\n{match['body']}```\n\n```text\n{answer}\n```\n"


def _rules() -> str:
    rows = [f"| `{rule.id}` | {rule.severity} | {rule.title} |" for rule in RULES.values()]
    table = "\n".join(["| id | severity | what it says |", "|---|---|---|", *rows])
    return f"<!-- begin rules -->\n{table}\n<!-- end rules -->"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
