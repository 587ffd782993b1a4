"""Set plans beside what OpenShift's Performance Profile Creator makes of the same machines.

`make bench-plans` writes docs/comparison.md. The tool's published results are recorded in
bench/comparison/profile_creator.py, with the rules that give them; nothing is fetched.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import yaml

from bench.comparison.profile_creator import (
    PUBLISHED,
    WORKER,
    Published,
    RefusedError,
    kubelet_settings,
    machine_of,
    refuse_policy,
    reserved_cpus,
)
from numaforge.kubelet.findings import RULES
from numaforge.kubelet.startup.check import check
from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.lib.errors import PlanError
from numaforge.lib.quantity import counted
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.read import read_topology
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from tests.fixtures.machines import KUBEADM_CONFIG, epyc_nps4, machine, many_numa_nodes
from tests.machines.files import stored

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "comparison.md"
BEGIN, END = "<!-- begin generated -->\n", "<!-- end generated -->\n"
VERSION = "1.36.3"

# What the tool always keeps, so that both sides are asked for the same.
MEMORY = {
    "kube_reserved": "500Mi",
    "system_reserved": "500Mi",
    "eviction_hard": {"memory.available": "100Mi"},
}


@dataclass(frozen=True)
class Wish:
    """One machine and what is asked for: so many whole cores in all or on each NUMA node, under a policy."""

    name: str
    machine: NodeTopology
    way: str  # as `cpus.reserved` says it
    count: int
    policy: str = "restricted"


def wishes() -> Iterator[Wish]:
    """Yield the rows of the table."""

    def captured(name: str) -> NodeTopology:
        return read_topology(stored(name).snapshot())

    each = "cores_per_numa_node"
    yield Wish("DGX H100, 2 NUMA nodes", captured("nvidia-dgx-h100"), each, 2)
    yield Wish("the same", captured("nvidia-dgx-h100"), "cores", 3)
    yield Wish("the same", captured("nvidia-dgx-h100"), each, 2, "single-numa-node")
    yield Wish("2 EPYC 9654 in NPS4, 8 NUMA nodes", epyc_nps4(), each, 1)
    yield Wish("the same", epyc_nps4(), "cores", 12)
    yield Wish("HGX B200, 6 NUMA nodes", captured("nvidia-hgx-b200"), "cores", 8)
    yield Wish("2 EPYC 9654 and a CXL memory node", captured("epyc-9654-nps1-cxl"), each, 4)
    yield Wish("GH200, GPU memory as NUMA nodes", captured("nvidia-gh200"), each, 4, "best-effort")
    yield Wish("GB200 tray, 34 NUMA nodes", captured("nvidia-gb200-tray"), each, 2, "best-effort")
    yield Wish("2 EPYC 9654, each L3 a NUMA node", captured("epyc-9654-l3-as-numa"), each, 1)
    yield Wish("2 Xeon Max in SNC4, HBM nodes", captured("xeon-max-9480-snc4-flat"), each, 1)
    yield Wish("512 CPUs, 32 of 34 NUMA nodes with CPUs", many_numa_nodes(32), each, 1)
    four = machine(packages=4, cores_per_numa_node=16, threads=1, hostname="four")
    yield Wish("4 NUMA nodes, SMT off", four, "cores", 5)
    small = machine(packages=2, cores_per_numa_node=16, numa_memory_bytes=2**30, hostname="small")
    yield Wish("2 NUMA nodes of 1 GiB", small, each, 1)


@dataclass(frozen=True)
class Answer:
    """What one side makes of a wish, in the words of the page."""

    reserved: str
    memory: str
    kubelet: str


def ours(wish: Wish) -> Answer:
    """Plan the wish."""
    profile: dict[str, Any] = {
        "name": "comparison",
        "cpus": {"reserved": {wish.way: wish.count}},
        "memory": MEMORY,
        "kubelet": {"topology_manager_policy": wish.policy},
        "tuning": {"swap": False},
    }
    if wish.policy != "best-effort":
        profile["kubelet"] |= {"memory_manager_policy": "Static"}
    try:
        plan = plan_node(wish.machine, load_profile(profile), VERSION)
    except PlanError as error:
        return Answer(f"refused: {error.message}; {error.remedy}", "", "")
    assert plan.kubelet is not None
    return Answer(
        _reserved(wish.machine, format_cpulist(plan.cpus.reserved)),
        _memory(plan.kubelet.settings),
        _judged(wish.machine, plan.kubelet.settings),
    )


def theirs(wish: Wish) -> Answer:
    """Ask the tool's rules for as many CPUs, split over NUMA nodes: no other way of it uses each of them."""
    nodes = [
        sorted(sorted(core.cpus) for core in wish.machine.cores if core.numa_node == node.id)
        for node in wish.machine.numa_nodes
    ]
    threads = max(len(core.cpus) for core in wish.machine.cores)
    with_cpus = sum(1 for node in nodes if node)
    count = wish.count * threads * (with_cpus if wish.way == "cores_per_numa_node" else 1)
    try:
        refuse_policy(wish.policy, split=True)
        reserved = format_cpulist(reserved_cpus(nodes, count, split=True))
    except RefusedError as refused:
        return Answer(f"asked for {count} CPUs, refused: {refused}", "", "")
    settings = kubelet_settings(reserved, wish.policy)
    asked = f"asked for {count} CPUs: "
    return Answer(
        asked + _reserved(wish.machine, reserved), _memory(settings), _judged(wish.machine, settings)
    )


