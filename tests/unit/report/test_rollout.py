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


def outlook(host: str, in_the_way: tuple[str, ...] = (), sentences: tuple[str, ...] = ()) -> NodeOutlook:
    """Return what a node of usual changes would do, or of these sentences alone."""
    needs = HostNeeds(host, host, True, True, sentences or SENTENCES, {}, {})
    return NodeOutlook(needs, "zone-0", 3, (), in_the_way, {} if sentences else {"cpu": ("64", "60")})


def ahead(count: int, *, verbose: bool = False) -> list[str]:
    """Return what is shown of so many nodes, of which every seventh is cordoned, and of unreachable hosts."""
    cordoned = {3: ("the node is cordoned",)}
    nodes = [outlook(host, cordoned.get(number % 7, ())) for number, host in enumerate(names(count))]
    silent = {f"off-{number}": f"off-{number}: no route to host" for number in range(count // 10)}
    return forecast(nodes, silent, verbose=verbose)


def forecast(
    nodes: list[NodeOutlook], silent: dict[str, str] | None = None, *, verbose: bool = False
) -> list[str]:
    survey = Survey(tuple(each.needs for each in nodes), (), {}, silent or {}, Path("log"))
    return lines(outlook_tables(nodes, survey, RolloutOptions(), verbose=verbose))


@pytest.mark.parametrize("count", [1, 12, 30, 300])
def test_forecast_and_situation_fit_one_screen(count):
    shown = ahead(count)
    assert len(shown) < 24
    assert shown[0].startswith(f"{count} of {count} kubelets have to restart")
    assert sum(SENTENCES[0] in line for line in shown) == 1
    shown = situation(count)
    assert len(shown) < 24
    assert any("Roll-out now: led by ann" in line for line in shown)
    assert any("gpu-001" in line and "applying" in line for line in shown)


def test_identical_lines_of_many_nodes_are_merged():
    shown = ahead(300)
    assert "In this order: gpu-001, gpu-002, gpu-003 and 297 others; 900 pods to evict." in " ".join(shown)
    assert "In the way of gpu-004, gpu-011, gpu-018 and 40 others: the node is cordoned" in shown
    assert "off-[0-29] did not answer: HOST: no route to host" in shown


def test_changes_on_200_nodes_with_128_cpus_fit_one_screen():
    moves = [f"/sys/devices/system/cpu/cpu{n}/cpufreq/scaling_governor: a -> b" for n in range(128)]
    shown = forecast([outlook(host, (), (f"{host} restarts its kubelet", *moves)) for host in names(200)])
    assert len(shown) < 24
    assert "200 hosts: gpu-[001-200]" in shown
    assert "  HOST restarts its kubelet" in shown
    assert "  cpus 0-127 scaling_governor: a -> b" in shown


def test_different_changes_on_every_node_fit_one_screen_without_omissions():
    changes = [tuple(f"{number}: {change}" for change in range(30)) for number in range(200)]
    shown = forecast([outlook(host, (), rows) for host, rows in zip(names(200), changes, strict=True)])
    assert len(shown) < 24
    assert "  and 27 more changes; --verbose names them" in shown
    assert "and 197 more groups: gpu-[004-200]" in shown


def test_every_node_is_listed_on_demand():
    forecast, status = ("\n".join(shown(300, verbose=True)) for shown in (ahead, situation))
    assert all(forecast.count(host) >= 2 and host in status for host in names(300))


def situation(count: int, *, verbose: bool = False) -> list[str]:
    """Return what is shown of so many nodes, of which a tenth is in the middle, after many roll-outs."""
    nodes, slots = [], []
    for number, host in enumerate(names(count)):
        record = None if number % 10 else Record("ann@a/1", Phase.APPLYING, False)
        nodes.append(NodeStatus(host, record, "done" if number % 10 else "", "", False, True))
        if record:
            lease = Lease(f"numaforge-slot-{len(slots)}", holder="ann@a/1", annotations={NODE: host})
            slots.append(Slot(lease))
    ended = [NamedRollout(f"old-{number}", "", {}, "") for number in range(count)]
    leads = (NamedRollout("now", "ann@a/1", {}, ""), *ended)
    return lines(situation_tables(RolloutStatus(leads, tuple(slots), tuple(nodes)), verbose=verbose))


def test_unfinished_nodes_are_shown_and_the_others_counted():
    shown = situation(300)
    assert "300 nodes: 270 done, 30 applying; --verbose names them all" in shown
    assert "the first 12 of 30 that are not over or not in service:" in shown
    assert "300 roll-outs ended; --verbose names them" in shown
    assert "30 slots are held, by gpu-001, gpu-011, gpu-021 and 27 others" in shown
