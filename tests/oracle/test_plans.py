"""Thousands of plans, judged by a second reading of each machine.

Of a captured machine it is what the kubelet's own code says, of one that was drawn what was laid out. A
failure names the machine, `laid_out(SEED)` for one that was drawn, and the profile.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count, islice
from random import Random
from typing import Any

import pytest
import yaml

from numaforge.kubelet.startup.check import check
from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.read import read_topology
from numaforge.planning.document import dumps
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.profile import NodeProfile
from numaforge.planning.profiles import load_profile
from tests.fixtures.machines import KUBEADM_CONFIG
from tests.machines.files import MachineFile, machine_files
from tests.oracle.laid_out import laid_out
from tests.oracle.scale import SCALE
from tests.oracle.signed import violations, wishes

KUBEADM: Mapping[str, Any] = yaml.safe_load(KUBEADM_CONFIG)
VERSIONS = ("1.30.0", "1.33.0", "1.36.0")
PLANS, PARTS = 10_000, 20
CHUNK = 25
"""Machines of one fast test."""

# The machines that the kubelet's own code was asked about, and sees as our reading of the masks does.
JUDGED = [
    pytest.param(file, id=file.name)
    for file in machine_files()
    if (expected := file.expected()).get("kubelet", {}).get("cores")
    and not any(name.startswith("kubelet") for name in expected.get("differs", {}))
]


def planned(topology: NodeTopology, profile: NodeProfile, version: str) -> NodePlan | str:
    """Return the plan, or what its refusal counts as."""
    try:
        return plan_node(topology, profile, version)
    except PlanError as refused:
        return "refused by check" if "would not start" in refused.message else "refused"


def judged(plan: NodePlan, topology: NodeTopology, facts: Mapping[str, Any], version: str) -> list[str]:
    """Return what is wrong with a plan; `kubelet check` is asked about what it has the kubelet read."""
    found = violations(plan, facts, topology.memory_bytes or 2**63)
    settings = plan.kubelet.settings if plan.kubelet else {}
    report = check(yaml.safe_dump({**KUBEADM, **settings}), topology=topology, version=version)
    return found if report.starts else [*found, f"check: {report.error}"]


def judge(
    name: str, topology: NodeTopology, facts: Mapping[str, Any], profiles: Iterator[dict[str, Any]]
) -> Counter[str]:
    """Plan for a machine with every profile and version; refused plans are counted, not judged."""
    counts: Counter[str] = Counter()
    for wish in profiles:
        profile = load_profile(wish)
        for version in VERSIONS:
            plan = planned(topology, profile, version)
            if isinstance(plan, str):
                counts[plan] += 1
                continue
            found = judged(plan, topology, facts, version)
            assert not found, f"{name}: {wish} for {version}: {found}"
            counts["planned"] += 1
    return counts


def judge_captured(file: MachineFile, profiles: int) -> Counter[str]:
    topology = replace(read_topology(file.snapshot()), swap_bytes=0, cgroup_version=2)
    return judge(file.name, topology, file.expected()["kubelet"], islice(wishes(len(file.name)), profiles))


def judge_laid_out(seed: int) -> Counter[str]:
    machine = laid_out(seed)
    topology = read_topology(machine.snapshot())
    return judge(f"laid_out({seed})", topology, machine.facts, islice(wishes(seed), 1))


@pytest.mark.parametrize("file", JUDGED)
def test_two_plans_of_every_machine_pass_check(file):
    counts = judge_captured(file, 2)
    assert sum(counts.values()) == 2 * len(VERSIONS)
    assert not counts["refused by check"]


@pytest.mark.parametrize("first", range(0, 2 * CHUNK, CHUNK))
def test_plans_of_generated_machines_pass_check(first):
    counts = sum(map(judge_laid_out, range(first, first + CHUNK)), Counter())
    assert counts["planned"] > CHUNK
    assert not counts["refused by check"]


@pytest.mark.parametrize("seed", range(CHUNK))
def test_order_of_files_does_not_change_the_plan(seed):
    machine, profile = laid_out(seed), load_profile(next(wishes(seed)))
    other = Random(seed)  # noqa: S311 - nothing is secret
    plans = [
        planned(read_topology(machine.snapshot(order)), profile, VERSIONS[-1]) for order in (None, other)
    ]
    first, second = (plan if isinstance(plan, str) else dumps(plan) for plan in plans)
    assert first == second


@pytest.mark.long
@pytest.mark.parametrize("file", JUDGED)
def test_many_plans_of_every_machine_pass_check(file):
    assert not judge_captured(file, 12 * SCALE)["refused by check"]


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_ten_thousand_plans_pass_check(part):
    counts: Counter[str] = Counter()
    first = SCALE * 10**6 + part * 10**4
    for seed in count(first):
        if counts["planned"] >= PLANS // PARTS:
            break
        counts += judge_laid_out(seed)
    print(
        f"\n{counts['planned']:,} plans stand for the machines {first:,} to {seed - 1:,}; "
        f"{counts['refused']:,} were refused while planning"
    )
    assert not counts["refused by check"]


def test_wrong_plan_is_distinguished_from_a_valid_plan():
    file = next(file for file in machine_files() if file.name == "nvidia-dgx-h100")
    topology, facts = read_topology(file.snapshot()), file.expected()["kubelet"]
    plan = plan_node(topology, load_profile("inference-mig"), "1.36.0")
    assert plan.kubelet
    assert violations(plan, facts, topology.memory_bytes or 0) == []
    changes = {"reservedSystemCPUs": "0", "reservedMemory": plan.kubelet.settings["reservedMemory"][:1]}
    wrong = replace(plan, kubelet=replace(plan.kubelet, settings={**plan.kubelet.settings, **changes}))
    assert [found.partition(" ")[0] for found in violations(wrong, facts, 0)] == [
        "parts",
        "reservedMemory",
        str(plan.allocatable and plan.allocatable.memory_bytes),
    ]
