"""Hosts whose RDMA settings a run makes."""

from typing import Any

BARE: dict[str, Any] = {
    "name": "sandbox",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "memory": {"system_reserved": "1Gi"},
}
