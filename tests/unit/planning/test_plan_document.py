"""The plan's JSON document: its form, and what is refused when it is read back."""

import json
from dataclasses import replace
from typing import Any

import pytest

from numaforge import __version__
from numaforge.lib.errors import PlanError
from numaforge.planning.document import dumps, from_document, loads, to_document
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.roles.kernel_values.plan import TuningPlan
from tests.fixtures.machines import dgx_h100


def document() -> dict[str, Any]:
    return to_document(plan_node(dgx_h100(), load_profile("training")))


def test_document_head_names_schema_and_writer():
    assert list(document().items())[:2] == [("schema", 1), ("written_by", f"numaforge {__version__}")]


def test_unchanged_plan_keeps_the_version_of_its_writer():
    profile = load_profile("training")
    plan = replace(plan_node(dgx_h100(), profile), written_by="numaforge 0.9.0")
    machine = replace(dgx_h100(), previous_plan=dumps(plan))
    planned = plan_node(machine, profile)
    assert (planned == loads(dumps(plan)), planned.written_by) == (True, "numaforge 0.9.0")
    assert plan_node(machine, load_profile("cpu-only")).written_by == f"numaforge {__version__}"


def test_cpu_sets_are_written_as_cpulists():
    assert document()["cpus"]["reserved"] == "0,56,112,168"


def test_per_cpu_mappings_are_grouped():
    assert document()["tuning"]["governors"] == {"0-223": "performance"}


def test_cpu_groups_are_ordered_by_first_cpu():
    plan = plan_node(dgx_h100(), load_profile({}))
    governors = {7: "performance", 2: "powersave", 1: "performance", 0: "powersave"}
    document = to_document(replace(plan, tuning=TuningPlan(governors=governors)))
    assert list(document["tuning"]["governors"].items()) == [("0,2", "powersave"), ("1,7", "performance")]


def test_document_text_is_reproducible():
    assert dumps(plan_node(dgx_h100(), load_profile("training"))) == dumps(
        plan_node(dgx_h100(), load_profile("training"))
    )


def test_unknown_schema_is_refused():
    with pytest.raises(PlanError, match="it has schema 2, and 1 is read here"):
        from_document({**document(), "schema": 2})


def test_schema_address_is_accepted():
    assert from_document({"$schema": "plan.json", **document()}) == from_document(document())


def damaged(change) -> dict[str, Any]:
    copy = json.loads(json.dumps(document()))
    change(copy)
    return copy


DAMAGE = {
    "missing-field": (lambda d: d["cpus"].pop("reserved"), "plan.cpus.reserved: must be given"),
    "unknown-field": (lambda d: d["memory"].update(extra=1), "plan.memory.extra: unknown key"),
    "wrong-kind": (
        lambda d: d["memory"].update(capacity_bytes="8Gi"),
        "plan.memory.capacity_bytes: '8Gi' is not a whole number",
    ),
    "true-is-not-a-number": (
        lambda d: d["memory"].update(capacity_bytes=True),
        "plan.memory.capacity_bytes: True is not a whole number",
    ),
    "broken-cpulist": (lambda d: d["cpus"].update(online="0-"), "plan.cpus.online: '0-' is not a cpulist"),
    "in-a-list": (lambda d: d["files"][0].pop("path"), "plan.files[0].path: must be given"),
    "null": (lambda d: d.update(tuning=None), "plan.tuning: None is not a mapping"),
}


@pytest.mark.parametrize(("change", "message"), DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_reported_with_its_place(change, message):
    with pytest.raises(PlanError) as caught:
        from_document(damaged(change))
    assert str(caught.value).startswith(message)


OTHER_TEXTS = {
    "empty": ("", "plan: not JSON: "),
    "cut-off-at-once": ("{", "plan: not JSON: "),
    "cut-off": (dumps(plan_node(dgx_h100(), load_profile({})))[:-40], "plan: not JSON: "),
    "nested-too-deeply": ("[" * 100_000, "plan: not JSON: "),
    "half-a-character": ('{"schema": 1, "hostname": "\\udc80"}', "plan: not JSON: a text holds half"),
    "a-list": ("[]", "plan: a plan is a JSON object"),
}


@pytest.mark.parametrize(("text", "message"), OTHER_TEXTS.values(), ids=OTHER_TEXTS)
def test_text_other_than_a_plan_is_refused(text, message):
    with pytest.raises(PlanError) as caught:
        loads(text)
    assert str(caught.value).startswith(message)
