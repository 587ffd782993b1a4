"""Kernel settings: what the host has is planned, what it lacks is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from numaforge.errors import PlanError
from numaforge.planning.document import dumps
from numaforge.planning.model import NodePlan
from numaforge.planning.node import plan_node
from numaforge.planning.sysctls import reaches
from numaforge.profile import load_profile, ready_profiles
from numaforge.topology.model import Cpufreq, NodeTopology
from tests.fixtures.machines import lab_node, two_cpu_vm


def plan(topology: NodeTopology, **tuning) -> NodePlan:
    return plan_node(topology, load_profile({"tuning": tuning}))


def pstate(driver: str = "intel_pstate") -> NodeTopology:
    cpus = range(16)
    cpufreq = Cpufreq(
        driver,
        dict.fromkeys(cpus, "powersave"),
        ("performance", "powersave"),
        dict.fromkeys(cpus, "balance_performance"),
        ("default", "performance", "balance_performance"),
    )
    return replace(lab_node(), cpufreq=cpufreq)


def notices(chosen: NodePlan) -> dict[str, str]:
    return {notice.id: notice.message for notice in chosen.notices}


def test_an_empty_profile_changes_nothing():
    chosen = plan(lab_node())
    assert not any([chosen.tuning.governors, chosen.tuning.sysctls, chosen.tuning.swap_off])
    assert not [file for file in chosen.files if file.role == "tuning"]


def test_the_governor_is_set_on_every_online_cpu():
    assert plan(lab_node(), governor="performance").tuning.governors == dict.fromkeys(
        range(16), "performance"
    )


def test_without_cpufreq_the_governor_is_left_alone():
    chosen = plan(two_cpu_vm(), governor="performance")
    assert not chosen.tuning.governors
    assert notices(chosen)["no-cpufreq"] == "no cpufreq: governor left alone"


def test_a_governor_that_the_driver_lacks_is_left_alone():
    chosen = plan(pstate(), governor="schedutil")
    assert not chosen.tuning.governors
    assert "intel_pstate offers performance, powersave, not schedutil" in notices(chosen)["no-such-governor"]


def test_the_energy_preference_is_set_on_every_cpu():
    chosen = plan(pstate(), energy_preference="balance_performance")
    assert chosen.tuning.energy_preferences == dict.fromkeys(range(16), "balance_performance")


def test_without_energy_preferences_they_are_left_alone():
    assert "no-energy-preference" in notices(plan(lab_node(), energy_preference="performance"))


def test_an_energy_preference_that_the_driver_lacks_is_left_alone():
    chosen = plan(pstate(), energy_preference="power")
    assert "not power" in notices(chosen)["no-such-energy-preference"]


@pytest.mark.parametrize("driver", ["intel_pstate", "amd-pstate-epp"])
def test_performance_with_another_energy_preference_is_refused(driver):
    with pytest.raises(PlanError, match="accepts no other energy preference"):
        plan(pstate(driver), governor="performance", energy_preference="balance_performance")


def test_numa_balancing_becomes_a_sysctl():
    assert plan(lab_node(), numa_balancing=False).tuning.sysctls == {"kernel.numa_balancing": "0"}


def test_a_sysctl_that_the_kernel_lacks_is_left_alone():
    chosen = plan(lab_node(), sysctls={"vm.swapiness": 1, "vm.swappiness": 1})
    assert chosen.tuning.sysctls == {"vm.swappiness": "1"}
    assert notices(chosen)["no-such-sysctl"] == "this kernel has no vm.swapiness: left alone"


def test_a_sysctl_outside_the_snapshot_is_taken_on_trust():
    chosen = plan(lab_node(), sysctls={"net.ipv6.conf.all.forwarding": 1})
    assert chosen.tuning.sysctls == {"net.ipv6.conf.all.forwarding": "1"}


def test_a_sysctl_of_a_folder_that_a_snapshot_holds_in_part_is_taken_on_trust():
    topology = host(net__ipv4__conf__all__rp_filter="1")
    chosen = plan(topology, sysctls={"net.ipv4.conf.all.forwarding": 1})
    assert chosen.tuning.sysctls == {"net.ipv4.conf.all.forwarding": "1"}


def test_transparent_hugepages():
    chosen = plan(lab_node(), transparent_hugepages={"enabled": "madvise", "defrag": "defer"})
    assert chosen.tuning.transparent_hugepages == {"enabled": "madvise", "defrag": "defer"}


def test_a_kernel_without_transparent_hugepages_says_so():
    topology = replace(lab_node(), transparent_hugepages={})
    assert "no-transparent-hugepages" in notices(plan(topology, transparent_hugepages="never"))


def test_swap_off_needs_the_unit_alone():
    chosen = plan(lab_node(), swap="off")
    assert chosen.tuning.swap_off
    assert [file.path for file in chosen.files if file.role == "tuning"] == [
        "/etc/systemd/system/numaforge-tuning.service"
    ]


def test_swap_left_on_is_noticed():
    topology = replace(lab_node(), swap_bytes=2**30)
    assert "swap-on" in notices(plan(topology, swap="keep"))
    assert "swap-on" not in notices(plan(topology, swap="off"))


def host(**sysctls: str) -> NodeTopology:
    """Return the lab node with other sysctls; dots are written as two underscores."""
    named = {name.replace("__", "."): value for name, value in sysctls.items()}
    return replace(lab_node(), sysctls={**lab_node().sysctls, **named})


def decided(chosen: NodePlan, subject: str) -> tuple[str, str]:
    (decision,) = [each for each in chosen.decisions if each.subject == subject]
    return decision.value, decision.reason


@pytest.mark.parametrize(
    ("held", "raised"),
    [
        pytest.param("65530", {"vm.max_map_count": "262144"}, id="a host that has less is raised"),
        pytest.param("262144", {"vm.max_map_count": "262144"}, id="the same is held at every boot"),
        pytest.param("1048576", {}, id="a host that has more is left alone"),
        pytest.param("18446744073692774399", {}, id="even where no signed number holds it"),
        pytest.param("unlimited", {"vm.max_map_count": "262144"}, id="what is no number is left to the host"),
    ],
)
def test_a_limit_is_raised_only(held, raised):
    chosen = plan(host(vm__max_map_count=held), sysctls={"vm.max_map_count": 262144})
    assert chosen.tuning.raised_sysctls == raised
    assert chosen.tuning.sysctls == {}


def test_a_limit_outside_the_snapshot_is_left_to_the_host_to_compare():
    chosen = plan(lab_node(), sysctls={"net.netfilter.nf_conntrack_max": 1048576})
    assert chosen.tuning.raised_sysctls == {"net.netfilter.nf_conntrack_max": "1048576"}
    assert chosen.tuning.sysctls == {}


@pytest.mark.parametrize(
    ("held", "enough"),
    [("1048576", True), ("2097152", True), ("65530", False), ("unlimited", True), (None, False)],
    ids=["as planned", "higher", "lower", "no number", "not there"],
)
def test_a_limit_is_as_planned_where_it_is_high_enough(held, enough):
    assert reaches(held, "1048576") is enough


def test_a_limit_that_is_left_alone_says_so():
    chosen = plan(host(vm__max_map_count="1048576"), sysctls={"vm.max_map_count": 262144})
    value, reason = decided(chosen, "tuning.sysctls.vm.max_map_count")
    assert value == "1048576"
    assert reason == (
        "left as the host has it: the profile asks for 262144, and this limit is never lowered "
        "(Documentation/admin-guide/sysctl/vm.rst: memory maps of a process)"
    )


def test_a_value_without_a_direction_is_set_both_ways():
    chosen = plan(host(vm__swappiness="60"), sysctls={"vm.swappiness": 10})
    assert chosen.tuning.sysctls == {"vm.swappiness": "10"}


def test_a_limit_never_stands_in_sysctl_d_where_the_last_file_wins():
    chosen = plan(lab_node(), sysctls={"vm.max_map_count": 1048576})
    assert [file.path for file in chosen.files if file.role == "tuning"] == [
        "/etc/systemd/system/numaforge-tuning.service"
    ]


def test_a_limit_that_an_earlier_plan_raised_stays_planned():
    earlier = plan(lab_node(), sysctls={"vm.max_map_count": 2097152})
    topology = replace(host(vm__max_map_count="2097152"), previous_plan=dumps(earlier))
    assert plan(topology, sysctls={"vm.max_map_count": 1048576}).tuning.raised_sysctls == {
        "vm.max_map_count": "1048576"
    }


def test_the_source_of_a_value_stands_in_its_decision():
    wish = {"tuning": {"swap": "off"}, "sources": {"tuning.swap": "ticket 4711"}}
    _, reason = decided(plan_node(lab_node(), load_profile(wish)), "tuning.swap")
    assert reason.startswith("the profile's choice (ticket 4711): ")


@pytest.mark.parametrize("name", ready_profiles())
def test_no_ready_profile_lowers_what_systemd_sets(name):
    chosen = plan_node(host(vm__max_map_count="1048576"), load_profile(name))
    assert int(chosen.tuning.raised_sysctls.get("vm.max_map_count", "1048576")) >= 1048576
    assert "vm.max_map_count" not in chosen.tuning.sysctls
