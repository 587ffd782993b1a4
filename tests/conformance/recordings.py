"""Recorded decisions of kubelets, and our own in their form."""

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from numaforge.machine.topology.model import Core, HugepagePool, L3Cache, NodeTopology, NumaNode, Package

VECTORS = Path(os.environ.get("NUMAFORGE_VECTORS", Path(__file__).parents[2].parent / "shared" / "vectors"))
PAGE_SIZES = {64: "64Ki", 2048: "2Mi", 32768: "32Mi", 524288: "512Mi", 1048576: "1Gi", 16777216: "16Gi"}


@cache
def recording(name: str) -> dict[str, Any]:
    path = VECTORS / name
    if not path.is_file():
        pytest.skip(f"no recordings at {path}: set NUMAFORGE_VECTORS to the folder that holds {name}")
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def cases(name: str, *lists: str) -> list[Any]:
    """One parameter per recorded case, or a single one that skips where the recording is absent."""
    path = VECTORS / name
    if not path.is_file():
        return [pytest.param(None, id="absent")]
    document = json.loads(path.read_text())
    return [
        pytest.param(case, id=f"{key}-{number}-{case.get('name') or case.get('description') or ''}"[:90])
        for key in lists
        for number, case in enumerate(document.get(key, []))
    ]


def node_topology(machine: Mapping[str, Any]) -> NodeTopology:
    """Turn a recorded machine (NUMA nodes with cores of threads) into a topology."""
    cores = [
        (Core(core["socket"], node["id"], frozenset(core["threads"])), core.get("uncore"))
        for node in machine["numa"]
        for core in node.get("cores", [])
    ]
    packages: dict[int, set[int]] = {}
    caches: dict[int, set[int]] = {}
    for core, uncore in cores:
        packages.setdefault(core.package, set()).update(core.cpus)
        if uncore is not None:
            caches.setdefault(uncore, set()).update(core.cpus)
    online = frozenset(cpu for core, _ in cores for cpu in core.cpus)
    return NodeTopology(
        hostname=None,
        architecture="x86_64",
        kernel=None,
        kernel_cmdline=None,
        memory_bytes=sum(node["memory"] for node in machine["numa"]),
        swap_bytes=0,
        cgroup_version=2,
        online=online,
        offline=frozenset(),
        isolated=frozenset(),
        packages=tuple(Package(number, frozenset(cpus)) for number, cpus in sorted(packages.items())),
        numa_nodes=tuple(
            NumaNode(
                id=node["id"],
                cpus=frozenset(t for core in node.get("cores", []) for t in core["threads"]),
                memory_bytes=node["memory"],
                distances=dict(
                    zip([n["id"] for n in machine["numa"]], node.get("distances") or [], strict=False)
                ),
                hugepages={
                    PAGE_SIZES[pool["pageSizeKiB"]]: HugepagePool(pool["numPages"], pool["numPages"])
                    for pool in node.get("hugepages") or []
                },
            )
            for node in machine["numa"]
        ),
        cores=tuple(core for core, _ in cores),
        l3_caches=tuple(L3Cache(frozenset(cpus), None) for _, cpus in sorted(caches.items())),
    )
