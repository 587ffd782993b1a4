"""Write the dashboard for Grafana: `python -m docs.dashboard`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lab.paths import REPOSITORY

DASHBOARD = REPOSITORY / "templates" / "monitoring" / "dashboard.json"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT = 24, 8
_NODE = 'node=~"$node"'
"""What stands for @ in the queries."""


@dataclass(frozen=True)
class Panel:
    """A panel: its title, the queries with the legend of each, and how their values read."""

    title: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    kind: str = "timeseries"
    why: str = ""
    at_most: float | None = None


_GPU = "{{node}} {{UUID}} {{GPU_I_ID}}"
_JOB = "{{owner_kind}} {{namespace}}/{{owner_name}}"
_JOBS = 'by (namespace, owner_kind, owner_name) (numaforge:job_gpu_busy:avg15m{namespace=~"$namespace"})'
ROWS: dict[str, tuple[Panel, ...]] = {
    "The plan": (
        Panel("Nodes by plan", [("numaforge_plan_info{@}", "")], kind="table"),
        Panel(
            "What is not as planned",
            [("max by (node, what) (numaforge_plan_drift{@}) == 1", "")],
            kind="table",
        ),
        Panel(
            "Since the last look of the watch",
            [("time() - max by (node) (numaforge_watch_last_run_timestamp_seconds{@})", "{{node}}")],
            "s",
            "stat",
        ),
        Panel(
            "Allocatable, off the plan",
            [("numaforge:allocatable_drift:abs{@} > 0", "{{node}} {{resource}}")],
            why="Of memory the kubelet takes away what it finds: less than one percent is no drift.",
        ),
        Panel(
            "Huge pages by NUMA node: there and planned",
            [
                (
                    "max by (node, numa, size) (numaforge_hugepages_actual{@})",
                    "{{node}} {{numa}} {{size}}",
                ),
                (
                    "max by (node, numa, size) (numaforge_plan_hugepages{@})",
                    "{{node}} {{numa}} {{size}} planned",
                ),
            ],
        ),
        Panel(
            "Reserved CPUs busy",
            [("numaforge:reserved_cpu_busy:ratio{@}", "{{node}}")],
            "percentunit",
            at_most=1,
        ),
    ),
    "NUMA nodes and pinned pods": (
        Panel(
            "GPUs allocated by NUMA node",
            [("numaforge:numa_gpus_allocated:ratio{@}", "{{node}} NUMA node {{numa}}")],
            "percentunit",
            at_most=1,
        ),
        Panel(
            "GPUs of pods",
            [
                (
                    (
                        'max by (node, UUID, namespace, pod) (DCGM_FI_DEV_GPU_TEMP{@, pod!=""} * 0 + 1)'
                        " * on (node, UUID) group_left (numa) max by (node, UUID, numa) (numaforge_plan_gpu)"
                    ),
                    "",
                )
            ],
            kind="table",
        ),
        Panel(
            "Exclusive CPUs by NUMA node",
            [
                (
                    (
                        "max by (instance, numa_node) (kubelet_cpu_manager_allocation_per_numa)"
                        " * on (instance) group_left (node) max by (instance, node) (kubelet_node_name{@})"
                    ),
                    "{{node}} NUMA node {{numa_node}}",
                )
            ],
            why="The kubelet keeps the last value when the last exclusive CPU of a NUMA node is freed.",
        ),
        Panel(
            "Pods refused and containers not pinned, in 15 minutes",
            [
                (
                    "max by (node) (increase(kubelet_topology_manager_admission_errors_total{@}[15m]))",
                    "{{node}} TopologyAffinityError",
                ),
                (
                    "max by (node, reason) (increase(kubelet_admission_rejections_total{@}[15m]))",
                    "{{node}} {{reason}}",
                ),
                (
                    "max by (node) (increase(kubelet_cpu_manager_pinning_errors_total{@}[15m]))",
                    "{{node}} CPUs",
                ),
                (
                    "max by (node) (increase(kubelet_memory_manager_pinning_errors_total{@}[15m]))",
                    "{{node}} memory",
                ),
            ],
        ),
        Panel(
            "Daemons that wait for CPUs",
            [
                (
                    (
                        "max by (node, cgroup)"
                        ' (rate(numaforge_reserved_cpu_pressure_seconds_total{kind="some", @}[5m]))'
                    ),
                    "{{node}} {{cgroup}}",
                ),
                (
                    (
                        "max by (node, id)"
                        ' (rate(container_pressure_cpu_waiting_seconds_total{id=~"/system.slice.*", @}[5m]))'
                    ),
                    "{{node}} {{id}}",
                ),
            ],
            "percentunit",
        ),
    ),
    "GPUs": (
        Panel("Busy", [("numaforge:gpu_busy:ratio{@}", _GPU)], "percentunit", at_most=1),
        Panel("Tensor cores", [("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{@}", _GPU)], "percentunit", at_most=1),
        Panel(
            "Multiprocessors and memory",
            [
                ("DCGM_FI_PROF_SM_ACTIVE{@}", f"SM {_GPU}"),
                ("DCGM_FI_PROF_DRAM_ACTIVE{@}", f"memory {_GPU}"),
            ],
            "percentunit",
            at_most=1,
        ),
        Panel(
            "Memory in use",
            [
                (
                    "DCGM_FI_DEV_FB_USED{@} / (DCGM_FI_DEV_FB_USED{@} + DCGM_FI_DEV_FB_FREE{@})",
                    _GPU,
                ),
                ("amd_gpu_used_vram{@} / amd_gpu_total_vram{@}", _GPU),
            ],
            "percentunit",
            at_most=1,
        ),
        Panel(
            "Temperature",
            [
                ("max by (node, UUID) (DCGM_FI_DEV_GPU_TEMP{@})", "{{node}} {{UUID}}"),
                ("max by (node, UUID) (amd_gpu_junction_temperature{@})", "{{node}} {{UUID}}"),
            ],
            "celsius",
        ),
        Panel(
            "Power",
            [
                ("max by (node, UUID) (DCGM_FI_DEV_POWER_USAGE{@})", "{{node}} {{UUID}}"),
                ("max by (node, UUID) (amd_gpu_power_usage{@})", "{{node}} {{UUID}}"),
            ],
            "watt",
        ),
    ),
    "Jobs": (
        Panel(
            "Least busy GPU of each job",
            [
                (
                    f"min {_JOBS}",
                    _JOB,
                )
            ],
            "percentunit",
            at_most=1,
        ),
        Panel(
            "Between the busiest and the least busy GPU of a job",
            [(f"max {_JOBS} - min {_JOBS}", _JOB)],
            "percentunit",
            at_most=1,
        ),
    ),
    "PCIe and NVLink": (
        Panel(
            "PCIe by NUMA node",
            [
                (
                    (
                        "sum by (node, numa) (max by (node, UUID)"
                        " (DCGM_FI_PROF_PCIE_RX_BYTES{@} + DCGM_FI_PROF_PCIE_TX_BYTES{@})"
                        " * on (node, UUID) group_left (numa) max by (node, UUID, numa) (numaforge_plan_gpu))"
                    ),
                    "{{node}} NUMA node {{numa}}",
                )
            ],
            "Bps",
        ),
        Panel(
            "NVLink",
            [
                (
                    (
                        "max by (node, UUID)"
                        " (DCGM_FI_PROF_NVLINK_RX_BYTES{@} + DCGM_FI_PROF_NVLINK_TX_BYTES{@})"
                    ),
                    "{{node}} {{UUID}}",
                )
            ],
            "Bps",
        ),
        Panel(
            "PCIe lanes that are missing",
            [
                (
                    (
                        "max by (node, UUID) (DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH{@} -"
                        " DCGM_FI_DEV_PCIE_LINK_WIDTH{@}) > 0"
                    ),
                    "{{node}} {{UUID}}",
                )
            ],
        ),
        Panel(
            "PCIe generation: now, and the greatest",
            [
                ("max by (node, UUID) (DCGM_FI_DEV_PCIE_LINK_GEN{@})", "{{node}} {{UUID}}"),
                (
                    "max by (node, UUID) (DCGM_FI_DEV_PCIE_MAX_LINK_GEN{@})",
                    "{{node}} {{UUID}} greatest",
                ),
            ],
            why="A link of a GPU without work goes down to a lower generation.",
        ),
    ),
    "What is broken": (
        Panel(
            "Xid",
            [
                (
                    "max by (node, UUID, xid) (DCGM_EXP_XID_ERRORS_COUNT{@}) > 0",
                    "{{node}} {{UUID}} Xid {{xid}}",
                )
            ],
        ),
        Panel(
            "Slowed down: share of the time",
            [
                (
                    "max by (node, UUID) (rate(DCGM_FI_DEV_THERMAL_VIOLATION{@}[5m])) / 1e9",
                    "heat {{node}} {{UUID}}",
                ),
                (
                    "max by (node, UUID) (rate(DCGM_FI_DEV_POWER_VIOLATION{@}[5m])) / 1e9",
                    "power limit {{node}} {{UUID}}",
                ),
            ],
            "percentunit",
            why="The power limit is normal at full load.",
        ),
        Panel(
            "Errors of links and memory, in an hour",
            [
                (
                    "max by (node, UUID) (increase(DCGM_FI_DEV_PCIE_REPLAY_COUNTER{@}[1h])) > 0",
                    "PCIe {{UUID}}",
                ),
                (
                    "max by (node, UUID) (increase(DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL{@}[1h])) > 0",
                    "NVLink {{UUID}}",
                ),
                (
                    "max by (node, UUID) (increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{@}[1h])) > 0",
                    "memory {{UUID}}",
                ),
                (
                    "max by (node, UUID) (increase(amd_gpu_ecc_uncorrect_total{@}[1h])) > 0",
                    "memory {{UUID}}",
                ),
            ],
        ),
        Panel(
            "GPUs to reset or return",
            [
                (
                    (
                        "max by (node, UUID) (DCGM_FI_DEV_ROW_REMAP_PENDING{@} == 1"
                        " or DCGM_FI_DEV_ROW_REMAP_FAILURE{@} == 1"
                        " or DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION{@} > 0)"
                    ),
                    "",
                )
            ],
            kind="table",
        ),
    ),
}


def document() -> dict[str, Any]:
    """Return the dashboard as Grafana's JSON, schema version 39 (Grafana 11)."""
    return {
        "uid": "numaforge-nodes",
        "title": "GPU nodes: planned, pinned, busy",
        "tags": ["numaforge"],
        "editable": True,
        "graphTooltip": 1,
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
                _variable("node", "label_values(numaforge_plan_info, node)"),
                _variable("namespace", "label_values(numaforge:job_gpu_busy:avg15m, namespace)"),
            ]
        },
        "panels": list(_panels()),
    }


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "label": name,
        "datasource": _SOURCE,
        "query": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for title, panels in ROWS.items():
        number += 1
        place = {"x": 0, "y": top, "w": _WIDTH, "h": 1}
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "gridPos": place,
            "collapsed": False,
            "panels": [],
        }
        width = _WIDTH // 3 if len(panels) % 3 == 0 else _WIDTH // 2
        left, top = 0, top + 1
        for panel in panels:
            if left + width > _WIDTH:
                left, top = 0, top + _HEIGHT
            number += 1
            yield _panel(number, panel, {"x": left, "y": top, "w": width, "h": _HEIGHT})
            left += width
        top += _HEIGHT


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    table = panel.kind == "table"
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.at_most is not None:
        defaults |= {"min": 0, "max": panel.at_most}
    made: dict[str, Any] = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "gridPos": place,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": query.replace("@", _NODE),
                "legendFormat": legend,
                **({"format": "table", "instant": True} if table else {"range": True}),
            }
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }
    if panel.why:
        made["description"] = panel.why
    return made


if __name__ == "__main__":
    DASHBOARD.write_text(json.dumps(document(), indent=1) + "\n", encoding="utf-8")
