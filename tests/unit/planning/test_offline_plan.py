"""CPUs that are taken offline: everything is planned for the machine as it will be, and again as it was."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.read import read_topology
from numaforge.planning.as_planned import earlier_offline
from numaforge.planning.document import dumps, loads
from numaforge.planning.plan import NodePlan
from numaforge.roles.cpus.offline import OfflinePlan, as_before, without
from numaforge.roles.kernel_values.expected import expected
from numaforge.roles.kernel_values.paths import ONLINE
from tests.fixtures.machines import dgx_h100, lab_node, with_cpu_states
from tests.fixtures.plans import after, decided, notices, planned, refusal
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
    return planned(topology, cpus=cpus, tuning=tuning or {}, kubelet={"cpu_manager_policy": "static"})


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
    return plan(after(read_topology(under(snapshot, first.tuning.offline.taken)), first), TUNING, **cpus)


def test_smt_off_plans_the_first_threads():
    chosen = plan(dgx_h100(), smt="off", reserved={"cores": 2})
    assert chosen.cpus.online == parse_cpulist("0-111")
    assert chosen.cpus.reserved == parse_cpulist("0,56")
    assert decided(chosen, "cpus.smt")[0] == "off"
    assert chosen.allocatable.cpu_millis == 110_000
    assert [format_cpulist(node.cpus) for node in chosen.memory.numa_nodes] == ["0-55", "56-111"]
    assert loads(dumps(chosen)) == chosen


def test_smt_off_switches_each_second_thread_off():
    (row,) = expected(plan(lab_node(), smt="off"))
    assert (row.path, row.value, row.cpus) == (ONLINE, "0", frozenset(range(1, 16, 2)))


@pytest.mark.parametrize("cpus", [{"smt": "off"}, {"smt": False}], ids=["off", "as-yaml-reads-it"])
def test_unquoted_yaml_off_means_off(cpus):
    assert plan(lab_node(), **cpus).tuning.offline.cpus


def test_governors_and_isolated_cpus_leave_offline_cpus_out():
    governor, isolated = {"governor": "performance"}, {"isolated_cpus": "allocatable"}
    chosen = planned(lab_node(), cpus={"smt": "off"}, tuning=governor, kernel=isolated)
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


FIRST = "CPU 0 stays online: the kernel starts on it, and firmware may need it\n  leave"
NO_SWITCH = "keeps CPUs 3 online (they have no switch below /sys/devices/system/cpu)\n  leave"
WITHOUT_SWITCH = replace(lab_node(), switchable=parse_cpulist("1-2,4-15"))
REFUSED = {
    "cpu-0": (
        WITHOUT_SWITCH,
        {"offline": "0-3"},
        f'{FIRST} it out: "1-3"',
    ),
    "only-cpu-0": (
        WITHOUT_SWITCH,
        {"offline": "0"},
        f"{FIRST} cpus.offline out",
    ),
    "not-there": (WITHOUT_SWITCH, {"offline": "8,99"}, "does not have: 99\n  choose among the CPUs 1-15"),
    "no-switch": (
        WITHOUT_SWITCH,
        {"offline": "2-5"},
        f'{NO_SWITCH} them out: "2,4-5"',
    ),
    "thread-without-switch": (
        WITHOUT_SWITCH,
        {"smt": "off"},
        f"{NO_SWITCH} cpus.smt out",
    ),
    "reserved-and-offline": (
        WITHOUT_SWITCH,
        {"offline": "8-15", "reserved": {"cpulist": "8-9"}},
        "names CPUs that are offline: 8-9\n  choose among the online CPUs 0-7",
    ),
    "all-of-a-numa-node-with-gpus": (dgx_h100(), {"offline": "56-111,168-223"}, "offline, but it has GPUs"),
    "cgroup-v1": (replace(lab_node(), cgroup_version=1), {"smt": "off"}, "does not come back to the cpusets"),
    "smt-on": (lab_node(), {"smt": "on"}, "cpus.smt"),
    "smt-true": (lab_node(), {"smt": True}, "cpus.smt"),
    "smt-nosmt": (lab_node(), {"smt": "nosmt"}, "cpus.smt"),
}


@pytest.mark.parametrize(("topology", "cpus", "message"), REFUSED.values(), ids=REFUSED)
def test_impossible_offline_cpus_are_refused_at_planning(topology, cpus, message):
    assert message in refusal(topology, cpus=cpus)


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
    later = replace(after(read_topology(under(snapshot, gone)), first), cgroup_version=2, swap_bytes=0)
    assert as_before(later, first.tuning.offline).kubelet_cores == machine.kubelet_cores
    assert as_before(later, first.tuning.offline).kubelet_packages == machine.kubelet_packages
    assert plan(later, reserved={"cores": 1}, **cpus).cpus == first.cpus


@pytest.mark.parametrize("name", MACHINES)
def test_plan_covers_the_whole_machine_by_default(name):
    snapshot = switchable(name)
    first = plan(read_topology(snapshot), TUNING, smt="off")
    assert planned_again(snapshot, first) == plan(read_topology(snapshot), TUNING)


def test_cpu_already_offline_stays_offline_by_default():
    snapshot = under(switchable("nvidia-dgx-h100"), frozenset({5}))
    offline = plan(read_topology(snapshot), smt="off", offline="5,7").tuning.offline
    assert as_before(read_topology(under(snapshot, offline.taken)), offline).offline == {5}


def test_unreadable_earlier_plan_counts_as_no_offline_cpus():
    machine = with_cpu_states(replace(lab_node(), previous_plan="{"), offline=frozenset({16}))
    assert earlier_offline(machine) == OfflinePlan()


@given(taken=st.frozensets(st.integers(4, 15), min_size=1))
def test_undoing_an_offline_plan_restores_the_machine(taken):
    offline = plan(lab_node(), offline=format_cpulist(taken)).tuning.offline
    assert as_before(without(lab_node(), offline), offline) == lab_node()
