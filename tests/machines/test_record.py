"""How a snapshot that was dropped in becomes a test, and how lstopo's answers are read."""

import json
from pathlib import Path

import pytest

from tests.machines import files
from tests.machines.files import MachineFile
from tests.machines.lstopo import read_lstopo
from tests.machines.record import main

SMALLEST = "opteron-2p-2n"

LSTOPO = Path(__file__).parents[1] / "fixtures/lstopo"
TEXT, XML = ((LSTOPO / name).read_text(encoding="utf-8") for name in ("machine.txt", "machine.xml"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            TEXT,
            {
                "packages": "0-2",
                "cores": "0,2 1",
                "numa_nodes": {
                    "0": {"cpus": "0,2", "memory_bytes": 2 << 30},
                    "1": {"cpus": "0-2", "memory_bytes": 1 << 30},
                },
                "last_level_caches": "0-2",
            },
            id="text: memory has the CPUs that it is attached to, the summary is not read",
        ),
        pytest.param(
            XML,
            {
                "packages": "0,32-33",
                "cores": "0,32-33",
                "numa_nodes": {"4": {"cpus": "0,32-33", "memory_bytes": 4096}},
                "last_level_caches": "0,32-33",
            },
            id="xml: masks have 32 bits a word, instruction caches do not count",
        ),
    ],
)
def test_lstopo_reports_packages_cores_numa_nodes_and_caches(text, told):
    assert read_lstopo(text) == told


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Give an empty folder of machines with a README."""
    monkeypatch.setattr(files, "FOLDER", tmp_path)
    monkeypatch.setattr(files, "README", tmp_path / "README.md")
    files.README.write_text(f"# Machines\n{files.BEGIN}{files.END}end\n")
    return tmp_path


@pytest.fixture
def dropped(folder):
    """Drop a snapshot in, as `numaforge capture` wrote it."""
    file = folder / "report.json"
    file.write_text(MachineFile(Path(__file__).parent / f"{SMALLEST}.json.xz").snapshot().to_json())
    return file


def test_dropped_snapshot_is_recorded_and_listed(folder, dropped):
    assert main([str(dropped), "--machine", "Two CPUs", "--origin", "a report"]) == 0
    (file,) = files.machine_files()
    assert file.name == "report"
    assert file.snapshot_file.name == "report.json.xz"
    assert file.expected()["topology"]["cores"] == "0 1"
    assert "| `report` | Two CPUs | real | a report | Apache-2.0 |\n" in files.README.read_text()
    assert not dropped.exists()


def test_recording_requires_machine_and_origin(dropped):
    with pytest.raises(SystemExit, match="say what this machine is: --machine and --origin"):
        main([str(dropped)])


def test_lstopo_value_is_expected_and_ours_recorded_as_difference(folder, dropped):
    lstopo = folder / "lstopo.txt"
    lstopo.write_text(TEXT)
    main([str(dropped), "--machine", "Two CPUs", "--origin", "a report", "--lstopo", str(lstopo)])
    expected = json.loads((folder / "report.expected.json").read_text())
    assert expected["topology"]["cores"] == "0,2 1"
    assert expected["differs"]["topology.cores"] == {"ours": "0 1", "why": ""}


def test_recording_a_machine_again_keeps_the_reasons(folder, dropped):
    test_lstopo_value_is_expected_and_ours_recorded_as_difference(folder, dropped)
    expected_file = folder / "report.expected.json"
    expected = json.loads(expected_file.read_text())
    expected["differs"]["topology.cores"]["why"] = "it is another machine"
    expected_file.write_text(json.dumps(expected))
    main([str(folder / "report.json.xz")])
    assert json.loads(expected_file.read_text()) == expected
