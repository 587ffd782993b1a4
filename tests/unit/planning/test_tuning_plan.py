"""Kernel settings: what the host has is planned, what it lacks is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from numaforge.errors import PlanError
from numaforge.planning.model import NodePlan
from numaforge.planning.node import plan_node
from numaforge.profile import load_profile
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
    chosen = plan(lab_node(), sysctls={"net.netfilter.nf_conntrack_max": 1048576})
    assert chosen.tuning.sysctls == {"net.netfilter.nf_conntrack_max": "1048576"}


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
