"""A rack before a roll-out: what its trays would not agree in, and which hosts are not begun for that."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from numaforge.commands.rollout.preflight import refused_hosts
from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.machine.topology.trays import BY_HOST, NODE_LISTS, Tray
from numaforge.report.hostnames import disagreement_text
from numaforge.report.rollout import outlook_document, outlook_tables
from numaforge.rollout.launch import HostNeeds, Survey
from numaforge.rollout.options import RolloutOptions
from numaforge.rollout.record import node_leases
from numaforge.rollout.refusals import disagreeing
from tests.fixtures.node_records import write_record
from tests.fixtures.rollout_world import World
from tests.fixtures.tables import cases

OLD = Tray(("aaaa.1",), "branch 580", "driver", BY_HOST, "0123456789abcdef", 18)
NEW = replace(OLD, nodes="fedcba9876543210", nodes_count=17)


def tray(number: int, now: Tray | None = OLD, then: Tray | None = OLD, *, changes: bool = True) -> HostNeeds:
    """Return a host as it is in its rack, and as planned."""
    needs = HostNeeds(f"tray-{number}", f"node-{number:04}", True, changes, (), {}, {}, changes=changes)
    return replace(needs, tray=now, tray_planned=then)


def survey_of(*needs: HostNeeds, **refused: str) -> Survey:
    return Survey(needs, (), refused, {}, Path("log"))


def refused(*needs: HostNeeds, world: World | None = None) -> dict[str, str]:
    world = world or World(nodes=6)
    nodes = {node.name: node for node in world.cluster.nodes()}
    return refused_hosts(
        world.cluster, RolloutOptions(), nodes, node_leases(world.cluster.leases()), survey_of(*needs)
    )


def shown(parts: RenderableType) -> str:
    console = Console(file=StringIO(), width=500)
    console.print(parts)
    return console.file.getvalue()  # type: ignore[attr-defined]


ELSEWHERE = replace(tray(5), tray=None, tray_planned=None)


@cases(
    "needs, hosts",
    {
        "one-list": ([tray(0), tray(1)], []),
        "one-new-list-for-all": ([tray(0, OLD, NEW), tray(1, OLD, NEW)], []),
        "a-run-that-mends-the-rack": ([tray(0, NEW, OLD), tray(1)], []),
        "a-new-list-for-one-alone": ([tray(0, OLD, NEW), tray(1)], ["tray-0", "tray-1"]),
        "a-tray-that-stays-is-not-refused": ([tray(0, OLD, NEW), tray(1, changes=False)], ["tray-0"]),
        "lists-that-differ-already": ([tray(0, NEW, NEW), tray(1)], ["tray-0", "tray-1"]),
        "a-tray-that-is-refused-keeps-its-list": (
            [tray(0, OLD, NEW), tray(1, OLD, NEW), replace(tray(2, OLD, NEW), node="none")],
            ["tray-0", "tray-1", "tray-2"],
        ),
        "a-tray-whose-rack-is-not-known": ([tray(0, OLD, NEW), tray(1, None, None)], []),
        "another-mode-is-no-refusal": ([tray(0), tray(1, OLD, replace(OLD, memory_mode="numa"))], []),
    },
)
def test_rack_with_several_imex_node_lists_is_refused(needs: list[HostNeeds], hosts: list[str]) -> None:
    assert sorted(refused(*needs, ELSEWHERE)) == hosts


def test_reason_groups_hosts_and_names_the_remedy() -> None:
    found = refused(tray(0), tray(1), tray(2, OLD, NEW), ELSEWHERE)
    assert found["tray-0"] == (
        "the trays of NVLink clique aaaa.1 do not agree on the list of IMEX nodes: 01234567 (18 nodes) on "
        "2 trays, tray-[0-1]; fedcba98 (17 nodes) on 1 tray, tray-2: give every tray of the clique the same "
        "imex.nodes, in the profile of the inventory's group of the clique"
    )


def test_command_ends_early_when_every_host_is_refused() -> None:
    with pytest.raises(NumaforgeError, match=r"nothing was begun:\ntray-\[0-1\]: the trays of") as ended:
        refused(tray(0, OLD, NEW), tray(1))
    assert ended.value.exit_code is ExitCode.BAD_INPUT


def test_unfinished_node_is_finished_despite_rack_disagreement() -> None:
    world = World(nodes=6)
    write_record(world.cluster, world.node)
    assert sorted(refused(tray(0, OLD, NEW), tray(1), ELSEWHERE, world=world)) == ["tray-1"]


def test_plan_names_settings_on_which_trays_disagree() -> None:
    other = replace(OLD, memory_mode="numa")
    survey = survey_of(tray(0), tray(1, OLD, other))
    racks = disagreeing(survey)
    document = outlook_document([], survey, racks=racks)
    assert document["racks"] == [
        {
            "rack": "NVLink domain aaaa",
            "what": "mode of the GPUs' memory",
            "groups": [{"value": "driver", "hosts": ["tray-0"]}, {"value": "numa", "hosts": ["tray-1"]}],
        }
    ]
    text = shown(outlook_tables([], survey, RolloutOptions(), racks=racks))
    assert disagreement_text(racks[0]) in text


def test_disagreeing_lists_that_refuse_hosts_are_reported_once() -> None:
    survey = survey_of(tray(0), tray(1, OLD, NEW))
    racks = disagreeing(survey)
    why = disagreement_text(racks[0])
    refused = dict.fromkeys(racks[0].hosts, why)
    text = shown(outlook_tables([], survey, RolloutOptions(), (), refused, racks=racks))
    assert [each.what for each in racks] == [NODE_LISTS]
    assert text.count("do not agree") == 1
