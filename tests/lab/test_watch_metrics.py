"""The metrics of a node's watch, as Prometheus' own program reads them."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab import gobuild
from numaforge.machine.topology.saved import ready_machine
from tests.fixtures.tables import cases
from tests.fixtures.watched_folder import WatchedFolder

pytestmark = [pytest.mark.lab, pytest.mark.long]
PROFILE: dict[str, Any] = {
    "name": 'a "watched" one',
    "tuning": {"governor": "performance", "sysctls": {"vm.swappiness": "1"}},
    "hugepages": [{"size": "1Gi", "count_per_numa_node": 8}],
    "watch": {"enabled": True},
}
POOL = "/sys/devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages"


@cases(
    "pages, line",
    {
        "as planned": ("8", 'what="hugepages:1Gi on NUMA node 0"} 0'),
        "drifted": ("7", 'what="hugepages:1Gi on NUMA node 0"} 1'),
        "unknown": ("", 'what="hugepages:1Gi on NUMA node 0"} NaN'),
    },
)
def test_promtool_accepts_the_metrics(pages: str, line: str, tmp_path: Path) -> None:
    node = WatchedFolder(tmp_path)
    node.install(ready_machine("dgx-h100"), PROFILE)
    node.write(POOL, pages)
    node.run()
    assert line in node.metrics
    program = gobuild.build(gobuild.PROMTOOL) / "promtool"
    done = subprocess.run(
        [program, "check", "metrics"], input=node.metrics, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
