"""CPUs that are taken offline: everything is planned for the machine as it will be, and again as it was."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.lib.errors import PlanError, ProfileError
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.read import read_topology
from numaforge.planning.as_planned import earlier_offline
from numaforge.planning.document import dumps, loads
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile
from numaforge.roles.cpus.offline import OfflinePlan, as_before, without
from numaforge.roles.kernel_values.expected import expected
from numaforge.roles.kernel_values.paths import ONLINE
from tests.fixtures.machines import dgx_h100, lab_node
from tests.machines.files import stored

CPU = "/sys/devices/system/cpu"
TUNING = {"governor": "performance", "cpu_idle": {"max_latency_us": 20}}
MACHINES = ("nvidia-dgx-h100", "epyc-9654-nps4", "core-i7-620m")
BY_IDS = (
    "dell-c6145-opteron6276",
    "dell-r815-opteron6272",
    "ibm-9179-power7",
    "ibm-z-drawers",
    "itanium2-16p-8n",
    "sgi-xe320-buggy-numa",
    "xeon-6230-memory-without-cpus",
)
"""Machines on which the kernel's ids tell other cores or packages than its sibling masks."""


def plan(topology: NodeTopology, tuning: dict[str, object] | None = None, **cpus: object) -> NodePlan:
    wish = {"cpus": cpus, "tuning": tuning or {}, "kubelet": {"cpu_manager_policy": "static"}}
    return plan_node(topology, load_profile(wish))


def notices(chosen: NodePlan) -> dict[str, str]:
    return {notice.id: notice.message for notice in chosen.notices}


def decisions(chosen: NodePlan) -> dict[str, str]:
    return {decision.subject: decision.value for decision in chosen.decisions}


def under(snapshot: Snapshot, cpus: frozenset[int]) -> Snapshot:
    """Return a snapshot as the kernel shows the machine with these CPUs offline: of them only the switch."""
    files = {}
    for path, text in snapshot.files.items():
        words = path.split("/")
        cpu = words[5].removeprefix("cpu") if path.startswith("/sys/devices/system/cpu/cpu") else ""
        if not (cpu.isdigit() and int(cpu) in cpus):
            files[path] = text
    listed = parse_cpulist(files[f"{CPU}/online"].strip())
    files[f"{CPU}/online"] = format_cpulist(listed - cpus)
    return replace(snapshot, files={**files, **{ONLINE.format(cpu): "0\n" for cpu in cpus}})


def switchable(name: str) -> Snapshot:
    """Return a captured machine on which all CPUs but the first one have a switch."""
    snapshot = stored(name).snapshot()
    present = read_topology(snapshot).online
    switches = {ONLINE.format(cpu): "1\n" for cpu in present - {0}}
    return replace(snapshot, files={f"{CPU}/online": format_cpulist(present), **snapshot.files, **switches})


def planned_again(snapshot: Snapshot, first: NodePlan, **cpus: object) -> NodePlan:
    """Return the plan of the same machine after a run."""
    after = under(snapshot, first.tuning.offline.taken)
    return plan(replace(read_topology(after), previous_plan=dumps(first)), TUNING, **cpus)


def test_smt_off_plans_the_first_threads():
    chosen = plan(dgx_h100(), smt="off", reserved={"cores": 2})
    assert chosen.cpus.online == parse_cpulist("0-111")
    assert chosen.cpus.reserved == parse_cpulist("0,56")
    assert decisions(chosen)["cpus.smt"] == "off"
    assert chosen.allocatable.cpu_millis == 110_000
    assert [node.cpus for node in chosen.memory.numa_nodes] == [
        parse_cpulist("0-55"),
        parse_cpulist("56-111"),
    ]


def test_smt_off_switches_each_second_thread_off():
    (row,) = expected(plan(lab_node(), smt="off"))
    assert (row.path, row.value, row.cpus) == (ONLINE, "0", frozenset(range(1, 16, 2)))


@pytest.mark.parametrize("cpus", [{"smt": "off"}, {"smt": False}], ids=["off", "as-yaml-reads-it"])
def test_unquoted_yaml_off_means_off(cpus):
    assert plan(lab_node(), **cpus).tuning.offline.cpus


def test_governors_and_isolated_cpus_leave_offline_cpus_out():
    wish = {
        "cpus": {"smt": "off"},
        "tuning": {"governor": "performance"},
        "kernel": {"isolated_cpus": "allocatable"},
    }
    chosen = plan_node(lab_node(), load_profile(wish))
    assert {*chosen.tuning.governors} == {*range(0, 16, 2)}
    assert chosen.cpus.reserved == {0}
    assert chosen.kernel.cmdline == ("isolcpus=managed_irq,domain,2,4,6,8,10,12,14",)


def test_named_cpus_are_neither_reserved_nor_counted():
    chosen = plan(lab_node(), offline="8-15", reserved={"cores": 1})
    assert chosen.cpus.online == parse_cpulist("0-7")
    assert chosen.allocatable.cpu_millis == 6_000


def test_smt_off_and_named_cpus_combine():
    assert plan(lab_node(), smt="off", offline="12-15").cpus.online == parse_cpulist("0,2,4,6,8,10")


