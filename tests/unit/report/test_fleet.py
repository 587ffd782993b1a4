"""What a run shows of a fleet: names folded, values by kind, hosts that are alike together."""

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.lib.file_content import FileContent
from numaforge.node.bundle import FileChange, FileState
from numaforge.report.fleet import HostSummary, condensed, diff_lines, fleet_document, fleet_lines
from numaforge.report.hostnames import folded
from numaforge.report.terminal import Screen

NAMES = {
    "one": (["gpu-01"], "gpu-01"),
    "a run": (["gpu-01", "gpu-02", "gpu-03"], "gpu-[01-03]"),
    "a hole": (["gpu-1", "gpu-2", "gpu-4"], "gpu-[1-2,4]"),
    "zeros across tens": ([f"gpu-{n:02}" for n in range(8, 12)], "gpu-[08-11]"),
    "no zeros across tens": ([f"gpu-{n}" for n in range(8, 12)], "gpu-[8-11]"),
    "from zero": ([f"gpu-{n}" for n in range(12)], "gpu-[0-11]"),
    "the last number": (["rack3-gpu-7.site", "rack3-gpu-8.site"], "rack3-gpu-[7-8].site"),
    "of the first label": (
        ["ip-10-0-1-5.us-east-2.x", "ip-10-0-1-6.us-east-2.x"],
        "ip-10-0-1-[5-6].us-east-2.x",
    ),
    "of all labels else": (["a.rack1", "a.rack2"], "a.rack[1-2]"),
    "of an address": (["10.0.0.1", "10.0.0.2"], "10.0.0.[1-2]"),
    "others": (["login", "gpu-1", "gpu-2"], "gpu-[1-2],login"),
    "no number": (["a", "b"], "a,b"),
    "with and without one": (["gpu", "gpu1", "gpu2"], "gpu,gpu[1-2]"),
}


@pytest.mark.parametrize(("names", "text"), NAMES.values(), ids=NAMES)
def test_host_names_are_folded(names, text):
    assert folded(names) == text


@given(st.sets(st.integers(0, 300), min_size=1), st.integers(1, 4))
def test_folding_loses_no_host(numbers, width):
    names = {f"gpu-{number:0{width}}" for number in numbers}
    unfolded = set()
    for group in folded(names).replace("],", "]|").replace(",gpu", "|gpu").split("|"):
        for part in group.removeprefix("gpu-").strip("[]").split(","):
            first, _, last = part.partition("-")
            unfolded |= {f"gpu-{n:0{len(first)}}" for n in range(int(first), int(last or first) + 1)}
    assert unfolded == names


CPU = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor: {}"
GOVERNOR = "cpus {} scaling_governor: {}"
POOL = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages: 0 -> 16"
IDLE = "/sys/devices/system/cpu/cpu{}/cpuidle/state2/disable: 0 -> 1"
CHOICES = "/sys/kernel/mm/ksm: always defer defer+madvise [madvise] never -> defer+madvise"
VALUES = {
    "every CPU alike": (
        [CPU.format(cpu, "schedutil -> performance") for cpu in range(128)],
        [GOVERNOR.format("0-127", "schedutil -> performance")],
    ),
    "one CPU apart": (
        [CPU.format(0, "a -> b"), CPU.format(1, "c -> b"), CPU.format(2, "a -> b")],
        [GOVERNOR.format("0,2", "a -> b"), GOVERNOR.format(1, "c -> b")],
    ),
    "sleep states": ([IDLE.format(4), IDLE.format(5)], ["cpus 4-5 state2/disable: 0 -> 1"]),
    "pools": ([POOL.format(0), POOL.format(1)], ["NUMA nodes 0-1 hugepages-2048kB: 0 -> 16"]),
    "a kernel's choices": ([CHOICES], ["/sys/kernel/mm/ksm: madvise -> defer+madvise"]),
    "a sysctl": (["/proc/sys/vm/swappiness: 60 -> 1"], ["vm.swappiness: 60 -> 1"]),
    "anything else": (["module ib_umad: loaded"], ["module ib_umad: loaded"]),
}


@pytest.mark.parametrize(("moves", "lines"), VALUES.values(), ids=VALUES)
def test_values_of_a_kind_share_a_line(moves, lines):
    assert condensed(moves) == lines


NEW = FileChange("/etc/a", None, FileContent("/etc/a", "one\n"))


def change(host: str, **more: object) -> HostSummary:
    return HostSummary(host, "to change", drains=True, changed=(NEW,), **more)  # type: ignore[arg-type]


def shown(*hosts: HostSummary, width: int = 80) -> list[str]:
    return [click.unstyle(line) for line in fleet_lines(hosts, Screen(width))]


