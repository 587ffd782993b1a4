"""Kernel settings: what the host has is planned, what it lacks is named."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import Cpufreq, IdleState, NodeTopology, RdmaDevice, RdmaPort
from numaforge.planning.document import dumps
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile, ready_profiles
from numaforge.roles.expectation import Comparison, Expected
from numaforge.roles.kernel_values.dangers import danger
from numaforge.roles.kernel_values.paths import sysctl
from numaforge.roles.kernel_values.section import Tuning
from numaforge.roles.kernel_values.sysctls import CONGESTION_CONTROLS, ROWS, value_for
from tests.fixtures.machines import lab_node, transparent_hugepages, two_cpu_vm
from tests.fixtures.plans import after, decided, notices, planned, refusal

CPU = "/sys/devices/system/cpu"
KSM = "/sys/kernel/mm/ksm/run"
UNIT = "/etc/systemd/system/numaforge-tuning.service"
BALANCED = "balance_performance"
CPUS = frozenset(range(16))
QDISC = "net.core.default_qdisc"


def plan(topology: NodeTopology, **tuning) -> NodePlan:
    return planned(topology, tuning=tuning)


def pstate(driver: str = "intel_pstate") -> NodeTopology:
    governors = dict.fromkeys(CPUS, "powersave"), ("performance", "powersave")
    preferences = dict.fromkeys(CPUS, BALANCED), ("default", "performance", BALANCED)
    return replace(lab_node(), cpufreq=Cpufreq(driver, *governors, *preferences))


def host(**sysctls: str) -> NodeTopology:
    """Return the lab node with other sysctls; dots are written as two underscores."""
    named = {name.replace("__", "."): value for name, value in sysctls.items()}
    return replace(lab_node(), sysctls={**lab_node().sysctls, **named})


def written(chosen: NodePlan) -> list[str]:
    return [file.path for file in chosen.files if file.role == "tuning"]


def test_empty_profile_changes_nothing():
    chosen = plan(lab_node())
    assert not any([chosen.tuning.governors, chosen.tuning.sysctls, chosen.tuning.swap_off])
    assert not written(chosen)
    assert "no-ksm" not in notices(plan(lab_node(), ksm=False))


# What is set on each CPU, or the notice with which it is left alone.
CPUFREQ = {
    "every-cpu": (lab_node(), {"governor": "performance"}, "performance", ""),
    "no-cpufreq": (two_cpu_vm(), {"governor": "performance"}, None, "no cpufreq: governor left alone"),
    "no-such-governor": (
        pstate(),
        {"governor": "schedutil"},
        None,
        "offers performance, powersave",
    ),
    "preference": (pstate(), {"energy_preference": BALANCED}, BALANCED, ""),
    "no-energy-preference": (lab_node(), {"energy_preference": BALANCED}, None, ""),
    "no-such-energy-preference": (pstate(), {"energy_preference": "power"}, None, "not power"),
}


@pytest.mark.parametrize("rule", CPUFREQ)
def test_cpufreq_is_set_on_every_cpu_or_left_alone(rule):
    topology, wish, word, notice = CPUFREQ[rule]
    chosen = plan(topology, **wish)
    values = {**chosen.tuning.governors, **chosen.tuning.energy_preferences}
    assert values == (dict.fromkeys(CPUS, word) if word else {})
    assert word or notice in notices(chosen)[rule]


@pytest.mark.parametrize("driver", ["intel_pstate", "amd-pstate-epp"])
def test_performance_with_another_energy_preference_is_refused(driver):
    wish = {"governor": "performance", "energy_preference": BALANCED}
    assert "accepts no other energy preference" in refusal(pstate(driver), tuning=wish)


SYSCTLS = {
    "outside the snapshot is trusted": (lab_node(), "net.ipv6.conf.all.forwarding", "sysctls"),
    "of a partly captured folder is trusted": (
        host(net__ipv4__conf__all__rp_filter="1"),
        "net.ipv4.conf.all.forwarding",
        "sysctls",
    ),
    "is lowered": (host(vm__swappiness="60"), "vm.swappiness", "sysctls"),
    "a limit is compared on the host": (lab_node(), "net.netfilter.nf_conntrack_max", "raised_sysctls"),
}


@pytest.mark.parametrize(("topology", "name", "field"), SYSCTLS.values(), ids=SYSCTLS)
def test_sysctl_is_set_or_raised(topology, name, field):
    tuning = plan(topology, sysctls={name: 10}).tuning
    expected = {"sysctls": {}, "raised_sysctls": {}, field: {name: "10"}}
    assert {"sysctls": tuning.sysctls, "raised_sysctls": tuning.raised_sysctls} == expected


def test_numa_balancing_becomes_a_sysctl():
    assert plan(lab_node(), numa_balancing=False).tuning.sysctls == {"kernel.numa_balancing": "0"}


def test_missing_sysctl_is_left_alone():
    chosen = plan(lab_node(), sysctls={"vm.swapiness": 1, "vm.swappiness": 1})
    assert chosen.tuning.sysctls == {"vm.swappiness": "1"}
    message = "this kernel has no vm.swapiness: left alone; did you mean vm.swappiness?"
    assert notices(chosen)["no-such-sysctl"] == message


@pytest.mark.parametrize("wish", [{"swap": "off"}, {"sysctls": {"vm.max_map_count": 1048576}}], ids=str)
def test_swap_and_limits_write_only_the_unit(wish):
    assert written(plan(lab_node(), **wish)) == [UNIT]


def test_swap_that_stops_the_kubelet_from_starting_is_refused():
    topology = replace(lab_node(), swap_bytes=2**30)
    assert refusal(topology, tuning={"swap": "keep"}).endswith(
        "\n  set tuning.swap: off, or set failSwapOn: false in the kubelet's own file"
    )
    assert plan(topology, swap="off").tuning.swap_off
    assert "swap-on" not in notices(plan(topology, swap="off"))


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
def test_limit_is_only_raised(held, raised):
    chosen = plan(host(vm__max_map_count=held), sysctls={"vm.max_map_count": 262144})
    assert chosen.tuning.raised_sysctls == raised
    assert chosen.tuning.sysctls == {}


@pytest.mark.parametrize(
    ("held", "enough"),
    [("1048576", True), ("2097152", True), ("65530", False), ("unlimited", True), (None, False)],
    ids=["as planned", "higher", "lower", "no number", "not there"],
)
def test_limit_matches_when_at_least_as_high_as_planned(held, enough):
    assert Expected("", "", "1048576", Comparison.LEAST).holds(held) is enough


REASONS = {
    "the-limit-stays": (
        host(vm__max_map_count="1048576"),
        {"sysctls": {"vm.max_map_count": 262144}},
        "vm.max_map_count = 1048576: left as the host has it: the profile asks for 262144, and this limit is",
    ),
    "a-row-of-a-set": (
        host(fs__inotify__max_user_watches="8192"),
        {"sysctl_sets": ["training"]},
        "fs.inotify.max_user_watches = 524288 or more: each watched file takes one: the set training (NVIDIA",
    ),
    "the-profile-over-a-set": (
        host(vm__swappiness="60"),
        {"sysctl_sets": ["training"], "sysctls": {"vm.swappiness": 10}},
        "vm.swappiness = 10: the profile's choice, over 1 of the set training",
    ),
}


@pytest.mark.parametrize(("topology", "wish", "reason"), REASONS.values(), ids=REASONS)
def test_decision_about_a_sysctl_names_its_reason(topology, wish, reason):
    rows = [f"{row.subject} = {row.value}: {row.reason}" for row in plan(topology, **wish).decisions]
    assert [row for row in rows if row.startswith(f"tuning.sysctls.{reason}")], rows


def test_limit_raised_by_an_earlier_plan_stays_planned():
    earlier = plan(lab_node(), sysctls={"vm.max_map_count": 2097152})
    chosen = plan(after(host(vm__max_map_count="2097152"), earlier), sysctls={"vm.max_map_count": 1048576})
    assert chosen.tuning.raised_sysctls == {"vm.max_map_count": "1048576"}


def test_decision_names_the_source_of_its_value():
    chosen = planned(lab_node(), tuning={"swap": "off"}, sources={"tuning.swap": "ticket 4711"})
    assert decided(chosen, "tuning.swap")[1].startswith("the profile's choice (ticket 4711): ")


@pytest.mark.parametrize("name", ready_profiles())
def test_no_ready_profile_lowers_what_systemd_sets(name):
    chosen = planned(host(vm__max_map_count="1048576"), extends=name)
    assert int(chosen.tuning.raised_sysctls.get("vm.max_map_count", "1048576")) >= 1048576
    assert "vm.max_map_count" not in chosen.tuning.sysctls


# ---- sleep states, turbo, khugepaged, KSM ----


def sleeping(*states: IdleState) -> NodeTopology:
    return replace(lab_node(), idle_states=states)


C1, C1E, C6 = IdleState(1, "C1", 2, CPUS), IdleState(2, "C1E", 10, CPUS), IdleState(3, "C6", 170, CPUS)


POLL = IdleState(0, "POLL", 0, CPUS)
FIRST, SECOND = frozenset(range(8)), frozenset(range(8, 16))
ALL = (POLL, C1, C1E, C6)
KINDS = (POLL, IdleState(1, "C6", 100, FIRST), IdleState(1, "C6", 20, SECOND))
NAMES = (POLL, IdleState(1, "C1", 2, FIRST), IdleState(2, "C6", 100, FIRST), IdleState(1, "S", 9, SECOND))
IDLE = {
    "a limit is met by what equals it": (ALL, {"max_latency_us": 10}, {3: CPUS}),
    "what is slower is off": (ALL, {"max_latency_us": 9}, {2: CPUS, 3: CPUS}),
    "only polling": (ALL, {"max_latency_us": 0}, {1: CPUS, 2: CPUS, 3: CPUS}),
    "nothing is slower": (ALL, {"max_latency_us": 500}, {}),
    "by name": (ALL, {"deepest": "C1"}, {2: CPUS, 3: CPUS}),
    "CPUs of another kind by their own latency": (KINDS, {"max_latency_us": 50}, {1: FIRST}),
    "CPUs without the state are left alone": (NAMES, {"deepest": "C1"}, {2: FIRST}),
}


@pytest.mark.parametrize(("states", "wish", "off"), IDLE.values(), ids=IDLE)
def test_deeper_idle_states_are_disabled(states, wish, off):
    chosen = plan(sleeping(*states), cpu_idle=wish)
    assert {state.index: state.cpus for state in chosen.tuning.idle_states_off} == off


def test_cpus_without_the_named_idle_state_are_noticed():
    chosen = plan(sleeping(POLL, IdleState(1, "C1", 2, FIRST)), cpu_idle={"deepest": "C1"})
    assert notices(chosen)["no-such-idle-state"] == "CPUs 8-15 have no sleep state C1 (POLL, C1): left alone"


@pytest.mark.parametrize(
    ("wish", "notice"),
    [
        ({"cpu_idle": {"max_latency_us": 1}}, "no-cpu-idle"),
        ({"turbo": True}, "no-turbo"),
        ({"ksm": True}, "no-ksm"),
        ({"transparent_hugepages": {"khugepaged": {"pages_to_scan": 512}}}, "no-such-switch"),
        ({"transparent_hugepages": {"shmem_enabled": "advise"}}, "no-such-switch"),
    ],
)
def test_settings_the_kernel_lacks_are_left_alone(wish, notice):
    chosen = plan(lab_node(), **wish)
    assert notice in notices(chosen)
    assert not written(chosen)


@pytest.mark.parametrize(
    ("switch", "turbo", "value"),
    [
        ("intel_pstate/no_turbo", True, "0"),
        ("intel_pstate/no_turbo", False, "1"),
        ("cpufreq/boost", True, "1"),
        ("cpufreq/boost", False, "0"),
    ],
)
def test_turbo_uses_the_switch_of_the_driver(switch, turbo, value):
    topology = replace(lab_node(), kernel_values={f"{CPU}/{switch}": "1"})
    assert plan(topology, turbo=turbo).tuning.turbo == {switch: value}


def test_ksm_is_stopped():
    assert plan(replace(lab_node(), kernel_values={KSM: "1"}), ksm=False).tuning.ksm == "0"


def test_khugepaged_settings_are_planned():
    held = transparent_hugepages(
        enabled="always", shmem_enabled="never", khugepaged__defrag="1", khugepaged__pages_to_scan="9"
    )
    wish = {"shmem_enabled": "advise", "khugepaged": {"defrag": False, "pages_to_scan": 512}}
    chosen = plan(replace(lab_node(), kernel_values=held), transparent_hugepages=wish)
    assert chosen.tuning.transparent_hugepages == {
        "khugepaged/defrag": "0",
        "khugepaged/pages_to_scan": "512",
        "shmem_enabled": "advise",
    }
    assert decided(chosen, "tuning.transparent_hugepages.khugepaged.defrag") == ("0", "the profile's choice")


# ---- sets of sysctls ----


def rails(count: int, link_layer: str = "Ethernet", **fields) -> tuple[RdmaDevice, ...]:
    port = RdmaPort(1, link_layer, "ACTIVE", None)
    return tuple(
        RdmaDevice(f"mlx5_{number}", f"0000:{number:02}:00.0", None, None, 0, (port,), **fields)
        for number in range(count)
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row_of_a_set_has_its_source_is_harmless_and_contradicts_no_other_set(row):
    assert row.reason
    assert row.source
    assert not danger(row.name, row.value)
    assert {other.value for other in ROWS if other.name == row.name} == {row.value}


@pytest.mark.parametrize(
    ("changes", "known"),
    [
        pytest.param({}, set(), id="neither"),
        pytest.param({"loadable_modules": ("sch_fq", "tcp_bbr")}, {"bbr", "fq"}, id="as modules"),
        pytest.param({CONGESTION_CONTROLS: "reno cubic bbr"}, {"bbr"}, id="bbr in the kernel"),
        pytest.param({QDISC: "fq"}, {"fq"}, id="fq in use"),
    ],
)
def test_bbr_and_fq_are_set_if_the_kernel_has_them(changes, known):
    held = {CONGESTION_CONTROLS: "reno cubic", QDISC: "fq_codel", "net.ipv4.tcp_congestion_control": "cubic"}
    modules = changes.get("loadable_modules", ())
    sysctls = {name: changes.get(name, value) for name, value in held.items()}
    machine = replace(lab_node(), sysctls=sysctls, loadable_modules=modules)
    chosen = plan(machine, sysctl_sets=["fabric"])
    assert {"bbr", "fq"} & {*chosen.tuning.sysctls.values()} == known
    assert ("no-such-module" in notices(chosen)) is (known != {"bbr", "fq"})


@pytest.mark.parametrize(
    ("held", "planned"),
    [
        pytest.param("4096 131072 6291456", "4096 131072 268435456", id="the-host's-default-is-larger"),
        pytest.param("4096 16384 6291456", "4096 87380 268435456", id="the-host's-default-is-smaller"),
        pytest.param("8192 262144 536870912", "8192 262144 536870912", id="the-host-has-more-of-all"),
        pytest.param("4096 131072 268435456", "4096 131072 268435456", id="as-an-earlier-run-has-set-it"),
        pytest.param("unknown", "4096 87380 268435456", id="what-is-no-number-is-no-bound"),
    ],
)
def test_sysctl_set_never_lowers_socket_buffers(held, planned):
    chosen = plan(host(net__ipv4__tcp_rmem=held), sysctl_sets=["fabric"])
    assert chosen.tuning.sysctls["net.ipv4.tcp_rmem"] == planned


@pytest.mark.parametrize(
    ("devices", "known"),
    [
        pytest.param(rails(1), False, id="one rail"),
        pytest.param(rails(2), True, id="several"),
        pytest.param(rails(2, "InfiniBand"), False, id="without ARP"),
        pytest.param(
            tuple(replace(device, management=True) for device in rails(4)),
            False,
            id="NVSwitches are no rails",
        ),
    ],
)
def test_arp_is_bound_to_interfaces_on_multi_rail_machines(devices, known):
    shown = host(net__ipv4__conf__all__arp_ignore="0", net__ipv4__conf__all__arp_announce="0")
    chosen = plan(replace(shown, rdma_devices=devices), sysctl_sets=["fabric"])
    assert ("net.ipv4.conf.all.arp_ignore" in chosen.tuning.sysctls) is known


def test_sysctl_set_skips_sysctls_the_kernel_lacks():
    bare = replace(lab_node(), sysctls={"kernel.hostname": "node1"})
    chosen = plan(bare, sysctl_sets=["training"])
    assert not {*chosen.tuning.sysctls, *chosen.tuning.raised_sysctls}
    assert "no-such-sysctl" in notices(chosen)
    named = plan(bare, sysctls={"fs.inotify.max_user_watches": 1048576})
    assert "fs.inotify.max_user_watches" in named.tuning.raised_sysctls


@given(st.integers(min_value=2**20, max_value=2**44))
def test_kernel_reserve_is_at_most_one_percent_of_memory(memory):
    row = next(row for row in ROWS if row.name == "vm.min_free_kbytes")
    kbytes = int(value_for(replace(lab_node(), memory_bytes=memory), "", row))
    assert kbytes * 1024 * 100 <= max(memory, 1024 * 100)
    assert kbytes == 65536 or kbytes * 1024 * 200 > memory - 1024 * 200


REFUSED = {
    "a set twice": ({"sysctl_sets": ["training", "training"]}, "tuning.sysctl_sets"),
    "no such set": ({"sysctl_sets": ["gaming"]}, "tuning.sysctl_sets"),
    "absent and more": ({"state": "absent", "swap": "off"}, "state: absent excludes swap"),
    "a limit in hexadecimal": ({"sysctls": {"fs.file-max": "0x1"}}, "fs.file-max: '0x1' is not a limit"),
    "a negative limit": ({"sysctls": {"fs.file-max": "-1"}}, "fs.file-max: '-1' is not a limit"),
    "a limit with a letter": ({"sysctls": {"fs.file-max": "010x"}}, "fs.file-max: '010x' is not a limit"),
}


@pytest.mark.parametrize(("wish", "message"), REFUSED.values(), ids=REFUSED)
def test_impossible_tuning_is_refused(wish, message):
    assert message in refusal(lab_node(), tuning=wish)


# ---- absent ----


def test_absent_drops_the_tuning_of_the_ready_profile():
    profile = load_profile({"extends": "training", "tuning": {"state": "absent"}})
    assert profile.tuning.model_dump(exclude={"state"}) == Tuning().model_dump(exclude={"state"})
    assert not [source for source in profile.sources if source.startswith("tuning.")]
    assert [source for source in profile.sources if source.startswith("memory.")]


def test_plan_is_the_same_after_applying():
    held = {CONGESTION_CONTROLS: "reno cubic", QDISC: "fq_codel", "net.ipv4.tcp_congestion_control": "cubic"}
    before = replace(
        lab_node(),
        idle_states=(POLL, C1, C6),
        kernel_values={f"{CPU}/cpufreq/boost": "1", KSM: "1"},
        loadable_modules=("tcp_bbr", "sch_fq"),
        sysctls={**lab_node().sysctls, **held},
    )
    sets = ["training", "fabric"]
    wish = {"cpu_idle": {"deepest": "C1"}, "turbo": False, "ksm": False, "sysctl_sets": sets}
    first = plan(before, **wish)
    applied = {**first.tuning.sysctls, **first.tuning.raised_sysctls, CONGESTION_CONTROLS: "reno cubic bbr"}
    values = {f"{CPU}/cpufreq/boost": "0", KSM: "0"}
    booted = replace(before, kernel_values=values, sysctls={**before.sysctls, **applied})
    assert dumps(plan(after(booted, first), **wish)) == dumps(first)


def test_sysctl_names_cannot_leave_the_sysctl_folder():
    with pytest.raises(PlanError, match="is not a sysctl"):
        sysctl("net.//.//.sysrq-trigger")
