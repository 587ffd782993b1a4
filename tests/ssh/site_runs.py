"""What a run of the whole deploy is given, and what it says."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.ssh.sandbox import Sandbox

PLAN = "/etc/numaforge/plan.json"
PROFILE: dict[str, Any] = {
    "name": "sandbox",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "memory": {"system_reserved": "1Gi"},
    "hugepages": [{"size": "2Mi", "count_per_numa_node": 16}],
    "tuning": {"governor": "performance", "sysctls": {"vm.swappiness": "1"}, "numa_balancing": False},
}


def data(node: Sandbox, profile: object = PROFILE, user: str = "root") -> dict[str, object]:
    return {**node.data(user), "numaforge_profile": profile}


def text(node: Sandbox, path: str) -> str:
    return node.path(path).read_text().strip()


def plain(output: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", output)


def inventory(folder: Path, hosts: Mapping[str, Mapping[str, object]]) -> Path:
    file = folder / "inventory.py"
    file.write_text(f"nodes = {[(name, dict(data)) for name, data in hosts.items()]!r}\n")
    return file
