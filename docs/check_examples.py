"""Write the answers of `kubelet check` and of kubelets into docs/check.md: `python -m docs.check_examples`.

Those of the kubelets come from the record of `make test-kubelets`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from docs.generated import renewed
from lab.kubelets import MINORS
from numaforge.kubelet.findings import RULES
from numaforge.kubelet.startup.check import check
from numaforge.kubelet_minors.versions import KNOWN_MINORS
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.saved import ready_machine
from numaforge.report.check import report_lines

PAGE = Path(__file__).with_name("check.md")
RECORD = Path(__file__).with_name("kubelets.json")
HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
_EXAMPLE = re.compile(
    r"^### (?P<heading>[^\n]+)\n(?P<prose>(?:(?!^##).)*?)"
    rf"```yaml (?P<version>[\d.]+)\n(?:{re.escape(HEADER)})?(?P<body>.*?)```\n(?P<answers>.*?)(?=^##|\Z)",
    re.DOTALL | re.MULTILINE,
)
_PATH_OF_RECORD = "/var/lib/judge/kubelet.yaml"
_ESCAPES = re.compile("\x1b\\[[0-9;]*m")


def machine() -> NodeTopology:
    """Return the page's machine: cores of neighbouring threads, two packages, four NUMA nodes of 2 GiB."""
    return ready_machine("small-vm")


def page(text: str) -> str:
    """Return the page with every answer, the table of kubelets and the table of findings renewed."""
    record = json.loads(RECORD.read_text())
    answered = _EXAMPLE.sub(lambda match: _answered(match, record), text)
    return renewed(renewed(answered, "kubelets", _kubelets(record)), "rules", _rules())


def examples(text: str) -> dict[str, tuple[str, str]]:
    """Return the configurations that the page shows: by heading, the kubelet's minor and the lines."""
    return {match["heading"]: (match["version"], match["body"]) for match in _EXAMPLE.finditer(text)}


def _answered(match: re.Match[str], record: dict[str, Any]) -> str:
    report = check(
        HEADER + match["body"], topology=machine(), version=match["version"], config_path="kubelet.yaml"
    )
    answer = _ESCAPES.sub("", "\n".join(report_lines(report)))
    return (
        f"### {match['heading']}\n{match['prose']}```yaml {match['version']}\n"
        f"{HEADER}{match['body']}```\n\n"
        f"```text\n{answer}\n```\n\n{_said(match['heading'], match['version'], record)}\n"
    )


def _said(heading: str, minor: str, record: dict[str, Any]) -> str:
    """Return what the real kubelet said when it was started with the example."""
    outcomes = record["outcomes"][f"on the page: {heading}"]
    (outcome,) = (outcome for outcome, minors in outcomes.items() if minor in minors)
    release = record["releases"][minor]
    if outcome == "starts":
        return f"Kubelet {release} starts with it.\n"
    words = outcome.replace(_PATH_OF_RECORD, "kubelet.yaml")
    return f"Kubelet {release}, started with it:\n\n```text\n{words}\n```\n"


def _kubelets(record: dict[str, Any]) -> str:
    rows = ["| kubelet | configurations tried | it starts | it refuses |", "|---|---|---|---|"]
    for minor in (f"1.{number}" for number in KNOWN_MINORS):
        release = record["releases"].get(minor)
        if release is None:
            how = (
                "none yet: compared with its own code"
                if minor in MINORS
                else "none: its rules were read in its sources"
            )
            rows.append(f"| {minor} | {how} | | |")
            continue
        ended = [
            outcome
            for outcomes in record["outcomes"].values()
            for outcome, minors in outcomes.items()
            if minor in minors
        ]
        starts = ended.count("starts")
        rows.append(f"| {release} | {len(ended)} | {starts} | {len(ended) - starts} |")
    return "\n".join(rows)


def _rules() -> str:
    rows = [f"| `{rule.id}` | {rule.severity} | {rule.title} |" for rule in RULES.values()]
    return "\n".join(["| id | severity | what it says |", "|---|---|---|", *rows])


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