def test_smt_off_without_smt_is_noticed():
    chosen = plan(without(lab_node(), plan(lab_node(), smt="off").tuning.offline), smt="off")
    assert "nothing to take offline" in notices(chosen)["no-smt"]
    assert not chosen.tuning.offline.cpus


@pytest.mark.parametrize(
    ("cpus", "message", "remedy"),
    [
        pytest.param({"offline": "0-3"}, "CPU 0 stays online", 'leave it out: "1-3"', id="cpu-0"),
        pytest.param({"offline": "0"}, "CPU 0 stays online", "leave cpus.offline out", id="only-cpu-0"),
        pytest.param({"offline": "8,99"}, "does not have: 99", "choose among the CPUs 1-15", id="not-there"),
        pytest.param({"offline": "2-5"}, "keeps CPUs 3 online", 'leave them out: "2,4-5"', id="no-switch"),
        pytest.param({"smt": "off"}, "keeps CPUs 3 online", "leave cpus.smt out", id="thread-without-switch"),
        pytest.param(
            {"offline": "8-15", "reserved": {"cpulist": "8-9"}},
            "names CPUs that are offline: 8-9",
            "choose among the online CPUs 0-7",
            id="reserved-and-offline",
        ),
    ],
)
def test_impossible_offline_cpus_are_refused_at_planning(cpus, message, remedy):
    machine = replace(lab_node(), switchable=parse_cpulist("1-2,4-15"))
    with pytest.raises(PlanError, match=message) as refused:
        plan(machine, **cpus)
    assert remedy in (refused.value.remedy or "")


def test_gpu_numa_node_keeps_cpus():
    with pytest.raises(PlanError, match=r"all CPUs of NUMA node 1 .* would be offline, but it has GPUs"):
        plan(dgx_h100(), offline="56-111,168-223")


def test_taking_cpus_offline_on_cgroup_v1_is_refused():
    with pytest.raises(PlanError, match="does not come back to the cpusets"):
        plan(replace(lab_node(), cgroup_version=1), smt="off")


@pytest.mark.parametrize("value", ["on", True, "nosmt"])
def test_smt_accepts_only_off(value):
    with pytest.raises(ProfileError, match=r"cpus\.smt"):
        load_profile({"cpus": {"smt": value}})


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("cpus", [{"smt": "off"}, {"offline": "1-2"}], ids=["smt", "named"])
def test_second_run_finds_the_same_plan(name, cpus):
    snapshot = switchable(name)
    first = plan(read_topology(snapshot), TUNING, **cpus)
    second = planned_again(snapshot, first, **cpus)
    assert replace(second, notices=first.notices) == first


@pytest.mark.parametrize("name", BY_IDS)
@pytest.mark.parametrize("cpus", [{"smt": "off"}, {"offline": "1"}], ids=["smt", "named"])
def test_cores_identified_by_kubelet_ids_go_offline_and_come_back(name, cpus):
    snapshot = switchable(name)
    machine = replace(read_topology(snapshot), cgroup_version=2, swap_bytes=0)
    first = plan(machine, reserved={"cores": 1}, **cpus)
    gone = first.tuning.offline.cpus
    assert first.cpus.online == machine.online - gone
    assert not (first.cpus.reserved | first.cpus.allocatable) & gone
    after = replace(
        read_topology(under(snapshot, gone)), cgroup_version=2, swap_bytes=0, previous_plan=dumps(first)
    )
    assert as_before(after, first.tuning.offline).kubelet_cores == machine.kubelet_cores
    assert as_before(after, first.tuning.offline).kubelet_packages == machine.kubelet_packages
    assert plan(after, reserved={"cores": 1}, **cpus).cpus == first.cpus


@pytest.mark.parametrize("name", MACHINES)
def test_plan_covers_the_whole_machine_by_default(name):
    snapshot = switchable(name)
    first = plan(read_topology(snapshot), TUNING, smt="off")
    assert planned_again(snapshot, first) == plan(read_topology(snapshot), TUNING)


def test_cpu_already_offline_stays_offline_by_default():
    snapshot = under(switchable("nvidia-dgx-h100"), frozenset({5}))
    first = plan(read_topology(snapshot), smt="off", offline="5,7")
    after = under(snapshot, first.tuning.offline.taken)
    back = as_before(read_topology(after), first.tuning.offline)
    assert back.offline == {5}


def test_unreadable_earlier_plan_counts_as_no_offline_cpus():
    machine = replace(lab_node(), offline=frozenset({16}), previous_plan="{")
    assert earlier_offline(machine) == OfflinePlan()


def test_plan_with_offline_cpus_survives_its_document():
    chosen = plan(lab_node(), smt="off")
    assert loads(dumps(chosen)) == chosen


@given(taken=st.frozensets(st.integers(4, 15), min_size=1))
def test_undoing_an_offline_plan_restores_the_machine(taken):
    machine = lab_node()
    chosen = plan(machine, offline=format_cpulist(taken))
    after = without(machine, chosen.tuning.offline)
    assert as_before(after, chosen.tuning.offline) == machine
