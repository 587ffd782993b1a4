"""The ResourceSlices that plans foresee of the CPU driver, and those that its own code publishes."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab import gobuild
from lab.questions import answered
from numaforge.cluster.schedulers.dra import NUMA_NODE
from numaforge.cluster.schedulers.fleet import ServedNode
from numaforge.cluster.schedulers.slices import planned_slices, slice_deviations
from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.lib.errors import PlanError
from numaforge.lib.kubernetes_objects import CPU_DRIVER
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.cpus import parse_mask
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.read import read_topology
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.roles.dra.plan import placed_cpus
from tests.fixtures.trees import write
from tests.machines.files import machine_files

pytestmark = pytest.mark.long

KUBELET = "1.37.2"
AFTER_0_2_0 = {NUMA_NODE}
"""Attributes that the driver has since its release 0.2.0, whose code is asked."""
WAYS = {
    "numanode": {},
    "socket": {"cpu_group_by": "socket"},
    "machine": {"cpu_group_by": "machine"},
    "individual": {"cpu_device_mode": "individual"},
}

_CPU = "/sys/devices/system/cpu"
_READ = re.compile(
    rf"{_CPU}/(cpu\d+/(topology/(core_id|physical_package_id)|cache/index\d+/level)|smt/control)"
)
_CACHE = re.compile(rf"({_CPU}/cpu\d+/cache/index\d+)/shared_cpu_(map|list)")


@dataclass(frozen=True)
class LaidOut:
    """A machine, and the folder with the files of it that the driver reads."""

    machine: NodeTopology
    root: Path


def lay_out(snapshot: Snapshot, machine: NodeTopology, root: Path) -> None:
    """Write what the driver reads of a machine: a snapshot lacks the NUMA node below each CPU."""
    write(root, f"{_CPU}/online", f"{format_cpulist(machine.online)}\n")
    for path, text in snapshot.files.items():
        if _READ.fullmatch(path):
            write(root, path, f"{text}\n")
        if cache := _CACHE.fullmatch(path):
            cpus = parse_mask(text) if cache[2] == "map" else parse_cpulist(text)
            write(root, f"{cache[1]}/shared_cpu_list", f"{format_cpulist(cpus)}\n")
    for numa_node in machine.numa_nodes:
        name = f"node{numa_node.id}"
        write(root, f"/sys/devices/system/node/{name}/cpulist", f"{format_cpulist(numa_node.cpus)}\n")
        for cpu in numa_node.cpus:
            (root / f"{_CPU[1:]}/cpu{cpu}/{name}").symlink_to(f"../../node/{name}")


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LaidOut]:
    """Return every machine of the collection, by name."""
    folder = tmp_path_factory.mktemp("machines")
    found = {}
    for file in machine_files():
        snapshot = file.snapshot()
        found[file.name] = LaidOut(read_topology(snapshot), folder / file.name)
        lay_out(snapshot, found[file.name].machine, found[file.name].root)
    return found


def planned(machine: NodeTopology, way: str) -> ServedNode:
    """Return a node whose CPUs the driver hands out; raises PlanError where it cannot be planned so."""
    profile = {"extends": "cpu-only", "kubelet": {"resource_engine": "dra"}, "dra": WAYS[way]}
    return ServedNode(machine, plan_node(machine, load_profile(profile), KUBELET), {}, "node")


def question(node: ServedNode, root: Path, **changed: str) -> dict[str, str]:
    driver = node.plan.dra.cpus if node.plan.dra else None
    asked = {"mode": driver.device_mode, "groupBy": driver.group_by, "reservedCPUs": driver.reserved_cpus}
    return {"root": str(root), "node": node.name, **asked, **changed}


def slices(node: ServedNode, answer: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return what the driver publishes as the API server has it."""
    pool = (answer or {}).get(node.name) or {}
    return [
        {
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node.name}-{number}"},
            "spec": {"driver": CPU_DRIVER, "nodeName": node.name, "devices": each["Devices"] or []},
        }
        for number, each in enumerate(pool.get("Slices") or ())
    ]