def _reserved(topology: NodeTopology, cpulist: str) -> str:
    cpus = parse_cpulist(cpulist)
    per_node = [len(node.cpus & cpus) for node in topology.numa_nodes if node.cpus]
    cut = [core for core in topology.cores if core.cpus & cpus and not core.cpus <= cpus]
    uneven = "" if len(set(per_node)) == 1 else f" ({', '.join(map(str, per_node))} by NUMA node)"
    halves = f", {len(cut)} cores cut in two" if cut else ""
    return f"{len(cpus)} CPUs{uneven}{halves}"


def _memory(settings: Mapping[str, Any]) -> str:
    entries = settings.get("reservedMemory")
    if not entries:
        return "not split"
    shares = [f"{entry['limits']['memory']} on {entry['numaNode']}" for entry in entries]
    return ", ".join(shares if len(shares) <= 2 else [shares[0], f"... on {len(shares)} NUMA nodes"])


def _judged(topology: NodeTopology, settings: Mapping[str, Any]) -> str:
    text = yaml.safe_dump({**yaml.safe_load(KUBEADM_CONFIG), **settings})
    report = check(text, topology=topology, version=VERSION)
    if not report.starts:
        return f"does not start: {report.error}"
    said = sorted({finding.id for finding in report.findings})
    return "starts" + (f"; {', '.join(said)}" if said else "")


def published() -> Iterator[str]:
    """Yield the rows of the tool's published results, with what a plan reserves for as many CPUs."""
    worker = _worker()
    for row in dict.fromkeys(map(_asked, PUBLISHED)):
        name, count, split, disable_ht, reserved = row
        flags = "".join(flag for flag, on in ((", split", split), (", disable-ht", disable_ht)) if on)
        places = [each.source.rpartition("/")[2] for each in PUBLISHED if _asked(each) == row]
        sources = places[0] if len(places) == 1 else f"{places[0]} and {len(places) - 1} more"
        mine = _in_order(worker, count) if name == WORKER and not disable_ht else ""
        yield f"| {name} | {count}{flags} | {_short(reserved)} | `{sources}` | {mine} |"


def _asked(one: Published) -> tuple[str, int, bool, bool, str]:
    return one.machine, one.count, one.split, one.disable_ht, one.reserved


def _short(cpulist: str) -> str:
    return cpulist if cpulist.count(",") < 8 else f"{cpulist[:20]}...{cpulist[-6:]}"


def _in_order(topology: NodeTopology, count: int) -> str:
    if count % 2:
        return "refused, by name of the sibling that the list lacks"
    profile = {"cpus": {"reserved": {"cores": count // 2}}, "memory": MEMORY, "tuning": {"swap": False}}
    reserved = plan_node(topology, load_profile(profile), VERSION).cpus.reserved
    return f"`cores: {count // 2}`: {format_cpulist(reserved)}"


def _worker() -> NodeTopology:
    """Return the 2 Xeon Gold 6230, which count by turns: even CPUs on NUMA node 0."""
    plain = machine(
        packages=2, cores_per_numa_node=20, numa_memory_bytes=93 * 2**30, governor=None, hostname="worker"
    )
    first = [core for node in machine_of(WORKER) for core in node]
    new = {core + 40 * thread: cpus[thread] for core, cpus in enumerate(first) for thread in (0, 1)}

    def turned(cpus: frozenset[int]) -> frozenset[int]:
        return frozenset(new[cpu] for cpu in cpus)

    return replace(
        plain,
        packages=tuple(replace(one, cpus=turned(one.cpus)) for one in plain.packages),
        numa_nodes=tuple(replace(one, cpus=turned(one.cpus)) for one in plain.numa_nodes),
        cores=tuple(replace(one, cpus=turned(one.cpus)) for one in plain.cores),
        l3_caches=tuple(replace(one, cpus=turned(one.cpus)) for one in plain.l3_caches),
    )


def compared() -> Iterator[str]:
    """Yield the rows of the machines, two for each wish."""
    for wish in wishes():
        said = wish.way.replace("cores_per_numa_node", "on each NUMA node").replace("cores", "in all")
        asked = f"{wish.name}: {counted(wish.count, 'core')} {said}, {wish.policy}"
        for who, answer in (("creator", theirs(wish)), ("numaforge", ours(wish))):
            yield f"| {asked} | {who} | {answer.reserved} | {answer.memory} | {answer.kubelet} |"
            asked = ""


def generated() -> str:
    """Return what lies between the marks of the page."""
    rows = [*compared()]
    return "\n".join(
        [
            "## What it publishes",
            "",
            "| machine | asked for | reserved, or the refusal | where | a plan of ours |",
            "|---|---|---|---|---|",
            *published(),
            "",
            "## The same machines and wishes",
            "",
            f"| machine and wish | by | reserved CPUs | `reservedMemory` | kubelet {VERSION} |",
            "|---|---|---|---|---|",
            *rows,
            "",
            *(f"- {rule}: {RULES[rule].title}" for rule in sorted({*re.findall(r"NF\d{3}", " ".join(rows))})),
            "",
        ]
    )


def main() -> None:
    """Write the page anew."""
    head, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}{generated()}{END}{rest.partition(END)[2]}")
    print(f"{PAGE.relative_to(ROOT)}: {len(PUBLISHED)} published results, {len([*wishes()])} wishes")


if __name__ == "__main__":
    main()