def test_hosts_with_the_same_outcome_are_one_group():
    alike = (change(f"gpu-{n}", sentences=(f"gpu-{n} restarts",)) for n in range(1, 32))
    lines = shown(*alike, HostSummary("gpu-40", "unchanged"))
    assert lines[0] == "32 hosts: 1 unchanged, 31 to change (31 drained)"
    assert lines[1] == "31 hosts to change: gpu-[1-31]"
    assert lines.count("  drains: pods leave the node first") == 1


APART = {
    "another sentence": {"sentences": ("the kubelet restarts",)},
    "another value": {"moves": ("a: 1 -> 2",)},
    "a boot": {"reboots": True},
    "another notice": {"notices": (("uneven-smt", "uneven"),)},
    "something left for later": {"pending": ("pending: a reboot",)},
}


@pytest.mark.parametrize("more", APART.values(), ids=APART)
def test_different_hosts_are_separate_groups(more):
    assert "1 host to change: b" in shown(change("a"), change("b", **more))


def test_unreachable_hosts_are_grouped_by_reason_not_address():
    reason = "Unable to connect to port 22 on 10.0.0.{}"
    away = [HostSummary(f"gpu-{n}", "unreachable", reason.format(n)) for n in (1, 2)]
    assert "2 hosts unreachable: gpu-[1-2]" in shown(*away)


def test_nothing_is_left_out_for_identical_hosts():
    moves = tuple(f"value{n}: before -> after" for n in range(40))
    lines = shown(change("a", moves=moves, notices=(("odd", "a sentence that is long " * 9),)), width=60)
    assert "  value39  before -> after" in lines
    assert not [line for line in lines if line.endswith("…")]


def test_values_are_shown_as_table_rows():
    moves = ("/proc/sys/vm/swappiness: 60 -> 0", "swap: on -> off", "/sys/a: always [madvise] never -> never")
    lines = shown(change("a", moves=moves))
    assert [line for line in lines if "->" in line] == [
        "  vm.swappiness  60 -> 0",
        "  swap           on -> off",
        "  /sys/a         madvise -> never",
    ]


def test_changes_are_one_line_after_a_run():
    moves = ("/proc/sys/vm/swappiness: 60 -> 0", "swap: on -> off")
    sentences = ("the kubelet restarts, for cpuManagerPolicy",)
    lines = shown(HostSummary("a", "changed", moves=moves, changed=(NEW,), sentences=sentences, seconds=3.0))
    assert lines[1:] == [
        "1 host changed: a (3 s)",
        "  2 values, 1 file new; the kubelet restarts, for cpuManagerPolicy",
    ]


def test_several_groups_count_the_values_not_shown():
    moves = tuple(f"value{n}: before -> after" for n in range(8))
    assert "  and 6 more values" in shown(change("a", moves=moves), change("b"))


def test_gravest_groups_come_first_with_the_full_reason():
    refused, failed = HostSummary("b", "refused", "bad\n  mend it"), HostSummary("c", "failed", "rolled back")
    lines = shown(change("a"), refused, failed)
    assert lines[1:5] == ["1 host failed: c", "  rolled back", "1 host refused: b", "  bad"]


@given(st.integers(20, 200), st.text(alphabet="ab /\n\x1b", max_size=300))
def test_only_single_long_words_exceed_the_screen(width, reason):
    for line in shown(HostSummary("a", "failed", reason), width=width):
        assert len(line) <= width or len(line.split()) == 1
        assert "\x1b" not in line


def test_fleet_of_different_hosts_stays_one_screen():
    lines = shown(*(change(f"gpu-{n}", moves=(f"a: 1 -> {n}",)) for n in range(300)))
    assert len(lines) <= 60
    assert lines[-1].endswith("gpu-[12-299]")


def test_identical_diff_is_shown_once():
    other = FileChange("/etc/a", FileState("two\n", "0644", "root", "root"), NEW.new)
    hosts = [change("a"), change("b"), HostSummary("c", "to change", changed=(other,))]
    lines = [click.unstyle(line) for line in diff_lines(hosts, {"all"})]
    assert [line for line in lines if line.endswith(": /etc/a")] == ["a,b: /etc/a", "c: /etc/a"]
    assert diff_lines(hosts, {"c"})[1:2] == [click.style("c: /etc/a", bold=True)]


def test_document_has_every_host_in_full():
    document = fleet_document([change("a", moves=("x: 1 -> 2",))], dry=True, seconds=1.25)
    assert (document["dry"], document["counts"]) == (True, {"to change": 1})
    assert document["hosts"]["a"]["values"] == ["x: 1 -> 2"]
    assert document["hosts"]["a"]["files"] == {"new": ["/etc/a"]}


def test_two_maintenances_of_a_host_are_merged():
    first = HostSummary("a", "changed", drains=True, sentences=("one",), changed=(NEW,))
    second = HostSummary("a", "unchanged", pending=("later",))
    both = second.merged(first)
    assert (both.state, both.drains, both.sentences, both.pending) == ("changed", True, ("one",), ("later",))
    assert change("a").merged(first).state == "to change"
