"""What a node was planned on: what has changed in words, another machine, and what is kept."""

import json
from pathlib import Path

import pytest

from numaforge.image.first_boot.stamp import (
    FAILED,
    PROGRAM,
    TRIAL,
    WHY,
    BootRecord,
    Inputs,
    accept,
    note_confirmed,
    reject,
    stamp,
)
from numaforge.lib.errors import NumaforgeError

WAS = Inputs(
    "machine-id 0123\nsystem-uuid 1-2-3\nkernel 6.1.0\nmemory-of-NUMA-node-1 8388608 kB\n"
    "PCI-function-0000:17:00.0 10de:2330\n"
)
RECORD = BootRecord(profile="own", named_by="a test", plan="1a2b", at="2026-01-01T00:00:00Z", version="1")

DIFFERENCES = {
    "nothing": ("", "", ()),
    "less memory": ("8388608 kB", "4194304 kB", ("memory-of-NUMA-node-1 was 8388608 kB, and is 4194304 kB",)),
    "a GPU less": (
        "PCI-function-0000:17:00.0 10de:2330\n",
        "",
        ("PCI-function-0000:17:00.0 is gone: 10de:2330",),
    ),
    "a driver more": (
        "kernel 6.1.0\n",
        "kernel 6.1.0\ndriver-nvidia 615.1\n",
        ("driver-nvidia is new: 615.1",),
    ),
    "two things, those that were there first": (
        "kernel 6.1.0\n",
        "driver-nvidia 615.1\nkernel 6.12.0\n",
        ("kernel was 6.1.0, and is 6.12.0", "driver-nvidia is new: 615.1"),
    ),
    "a text with spaces": (
        "kernel 6.1.0",
        "kernel 6.1.0 with more",
        ("kernel was 6.1.0, and is 6.1.0 with more",),
    ),
}


@pytest.mark.parametrize(("old", "new", "expected"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_each_changed_input_is_described(old, new, expected):
    assert Inputs(WAS.text.replace(old, new) if old else WAS.text).differences(WAS) == expected


def test_order_of_inputs_makes_no_difference():
    assert Inputs("".join(reversed(WAS.text.splitlines(keepends=True)))).differences(WAS) == ()


@pytest.mark.parametrize(
    ("old", "new", "other", "hardware"),
    [
        ("0123", "4567", True, False),
        ("1-2-3", "3-2-1", True, True),
        ("system-uuid 1-2-3\n", "", True, False),
        ("6.1.0", "6.12.0", False, False),
        ("10de", "1002", False, False),
    ],
    ids=["machine-id", "system UUID", "no system UUID", "kernel", "GPU"],
)
def test_moved_disk_is_detected_by_machine_id_or_system_uuid(old, new, other, hardware):
    here = Inputs(WAS.text.replace(old, new))
    assert (here.is_of_another_machine(WAS), here.is_in_other_hardware(WAS)) == (other, hardware)


INTENT = {
    "a profile of the image": ("file-/etc/numaforge/profiles/own.yaml 1-2\n", True),
    "a profile that was written": ("file-/etc/numaforge/profile.yaml 1-2\n", True),
    "the image's settings": ("file-/etc/numaforge/boot.yaml 1-2\n", True),
    "the kernel parameter that names a profile": ("profile-of-kernel cpu-only\n", True),
    "numaforge": (f"file-{PROGRAM} 1-2\n", True),
    "the kubelet": ("file-/usr/bin/kubelet 1-2\n", False),
    "the kubelet's main configuration": ("file-/var/lib/kubelet/config.yaml 1-2\n", False),
    "a GPU": ("PCI-function-0000:18:00.0 10de:2330\n", False),
    "a driver": ("driver-nvidia 615.1\n", False),
}


@pytest.mark.parametrize(("line", "fits"), INTENT.values(), ids=INTENT)
def test_earlier_plan_fits_when_only_numaforge_inputs_changed(line, fits):
    assert Inputs(WAS.text + line).is_of_this_machine(WAS) is fits
    assert WAS.is_of_this_machine(Inputs(WAS.text + line)) is fits


def on_trial(folder: Path) -> BootRecord:
    trial = BootRecord(**{**vars(RECORD), "profile": "tried", "transaction": "T2"})
    stamp(trial, Inputs(f"{WAS.text}driver-nvidia 615.1\n"), {"/etc/b": "11ff"}, folder / TRIAL.name)
    return trial


def test_accepted_plan_takes_effect_and_clears_earlier_failure(tmp_path):
    stamp(RECORD, WAS, {"/etc/a": "00ff"}, tmp_path)
    on_trial(tmp_path)
    reject("why", tmp_path)
    record = accept(note_confirmed(on_trial(tmp_path), "a person", tmp_path), tmp_path)
    assert (record.profile, record.confirmed) == ("tried", "a person")
    assert BootRecord.saved(tmp_path) == record
    assert (tmp_path / "files").read_text() == "11ff  /etc/b\n"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["files", "inputs", "record.json"]
    accept(record, tmp_path)  # by another process, a moment later
    assert BootRecord.saved(tmp_path) == record


def test_rejected_plan_leaves_the_earlier_plan_in_effect(tmp_path):
    stamp(RECORD, WAS, {"/etc/a": "00ff"}, tmp_path)
    for why in ("the first", "the second"):
        trial = on_trial(tmp_path)
        reject(why, tmp_path)
    assert BootRecord.saved(tmp_path) == RECORD
    assert Inputs.saved(tmp_path) == WAS
    failed = tmp_path / FAILED.name
    assert BootRecord.saved(failed) == trial
    assert (failed / WHY).read_text() == "the second\n"
    assert not (tmp_path / TRIAL.name).exists()


def test_failure_reason_at_the_login_prompt_is_printable(tmp_path):
    on_trial(tmp_path)
    reject("E1 \x1b]0;title\x07 \x9b2J \u202e end", tmp_path)
    assert (tmp_path / FAILED.name / WHY).read_text() == "E1  ]0;title   2J   end\n"


def test_saved_inputs_are_read_back(tmp_path):
    folder = tmp_path / "boot"
    assert Inputs.saved(folder) is None
    stamp(RECORD, WAS, {"/etc/a": "00ff"}, folder)
    assert Inputs.saved(folder) == WAS
    assert (folder / "files").read_text() == "00ff  /etc/a\n"
    assert json.loads((folder / "record.json").read_text())["named_by"] == "a test"
    assert sorted(file.name for file in folder.iterdir()) == ["files", "inputs", "record.json"]


def test_interrupted_stamp_is_planned_again(tmp_path):
    (tmp_path / "inputs.new").mkdir()
    with pytest.raises(NumaforgeError, match="cannot be kept"):
        stamp(RECORD, WAS, {}, tmp_path)
    assert (tmp_path / "record.json").exists()
    assert Inputs.saved(tmp_path) is None


def test_path_with_a_newline_is_refused(tmp_path):
    with pytest.raises(NumaforgeError, match="more than one line"):
        stamp(RECORD, WAS, {"/etc/a\n00ff  /etc/b": "00ff"}, tmp_path)
