"""Ten planted faults in a fleet of 100 snapshots: each is found, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from numaforge.cli import run
from numaforge.fleet.audit.facts import PEER_RULE
from numaforge.lib.errors import ExitCode
from tests.fixtures.fleet_snapshots import FAULTS, Fault, fleet_of, write_fleet

COUNTS = {"dgx": 60, "b200": 24, "trays": 16}
ALSO = {
    "b200-011": {"NG109"},  # a whole board has eight
    "dgx-007": {"GD201"},
    "dgx-052": {"NG501"},
}
"""What the rules about one machine say of the same fault."""


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the rules say of one sound machine of each make, accepted of all."""
    folder = tmp_path_factory.mktemp("sound")
    write_fleet(folder / "one", fleet_of(1, 1, 1, trimmed=True), {})
    run(["audit", str(folder / "one"), "--to", str(folder / "one.json"), "-q"])
    machines = [
        {
            "name": f"{each['name'].partition('-')[0]}-[001-200]",
            "findings": [{"id": finding["id"]} for finding in each["findings"]],
        }
        for each in json.loads((folder / "one.json").read_text())["machines"]
    ]
    baseline = folder / "known.json"
    baseline.write_text(json.dumps({"schema": 1, "machines": machines}))
    return baseline


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory, known: Path) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("fleet")
    write_fleet(folder, fleet_of(**COUNTS, trimmed=True), {fault.host: fault.change for fault in FAULTS})
    saved = folder.parent / f"{folder.name}.json"
    words = ["audit", str(folder), "--to", str(saved), "--baseline", str(known), "-q"]
    assert run(words) == ExitCode.NO
    return json.loads(saved.read_text())


@pytest.fixture(scope="module")
def found(audit: dict[str, Any]) -> dict[str, set[str]]:
    told = {
        each["name"]: {one["id"] for one in each["findings"] if not one["accepted"]}
        for each in audit["machines"]
    }
    return {name: ids for name, ids in told.items() if ids}


def test_every_machine_is_grouped_with_its_siblings(audit: dict[str, Any]) -> None:
    assert len(audit["machines"]) == sum(COUNTS.values())
    assert sorted(len(each["machines"]) for each in audit["makes"]) == sorted(COUNTS.values())


@pytest.mark.parametrize(
    "fault", FAULTS, ids=lambda fault: fault.change.__name__.strip("_") + "-" + fault.host
)
def test_each_fault_is_found_by_its_rules(fault: Fault, found: dict[str, set[str]]) -> None:
    assert found[fault.host] == fault.rules | ALSO.get(fault.host, set())


def test_only_the_faulty_machines_have_findings(found: dict[str, set[str]]) -> None:
    assert found.keys() == {fault.host for fault in FAULTS}


def test_differences_are_reported_with_their_siblings(audit: dict[str, Any]) -> None:
    told = {
        each["name"]: [
            (one["place"], one["value"], one["usual"], one["siblings"], one["devices"]) for one in unusual
        ]
        for each in audit["machines"]
        for finding in each["findings"]
        if finding["id"] in PEER_RULE
        for unusual in (finding["unusual"],)
    }
    assert told["dgx-031"] == [("NICs", "7 x 4096, 1 x 512", "8 x 4096", 59, ["0000:18:00.0"])]
    assert told["dgx-052"] == [("", "7 x Gen5 x16, 1 x Gen4 x8", "8 x Gen5 x16", 59, ["0000:61:00.0"])]
    assert told["dgx-041"] == [
        ("15b3:1021", "7 x 28.39.1002, 1 x 28.36.1010", "8 x 28.39.1002", 59, ["mlx5_4"])
    ]
    assert told["b200-011"] == [("", "7 x NVIDIA B200", "8 x NVIDIA B200", 23, [])]


def test_fleet_audit_fits_one_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    faults = {fault.host: fault.change for fault in FAULTS if fault.host.startswith("dgx")}
    write_fleet(tmp_path, fleet_of(60, 0, 0, trimmed=True), faults)
    assert run(["audit", str(tmp_path), "-q"]) == ExitCode.NO
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "60 machines: 54 sound, 5 with warnings, 1 with errors"
    assert lines[1].strip().startswith("dgx-[001-060]: 60 machines, NVIDIA DGXH100")
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 24
