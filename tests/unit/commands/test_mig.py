"""The commands of `numaforge mig`: what they read, what they print, and with which code they exit."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from numaforge.cli import run
from numaforge.machine.topology.document import to_document
from numaforge.planning.profiles import load_profile
from numaforge.roles.mig.plan import as_cut, plan_mig
from tests.fixtures.machines import dgx_h100, lab_node
from tests.fixtures.tables import cases

FITS = "devices: all, mig-enabled: true, mig-devices: {3g.40gb: 1, 1g.10gb: 4}"
TOO_MUCH = "devices: [0], mig-enabled: true, mig-devices: {3g.40gb: 2, 1g.10gb: 1}"
MISNAMED = "devices: all, mig-enabled: true, mig-devices: {1g.11gb: 7}"
FOR_OTHERS = 'devices: all, device-filter: "0x20B010DE", mig-enabled: true, mig-devices: {}'


@pytest.fixture
def machine(tmp_path: Path) -> str:
    file = tmp_path / "gpu-1.json"
    file.write_text(json.dumps(to_document(dgx_h100())))
    return str(file)


def config(folder: Path, **entries: str) -> str:
    file = folder / "config.yaml"
    lines = "".join(f"  {name}:\n    - {{{entry}}}\n" for name, entry in entries.items())
    file.write_text(f"version: v1\nmig-configs:\n{lines}")
    return str(file)


def answer(capsys, *arguments: str, code: int = 0) -> str:
    """Run a command that is to exit with `code`, and return what it printed."""
    assert run(["mig", *arguments]) == code
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    assert (out == "") == (code == 2)
    return err if code == 2 else out


# ---- explain ----


def test_explain_reports_unconfirmed_placements(capsys):
    said = "Not confirmed: placements taken from its family"
    assert said in answer(capsys, "explain", "B300")
    assert said in answer(capsys, "explain", "B300", "1g.34gb")


def test_explain_shows_profile_placements(capsys):
    shown = answer(capsys, "explain", "rtx-pro-6000-96gb", "2g.48gb-me", "1g.24gb+me.all").splitlines()
    assert "|2g-me                        |1g+me.all     |----|----|----|" in shown


def test_explain_prints_json(capsys):
    document = json.loads(answer(capsys, "explain", "2330", "3g.40gb", "-o", "json"))
    placement = {"profile": "3g.40gb", "profile_id": 9, "start": 0, "size": 4}
    assert document == {
        "schema": 1,
        "model": "h100-80gb",
        "fits": True,
        "placements": [placement],
        "collision": None,
    }
    document = json.loads(answer(capsys, "explain", "2330", "7g.80gb=2", "-o", "json", code=1))
    assert document["collision"]["profiles"] == ["7g.80gb", "7g.80gb"]
    document = json.loads(answer(capsys, "explain", "2330", "-o", "json"))
    assert document["profiles"][0]["name"] == "1g.10gb"
    document = json.loads(answer(capsys, "explain", "rtx-pro-6000-96gb", "-o", "json"))
    engines = {one["name"]: (one["decoders"], one["ofas"], one["media"]) for one in document["profiles"]}
    assert document["decoders"] == 4
    assert engines["1g.24gb+me.all"] == (4, 1, True)
    assert engines["1g.24gb"] == (1, 0, False)


# ---- check ----


@cases(
    "entry, said",
    {
        "it does not fit": (TOO_MUCH, "they need 9 memory slices, the GPU has 8"),
        "it is for other machines": (FOR_OTHERS, "matches no GPU of this machine"),
        "mig-parted compares names exactly, and creates nothing": (MISNAMED, "1g.10gb"),
    },
)
def test_check_fails_if_one_config_of_several_fails(capsys, tmp_path, machine, entry, said):
    file = config(tmp_path, a=FITS, b=entry)
    shown = answer(capsys, "check", file, machine, code=1)
    assert shown.startswith("a  fits  8 GPUs\nb  no")
    assert said in shown
    assert answer(capsys, "check", file, machine, "--config", "a")


def test_check_ignores_mistakes_in_other_configs(capsys, tmp_path, machine):
    file = config(tmp_path, a=FITS, b="devices: 0, mig-enabled: false")
    assert answer(capsys, "check", file, machine, "--config", "a") == "a  fits  8 GPUs\n"


def test_check_names_the_gpus_that_a_config_leaves_out(capsys, tmp_path, machine):
    entry = "devices: [1], mig-enabled: true, mig-devices: {1g.10gb: 7}"
    shown = answer(capsys, "check", config(tmp_path, a=entry), machine)
    assert "GPUs 0,2-7: no entry names them" in shown


def test_check_prints_json(capsys, tmp_path, machine):
    file = config(tmp_path, a=FITS, b=FOR_OTHERS)
    configs = json.loads(answer(capsys, "check", file, machine, "-o", "json", code=1))["configs"]
    assert [(one["config"], one["fits"], len(one["gpus"])) for one in configs] == [
        ("a", True, 8),
        ("b", False, 0),
    ]
    assert configs[0]["refusal"] is None
    assert "matches no GPU" in configs[1]["refusal"]


# ---- plan ----


def test_plan_uses_the_only_config(capsys, tmp_path, machine):
    shown = answer(capsys, "plan", config(tmp_path, a=FITS), machine)
    assert "its GPU instances are not known: planned as empty" in shown
    assert "GPU 0-7  H100 80GB HBM3" in shown
    assert "MIG mode changes from disabled to enabled" in shown
    assert "the MIG mode is lost at a reboot (Hopper)" in shown
    assert "create  3g.40gb  9   4:4         3c" in shown


def test_plan_prints_json(capsys, tmp_path, machine):
    document = json.loads(answer(capsys, "plan", config(tmp_path, a=FITS), machine, "-o", "json"))
    assert (document["schema"], document["hostname"], document["config"]) == (1, "dgx-01", "a")
    assert document["assumes_no_instances"]
    instances = [
        *(
            {"profile": "1g.10gb", "profile_id": 19, "start": start, "size": 1, "compute_instances": [1]}
            for start in range(4)
        ),
        {"profile": "3g.40gb", "profile_id": 9, "start": 4, "size": 4, "compute_instances": [3]},
    ]
    assert document["gpus"][1] == {
        "index": 1,
        "pci_address": "0000:43:00.0",
        "uuid": "GPU-00000000-0000-4000-8000-000000000001",
        "model": "h100-80gb",
        "mig_mode": "disabled",
        "wanted_mig_mode": "enabled",
        "mode_changes": True,
        "keep": [],
        "destroy": [],
        "recut": [],
        "create": instances,
        "instances": instances,
        "notices": ["the MIG mode is lost at a reboot (Hopper)"],
        "waits": False,
        "refusal": None,
        "collision": None,
    }


def test_plan_fails_if_instances_do_not_fit(capsys, tmp_path, machine):
    shown = answer(capsys, "plan", config(tmp_path, a=TOO_MUCH), machine, code=1)
    assert "These do not fit together" in shown
    assert "Left as they are: GPU 1-7" in shown


def test_plan_of_a_machine_without_gpus_is_bad_input(capsys, tmp_path):
    snapshot = tmp_path / "node.json"
    snapshot.write_text(json.dumps(to_document(lab_node())))
    file = config(tmp_path, a=FITS)
    error = answer(capsys, "plan", file, str(snapshot), code=2)
    assert error == (
        f"numaforge: {file}: mig-configs.a: matches no GPU of this machine\n  it has no NVIDIA GPU\n"
    )


# ---- plan, with GPU instances that are there, and by a profile ----


@pytest.fixture
def cut(tmp_path: Path) -> str:
    """Return a machine whose first GPU has 1g at 0, in use, and 3g at 4; its other GPUs are whole."""
    bare = dgx_h100()
    bare = replace(bare, gpus=tuple(replace(gpu, gpu_instances=()) for gpu in bare.gpus))
    wish = load_profile({"mig": {"gpus": [{"indices": [0], "placements": {"1g": [0], "3g": [4]}}]}})
    planned = as_cut(bare, plan_mig(bare, wish).value)
    first, *others = planned.gpus
    busy, idle = first.gpu_instances or ()
    first = replace(first, gpu_instances=(replace(busy, pids=(42,)), idle))
    file = tmp_path / "cut.json"
    file.write_text(json.dumps(to_document(replace(planned, gpus=(first, *others)))))
    return str(file)


def profile(folder: Path, **mig: Any) -> str:
    file = folder / "mine.yaml"
    file.write_text(json.dumps({"mig": mig}))
    return str(file)


def test_plan_keeps_wanted_instances_in_use(capsys, tmp_path, cut):
    wish = profile(tmp_path, gpus=[{"indices": [0], "devices": {"1g": 1, "2g": 1}}])
    shown = answer(capsys, "plan", "--profile", wish, cut)
    assert "dgx-01  profile mine" in shown
    rows = [line.split() for line in shown.splitlines() if "gb " in line]
    assert rows == [
        ["destroy", "3g.40gb", "9", "4:4", "3c"],
        ["keep", "1g.10gb", "19", "0:1", "1c", "process", "42"],
        ["create", "2g.20gb", "14", "2:2", "2c"],
    ]
    assert "|1g  |----|----|----|3g                 |" in shown
    assert "|1g  |----|2g       |----|----|----|----|" in shown


def test_plan_fails_if_an_instance_in_use_would_be_removed(capsys, tmp_path, cut):
    wish = profile(tmp_path, gpus=[{"indices": [0], "devices": {"7g": 1}}])
    shown = answer(capsys, "plan", "--profile", wish, cut, code=1)
    assert "what would have to go is in use: 1g.10gb at 0:1 by process 42" in shown
    drained = profile(tmp_path, gpus=[{"indices": [0], "devices": {"7g": 1}}], in_use="drain")
    assert answer(capsys, "plan", "--profile", drained, cut)


def test_plan_of_a_profile_prints_json(capsys, tmp_path, cut):
    wish = profile(tmp_path, gpus=[{"indices": [0], "devices": {"1g": 1}}])
    document = json.loads(answer(capsys, "plan", "--profile", wish, cut, "-o", "json"))
    assert (document["profile"], document["assumes_no_instances"]) == ("mine", False)
    [gpu] = document["gpus"]
    assert [(one["profile"], one["used_by"]) for one in gpu["keep"]] == [("1g.10gb", "process 42")]
    assert [one["profile"] for one in gpu["destroy"]] == ["3g.40gb"]
    assert (gpu["recut"], gpu["create"]) == ([], [])


def test_node_plan_shows_geometry_before_and_after(capsys, tmp_path, cut):
    wish = profile(tmp_path, gpus=[{"devices": {"1g": 1}}])
    assert run(["plan", cut, "--profile", wish, "--why"]) == 0
    shown = capsys.readouterr().out.partition("\nMIG\n")[2].partition("\nNotices")[0].splitlines()
    assert shown[0] == "0000:1b:00.0  MIG enabled"
    assert [line.strip() for line in shown[1:7]] == [
        "before",
        "0    1    2    3    4    5    6    7",
        "|1g  |----|----|----|3g                 |",
        "after",
        "0    1    2    3    4    5    6    7",
        "|1g  |----|----|----|----|----|----|----|",
    ]
    assert shown[7].startswith("0000:43:00.0, 0000:52:00.0")
