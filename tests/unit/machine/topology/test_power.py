"""Sleep states and turbo, as the kernel shows them."""

import pytest

from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.model import IdleState
from numaforge.machine.topology.read import read_topology

CPU = "/sys/devices/system/cpu"


def files(**more: str) -> dict[str, str]:
    return {
        f"{CPU}/online": "0-1",
        f"{CPU}/present": "0-2",
        "/proc/sys/kernel/osrelease": "6.8.0-31-generic",
        **more,
    }


def state(cpu: int, index: int, name: str, latency: int) -> dict[str, str]:
    folder = f"{CPU}/cpu{cpu}/cpuidle/state{index}"
    return {f"{folder}/name": name, f"{folder}/latency": str(latency)}


def test_cpus_with_the_same_idle_state_are_grouped_without_offline_cpus():
    held = files(**state(0, 0, "POLL", 0), **state(1, 0, "POLL", 0), **state(2, 0, "POLL", 0))
    assert read_topology(Snapshot(held)).idle_states == (IdleState(0, "POLL", 0, frozenset({0, 1})),)


def test_cpus_of_different_types_have_separate_idle_states():
    held = files(**state(0, 1, "C6", 170), **state(1, 1, "C6", 20))
    assert read_topology(Snapshot(held)).idle_states == (
        IdleState(1, "C6", 20, frozenset({1})),
        IdleState(1, "C6", 170, frozenset({0})),
    )


def test_idle_states_are_unknown_where_the_kernel_lists_none():
    assert read_topology(Snapshot(files())).idle_states is None


@pytest.mark.parametrize(
    ("text", "cpus"), [("(null)", frozenset()), ("", frozenset()), ("2-3", frozenset({2, 3})), (None, None)]
)
def test_tickless_cpus_are_read(text: str | None, cpus: frozenset[int] | None):
    held = files() if text is None else files(**{f"{CPU}/nohz_full": text})
    assert read_topology(Snapshot(held)).nohz_full == cpus


def test_cpu_vendor_is_read():
    held = files(**{"/proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: X\n"})
    assert read_topology(Snapshot(held)).cpu_vendor == "GenuineIntel"


def test_loadable_modules_are_those_of_the_running_kernel():
    said = (
        "/lib/modules/6.8.0-31-generic/kernel/net/ipv4/tcp_bbr.ko.zst"
        " /lib/modules/6.5.0-1-generic/kernel/net/sched/sch_fq.ko"
    )
    assert read_topology(Snapshot(files(), commands={"present": said})).loadable_modules == ("tcp_bbr",)
