"""The files of `templates/monitoring` for Prometheus, Grafana and GPU exporters, with filled `@runbooks@`."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from textwrap import indent

from numaforge.findings.gpus import xids
from numaforge.lib.resources import template_dir

RULES = "rules.yaml"
PROMETHEUS_RULE = "prometheusrule.yaml"
COUNTERS = "nvidia/counters.csv"
RUNBOOKS = "alerts.md"  # the default page with the remedy for each alert
_WORD = re.compile(r"@[a-z-]+@")
_OBJECT = """\
# The rules of rules.yaml for the Prometheus operator: kubectl apply -f prometheusrule.yaml
# Its Prometheus takes objects with the labels of its ruleSelector: add them here.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: numaforge
  labels: {app.kubernetes.io/name: numaforge}
spec:
"""


def monitoring_files(runbooks: str = RUNBOOKS) -> dict[str, str]:
    """Return the text of each file by its path; each alert links to its section of the page `runbooks`."""
    folder = template_dir() / "monitoring"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    texts = {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files}
    words = {
        "@runbooks@": runbooks,
        "@xids-fatal@": _either(xids.FATAL),
        "@xids-application@": f"{xids.NONE_YET}|{_either([*xids.APPLICATION, *xids.IGNORED])}",
        "@counters@": indent(texts[COUNTERS].rstrip("\n"), "  "),
    }
    written = {name: _WORD.sub(lambda found: words[found[0]], text) for name, text in texts.items()}
    written[PROMETHEUS_RULE] = _OBJECT + indent(written[RULES], "  ")
    return dict(sorted(written.items(), key=lambda item: PurePosixPath(item[0]).parts))


def _either(codes: Iterable[int]) -> str:
    return "|".join(map(str, codes))
