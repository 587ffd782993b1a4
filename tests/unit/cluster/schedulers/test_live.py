"""Live objects held to plans: each field that is altered is found, and no other."""

import copy
import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from numaforge.cluster.schedulers.live import Deviation, deviations
from numaforge.cluster.schedulers.systems import SYSTEMS, generate
from tests.unit.cluster.schedulers.served import fleet_for

Path = tuple[str | int, ...]
EXAMPLES = ("coscheduling", "gangs")


@cache
def planned(system: str) -> tuple[Mapping[str, Any], ...]:
    """Return what a cluster is held to for a system, of nodes of which it is told something."""
    [folder] = generate(fleet_for(system), [system])
    return folder.compared()


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(each, (*path, key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from leaves(each, (*path, number))
    else:
        yield path


def of_interest(path: Path) -> bool:
    """Say whether a leaf is compared: the names of entries and objects tell them apart."""
    if path[0] in ("apiVersion", "kind") or path[:2] in (("metadata", "name"), ("metadata", "namespace")):
        return False
    return path[-1] not in ("name", "nodeLabel", "key")


def at(document: Any, path: Path) -> Any:
    for key in path:
        document = document[key]
    return document


def altered(document: Mapping[str, Any], path: Path, value: Any) -> dict[str, Any]:
    live = copy.deepcopy(dict(document))
    at(live, path[:-1])[path[-1]] = value
    return live


@pytest.mark.parametrize("system", [name for name in SYSTEMS if name not in EXAMPLES])
def test_exactly_the_altered_fields_are_found(system: str) -> None:
    tried = 0
    for document in planned(system):
        for path in [each for each in leaves(document) if of_interest(each)][:400]:
            now = at(document, path)
            other = {str: "altered", bool: not now}.get(type(now), 987654321)
            [one] = deviations(document, altered(document, path, other))
            assert json.dumps(other) in json.dumps(one.found), (
                one
            )  # of a list without names it is the whole list
            assert (one.kind, one.name) == (document["kind"], document["metadata"]["name"])
            tried += 1
    assert tried > 1


@pytest.mark.parametrize("system", [name for name in SYSTEMS if name not in EXAMPLES])
def test_object_as_planned_does_not_deviate(system: str) -> None:
    for document in planned(system):
        live = {**copy.deepcopy(dict(document)), "status": {"ready": True}}
        live["metadata"]["labels"] = {**live["metadata"].get("labels", {}), "others": "1"}
        assert [*deviations(document, live)] == []


TOPOLOGY = "noderesourcetopology"
FIRST = ("zones", 0, "resources", 0)
SAME: dict[str, tuple[str, Path, Any]] = {
    "CPUs in thousandths": (TOPOLOGY, (*FIRST, "capacity"), "48000m"),
    "pods have taken some": (TOPOLOGY, (*FIRST, "available"), "3"),
    "a cpulist in other words": (
        "volcano",
        ("spec", "numares", "cpu", "allocatable"),
        None,
    ),
    "JSON with other blanks": (
        "koordinator",
        ("metadata", "annotations", "node.koordinator.sh/reservation"),
        None,
    ),
}


def written_otherwise(system: str, now: Any) -> Any:
    if system == "volcano":
        from numaforge.lib.cpulist import parse_cpulist

        return ",".join(map(str, sorted(parse_cpulist(now))))
    return json.dumps(json.loads(now), indent=1)


@pytest.mark.parametrize("case", SAME)
def test_equivalent_value_does_not_deviate(case: str) -> None:
    system, path, value = SAME[case]
    document = next(each for each in planned(system) if each["metadata"]["name"] == "epyc-01")
    value = written_otherwise(system, at(document, path)) if value is None else value
    assert at(document, path) != value
    assert [*deviations(document, altered(document, path, value))] == []


def topology() -> Mapping[str, Any]:
    return planned(TOPOLOGY)[0]


def test_zone_order_is_ignored_but_an_extra_zone_deviates() -> None:
    live = copy.deepcopy(dict(topology()))
    live["zones"] = [*reversed(live["zones"])]
    assert [*deviations(topology(), live)] == []
    live["zones"].append({**live["zones"][0], "name": "node-9"})
    [one] = deviations(topology(), live)
    assert str(one).startswith("NodeResourceTopology epyc-01: zones[node-9] is {")
    assert "which no plan has" in str(one)


def test_excess_of_a_resource_is_never_free() -> None:
    live = altered(topology(), (*FIRST, "available"), "1000")
    [one] = deviations(topology(), live)
    assert (one.planned, one.found) == ("44", "1000") or int(str(one.planned)) < 1000


def test_missing_object_is_one_deviation() -> None:
    [one] = deviations(topology(), None)
    assert str(one) == "NodeResourceTopology epyc-01 is missing"


WRITTEN = [
    {
        "manager": "numaforge",
        "time": "2026-11-26T01:00:00Z",
        "fieldsV1": {"f:zones": {}, "f:attributes": {}},
    },
    {
        "manager": "koordlet",
        "time": "2026-11-26T02:00:00Z",
        "fieldsV1": {"f:zones": {}, "f:metadata": {"f:labels": {"f:app.kubernetes.io/managed-by": {}}}},
    },
    {"manager": "kubectl-edit", "time": "2026-11-26T00:00:00Z", "fieldsV1": {"f:metadata": {}}},
]
WRITERS: dict[str, tuple[Path, str]] = {
    "the latest of those who own the list": ((*FIRST, "capacity"), "koordlet"),
    "the one who owns it": (("attributes", 0, "value"), "numaforge"),
    "the one who owns the label itself": (
        ("metadata", "labels", "app.kubernetes.io/managed-by"),
        "koordlet",
    ),
    "no one who is known": (("topologyPolicies", 0), "an unknown writer"),
}


@pytest.mark.parametrize("case", WRITERS)
def test_writer_of_a_deviation_is_the_owner_of_its_field(case: str) -> None:
    path, writer = WRITERS[case]
    live = altered(topology(), path, "altered")
    live["metadata"]["managedFields"] = WRITTEN
    [one] = deviations(topology(), live)
    assert one.writer == writer


def test_deviation_reads_as_a_sentence() -> None:
    one = Deviation("HyperNode", "nvl-1", "spec.tier", 1, 2, "volcano")
    assert str(one) == "HyperNode nvl-1: spec.tier is 2, and planned 1 (written by volcano)"
