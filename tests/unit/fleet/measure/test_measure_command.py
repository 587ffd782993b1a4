"""`numaforge measure`: what it refuses before it asks a host, and what a profile says of it."""

from pathlib import Path

import pytest

from numaforge.cli import run
from numaforge.lib.errors import ExitCode, ProfileError
from numaforge.planning.document import from_document, to_document
from numaforge.planning.measure import MeasurePlan
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from tests.fixtures.machines import lab_node
from tests.fixtures.tables import cases

REFUSED = {
    "--last with how to measure": (["--last", "--in-use"], "--last measures nothing"),
    "--last with a cluster": (["--last", "--kubeconfig", "x"], "--last measures nothing"),
    "--limit without an inventory": (["--limit", "gpu-1"], "--limit needs an INVENTORY"),
    "how to connect to an inventory": (
        ["inventory.py", "--data", "ssh_user=x"],
        "an INVENTORY has its own data",
    ),
    "no such kubeconfig": (["gpu-1", "--kubeconfig", "/no/such/file"], "the kubeconfig does not exist"),
    "a run of no seconds": (["--seconds", "0"], "0 is not in the range 1<=x<=60"),
    "too many runs": (["--runs", "10"], "10 is not in the range 1<=x<=9"),
    "a share of nothing": (["--min-share", "0"], "0.0 is not in the range"),
    "a name that is none": (["gpu 1"], "is not a host name"),
}


@cases("words, why", REFUSED)
def test_invalid_measure_arguments_are_refused(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
):
    assert run(["measure", *words]) == ExitCode.BAD_INPUT
    assert why in capsys.readouterr().err


WISHES = {
    "in one word": ("required", MeasurePlan(0.8)),
    "in full": ({"gate": "required", "min_share": "90%"}, MeasurePlan(0.9)),
    "a share without a gate": ({"min_share": "90%"}, None),
    "not at all": ({}, None),
    "left out": (None, None),
}


@cases("said, planned", WISHES)
def test_plan_has_the_measurement_gate_of_its_profile(said: object, planned: MeasurePlan | None):
    plan = plan_node(lab_node(), load_profile({"extends": "cpu-only", "name": "n", "measure": said}))
    assert plan.measure == planned
    assert from_document(to_document(plan)) == plan


def test_profile_can_undo_a_setting_of_its_base(tmp_path: Path):
    (tmp_path / "above.yaml").write_text("extends: cpu-only\nname: above\nmeasure: required\n")
    (tmp_path / "below.yaml").write_text("extends: ./above.yaml\nname: below\nmeasure: {gate: none}\n")
    assert plan_node(lab_node(), load_profile(str(tmp_path / "above.yaml"))).measure == MeasurePlan(0.8)
    assert plan_node(lab_node(), load_profile(str(tmp_path / "below.yaml"))).measure is None


MISTAKES = {
    "another word": ("yes", "measure"),
    "a share of nothing": ({"min_share": "0%"}, "measure.min_share"),
    "a share as a number": ({"min_share": 0.8}, "measure.min_share"),
    "more than all": ({"min_share": "120%"}, "measure.min_share"),
    "a key that is none": ({"least": "90%"}, "measure.least"),
}


@cases("said, field", MISTAKES)
def test_a_mistake_in_a_profile_names_its_field(said: object, field: str):
    with pytest.raises(ProfileError) as refused:
        load_profile({"extends": "cpu-only", "name": "n", "measure": said})
    assert field in str(refused.value)
