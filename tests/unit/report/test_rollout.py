"""What a roll-out would do, and what the cluster says of roll-outs: one screen, however many nodes."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from numaforge.report.rollout import outlook_tables, situation_tables
from numaforge.rollout.cluster import Lease
from numaforge.rollout.launch import HostNeeds, Survey
from numaforge.rollout.options import RolloutOptions
from numaforge.rollout.orders import NamedRollout, NodeStatus, RolloutStatus
from numaforge.rollout.outlook import NodeOutlook
from numaforge.rollout.record import Phase, Record
from numaforge.rollout.slots import NODE, Slot

SENTENCES = ("cpuManagerPolicy: none -> static", "topologyManagerPolicy: none -> best-effort")


def lines(shown: RenderableType) -> list[str]:
    console = Console(file=StringIO(), width=80)
    console.print(shown)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def names(count: int) -> list[str]:
    return [f"gpu-{number:03}" for number in range(1, count + 1)]


def outlook(host: str, in_the_way: tuple[str, ...] = ()) -> NodeOutlook:
    said = HostNeeds(host, host, True, True, SENTENCES, {}, {})
    return NodeOutlook(said, "zone-0", 3, (), in_the_way, {"cpu": ("64", "60")})


def ahead(count: int, *, verbose: bool = False) -> list[str]:
    """Return what is shown of so many nodes, of which every seventh is cordoned, and of unreachable hosts."""
    nodes = [
        outlook(host, ("the node is cordoned",) if number % 7 == 3 else ())
        for number, host in enumerate(names(count))
    ]
    silent = {f"off-{number}": f"off-{number}: no route to host" for number in range(count // 10)}
    survey = Survey(tuple(each.needs for each in nodes), (), {}, silent, Path("log"))
    return lines(outlook_tables(nodes, survey, RolloutOptions(), verbose=verbose))


@pytest.mark.parametrize("count", [1, 12, 30, 300])
def test_forecast_fits_one_screen(count):
    shown = ahead(count)
    assert len(shown) < 24
    assert shown[0].startswith(f"{count} of {count} kubelets have to restart")
    assert sum(SENTENCES[0] in line for line in shown) == 1


def test_identical_lines_of_many_nodes_are_merged():
    shown = ahead(300)
    assert "In this order: gpu-001, gpu-002, gpu-003 and 297 others; 900 pods to evict." in " ".join(shown)
    assert "In the way of gpu-004, gpu-011, gpu-018 and 40 others: the node is cordoned" in shown
    assert "off-[0-29] did not answer: HOST: no route to host" in shown


def test_changes_on_200_nodes_with_128_cpus_fit_one_screen():
    moves = [f"/sys/devices/system/cpu/cpu{n}/cpufreq/scaling_governor: a -> b" for n in range(128)]
    nodes = []
    for host in names(200):
        needs = HostNeeds(host, host, True, True, (f"{host} restarts its kubelet", *moves), {}, {})
        nodes.append(NodeOutlook(needs, "zone-0", 3, (), (), {}))
    survey = Survey(tuple(each.needs for each in nodes), (), {}, {}, Path("log"))
    shown = lines(outlook_tables(nodes, survey, RolloutOptions()))
    assert len(shown) < 24
    assert "200 hosts: gpu-[001-200]" in shown
    assert "  HOST restarts its kubelet" in shown
    assert "  cpus 0-127 scaling_governor: a -> b" in shown


def test_different_changes_on_every_node_fit_one_screen_without_omissions():
    nodes = [
        NodeOutlook(
            HostNeeds(host, host, True, True, tuple(f"{n}: {m}" for m in range(30)), {}, {}),
            "z",
            3,
            (),
            (),
            {},
        )
        for n, host in enumerate(names(200))
    ]
    survey = Survey(tuple(each.needs for each in nodes), (), {}, {}, Path("log"))
    shown = lines(outlook_tables(nodes, survey, RolloutOptions()))
    assert len(shown) < 24
    assert "  and 27 more changes; --verbose names them" in shown
    assert "and 197 more groups: gpu-[004-200]" in shown


def test_forecast_lists_every_node_on_demand():
    shown = "\n".join(ahead(300, verbose=True))
    assert all(shown.count(host) >= 2 for host in names(300))


def situation(count: int, *, verbose: bool = False) -> list[str]:
    """Return what is shown of so many nodes, of which a tenth is in the middle, after many roll-outs."""
    record = Record("ann@a/1", Phase.APPLYING, False)
    nodes = [
        NodeStatus(
            host, record if number % 10 == 0 else None, "" if number % 10 == 0 else "done", "", False, True
        )
        for number, host in enumerate(names(count))
    ]
    slots = [
        Slot(Lease(f"numaforge-slot-{number}", holder="ann@a/1", annotations={NODE: each.node}))
        for number, each in enumerate(node for node in nodes if node.record)
    ]
    leads = [
        NamedRollout("now", "ann@a/1", {}, ""),
        *(NamedRollout(f"old-{number}", "", {}, "") for number in range(count)),
    ]
    return lines(situation_tables(RolloutStatus(tuple(leads), tuple(slots), tuple(nodes)), verbose=verbose))


@pytest.mark.parametrize("count", [1, 12, 30, 300])
def test_situation_fits_one_screen(count):
    shown = situation(count)
    assert len(shown) < 24
    assert any("Roll-out now: led by ann" in line for line in shown)
    assert any("gpu-001" in line and "applying" in line for line in shown)


def test_unfinished_nodes_are_shown_and_the_others_counted():
    shown = situation(300)
    assert "300 nodes: 270 done, 30 applying; --verbose names them all" in shown
    assert "the first 12 of 30 that are not over or not in service:" in shown
    assert "300 roll-outs ended; --verbose names them" in shown
    assert "30 slots are held, by gpu-001, gpu-011, gpu-021 and 27 others" in shown


def test_situation_lists_every_node_on_demand():
    shown = "\n".join(situation(300, verbose=True))
    assert all(host in shown for host in names(300))
