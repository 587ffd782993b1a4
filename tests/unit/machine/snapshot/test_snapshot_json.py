"""Saved snapshots: what is written is read back, and everything else is refused in one sentence."""

import json

import pytest

from numaforge.lib.errors import SnapshotError
from numaforge.machine.snapshot.model import Snapshot
from tests.fixtures.tables import cases
from tests.fixtures.trees import snapshot_of


@pytest.fixture
def snapshot():
    return snapshot_of("lab-node")


def test_saved_snapshot_loads_unchanged(snapshot, tmp_path):
    file = tmp_path / "node.json"
    file.write_text(snapshot.to_json())
    assert Snapshot.load(file) == snapshot


def test_truncated_file_is_refused_by_name(snapshot, tmp_path):
    file = tmp_path / "node.json"
    file.write_text(snapshot.to_json()[:-100])
    with pytest.raises(SnapshotError, match="not a complete JSON document") as refused:
        Snapshot.load(file)
    assert str(refused.value).startswith(f"{file}: ")
    assert "numaforge capture" in str(refused.value)


def without(key):
    return lambda document: document.pop(key)


@cases(
    "change, message",
    {
        "foreign-json": (without("kind"), "not a numaforge snapshot"),
        "another-schema": (lambda d: d.update(schema=7), "a newer numaforge wrote"),
        "without-files": (without("files"), "files is not a mapping of texts"),
        "links-of-another-type": (lambda d: d.update(links=[]), "links is not a mapping"),
        "a-number": (lambda d: d["files"].update(a=1), "files: a: 1 is not a text"),
    },
)
def test_malformed_snapshot_document_is_refused(snapshot, change, message):
    document = json.loads(snapshot.to_json())
    change(document)
    with pytest.raises(SnapshotError, match=message):
        Snapshot.from_json(json.dumps(document))


def test_json_list_is_not_a_snapshot():
    with pytest.raises(SnapshotError, match="not a numaforge snapshot"):
        Snapshot.from_json("[]")


def test_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(SnapshotError, match=r"nowhere\.json: cannot be read"):
        Snapshot.load(tmp_path / "nowhere.json")
