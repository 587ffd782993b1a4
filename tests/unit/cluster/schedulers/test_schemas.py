"""What is written for each system fits the schema that the system publishes, where it is to be had here."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from numaforge.cluster.schedulers.fleet import ServedNode
from numaforge.cluster.schedulers.systems import SYSTEMS, generate
from tests.fixtures.crd_schemas import SCHEMAS, WITHOUT_SCHEMA, definitions, strict
from tests.unit.cluster.schedulers.served import fleet_for, served

BUILT_IN = ("batch/", "scheduling.k8s.io/")
KINDS = ("Node", "Job")
"""What the API server itself knows; the others are the systems' own."""
FLEETS = {
    "an H100 machine": ("dgx-h100",),
    "one whose GPUs are cut": ("dgx-h100-mig",),
    "eight NUMA nodes": ("epyc-nps4",),
    "no GPUs": ("small-vm",),
    "a rack": ("gb200",),
    "machines of several kinds": ("hgx-b200", "mi300x", "epyc-gpu"),
}


@cache
def schemas() -> Mapping[tuple[str, str], Mapping[str, Any]]:
    """Return the schema of each object, by API version and kind."""
    found = {}
    for definition in definitions():
        spec = definition["spec"]
        for version in spec["versions"]:
            key = f"{spec['group']}/{version['name']}", spec["names"]["kind"]
            found[key] = strict(version["schema"]["openAPIV3Schema"])
    return found


def complaints(document: Mapping[str, Any]) -> Iterator[str]:
    schema = schemas()[document["apiVersion"], document["kind"]]
    for error in Draft202012Validator(schema).iter_errors({**document, "metadata": {}}):
        yield f"{document['kind']} {error.json_path}: {error.message}"


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("fleet", FLEETS)
def test_every_object_matches_the_schema_of_its_system(system: str, fleet: str) -> None:
    if not SCHEMAS.is_dir():
        pytest.skip("the systems' schemas are not here")
    require_fit(*(served(name) for name in FLEETS[fleet]), system=system)


def require_fit(*nodes: ServedNode, system: str) -> None:
    """Hold what a system is told of some nodes to its schema."""
    [folder] = generate(nodes, [system])
    for file in folder.files:
        for document in file.documents:
            key = document["apiVersion"], document["kind"]
            if "." in key[0] and not key[0].startswith(BUILT_IN) and key not in WITHOUT_SCHEMA:
                assert [*complaints(document)] == []


@pytest.mark.parametrize("system", ["network-operator", "gpu-operator"])
def test_values_for_plans_that_delegate_to_an_operator_fit_its_schema(system: str) -> None:
    if not SCHEMAS.is_dir():
        pytest.skip("the systems' schemas are not here")
    require_fit(*fleet_for(system), system=system)
    [folder] = generate(fleet_for(system), [system])
    required = {"operator", "daemonsets", "driver", "toolkit", "devicePlugin", "gfd", "dcgm", "dcgmExporter"}
    for document in folder.compared():
        if document["kind"] == "ClusterPolicy":
            others: dict[str, Any] = {name: {} for name in (*required, "nodeStatusExporter")}
            assert [*complaints({**document, "spec": {**others, **document["spec"]}})] == []


WRONG: dict[str, tuple[str, str, list[Any], Any]] = {
    "a field that there is not": ("volcano", "HyperNode", ["spec", "teir"], 1),
    "a number for a text": (
        "noderesourcetopology",
        "NodeResourceTopology",
        ["zones", 0, "resources", 0, "capacity"],
        [],
    ),
    "no pod in a gang": ("coscheduling", "PodGroup", ["spec", "minMember"], 0),
}


@pytest.mark.parametrize("fault", WRONG)
def test_schema_refuses_invalid_objects(fault: str) -> None:
    if not SCHEMAS.is_dir():
        pytest.skip("the systems' schemas are not here")
    system, kind, path, value = WRONG[fault]
    [folder] = generate([served("gb200" if system == "volcano" else "dgx-h100")], [system])
    text = next(text for _, text in folder.texts() if f"kind: {kind}\n" in text)
    document = next(each for each in yaml.safe_load_all(text) if each["kind"] == kind)
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert [*complaints(document)] != []