def devices(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [device for each in listed for device in each["spec"]["devices"]]


def repeats_core_ids(laid: LaidOut) -> bool:
    """Return whether the dies of a package have equal core ids: the driver takes CPUs of both for a core."""
    together: dict[tuple[str, ...], set[int]] = {}
    for cpu in laid.machine.online:
        folder = laid.root / f"{_CPU[1:]}/cpu{cpu}/topology"
        ids = tuple((folder / name).read_text() for name in ("physical_package_id", "core_id"))
        together.setdefault(ids, set()).add(cpu)
    return any(
        len(cpus) > 1 and cpus not in [core.cpus for core in laid.machine.cores] for cpus in together.values()
    )


def differences(foreseen: list[dict[str, Any]], found: list[dict[str, Any]]) -> Iterator[str]:
    """Yield where the devices that are foreseen are not those that are published."""
    names = [[device.get("name") for device in each] for each in (foreseen, found)]
    if names[0] != names[1]:
        yield f"foreseen {names[0]}, published {names[1]}"
    for one, other in zip(foreseen, found, strict=False):
        for key in one.keys() - {"attributes"}:
            if one[key] != other.get(key):
                yield f"{one}: {key} is {other.get(key)}"
        for key, value in one["attributes"].items():
            if key not in AFTER_0_2_0 and other["attributes"].get(key) != value:
                yield f"{one}: {key} is {other['attributes'].get(key)}"


def by_cpu(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return devices of a CPU each in the order of the CPUs, without names, which number another order."""
    nameless = [{key: value for key, value in device.items() if key != "name"} for device in listed]
    return sorted(nameless, key=lambda device: device["attributes"]["dra.cpu/cpuID"]["int"])


@pytest.mark.parametrize("way", WAYS)
def test_devices_of_the_driver_match_the_plan_and_pass_verify(way, laid_out):
    program = gobuild.build(gobuild.CPU_SLICES) / "slices"
    nodes = {}
    for name, laid in laid_out.items():
        with contextlib.suppress(PlanError):
            nodes[name] = planned(laid.machine, way)
    assert len(nodes) > 30
    answers = answered(program, [question(node, laid_out[name].root) for name, node in nodes.items()])
    differ = {}
    for (name, node), answer in zip(nodes.items(), answers, strict=True):
        published = slices(node, answer)
        both = devices([*planned_slices(node, node.name)]), devices(published)
        if way == "individual" and repeats_core_ids(laid_out[name]):
            both = by_cpu(both[0]), by_cpu(both[1])
        differ[name] = [*differences(*both), *map(str, slice_deviations([node], published))]
    assert {name: said[:2] for name, said in differ.items() if said} == {}


@pytest.mark.parametrize("way", ["numanode", "socket", "individual"])
def test_machine_without_cpus_from_the_driver_is_refused(way, laid_out):
    program = gobuild.build(gobuild.CPU_SLICES) / "slices"
    refused = {}
    for name, laid in laid_out.items():
        with contextlib.suppress(PlanError):
            asked = question(planned(laid.machine, "machine"), laid.root)
            mode = "individual" if way == "individual" else "grouped"
            refused[name] = {**asked, "mode": mode, "groupBy": way, "reservedCPUs": ""}
    answers = answered(program, [*refused.values()])
    without = {name for name, answer in zip(refused, answers, strict=True) if not answer}
    assert without == {name for name in refused if not placed_cpus(laid_out[name].machine)} != set()


@pytest.mark.parametrize("reserved", ["", "0-20"], ids=["none", "more"])
@pytest.mark.parametrize("way", WAYS)
def test_driver_with_different_reserved_cpus_is_reported(way, reserved, laid_out):
    program = gobuild.build(gobuild.CPU_SLICES) / "slices"
    laid = laid_out["epyc-9654-nps4"]
    node = planned(laid.machine, way)
    [answer] = answered(program, [question(node, laid.root, reservedCPUs=reserved)])
    assert [*slice_deviations([node], slices(node, answer))] != []
