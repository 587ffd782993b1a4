"""The plan's JSON document: its form, and what is refused when it is read back."""

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


def test_cpus_are_written_as_cpulists():
    assert document()["cpus"]["reserved"] == "0,56,112,168"
    assert document()["tuning"]["governors"] == {"0-223": "performance"}


def test_cpu_groups_are_ordered_by_first_cpu():
    plan = plan_node(dgx_h100(), load_profile({}))
    governors = {7: "performance", 2: "powersave", 1: "performance", 0: "powersave"}
    document = to_document(replace(plan, tuning=TuningPlan(governors=governors)))
    assert list(document["tuning"]["governors"].items()) == [("0,2", "powersave"), ("1,7", "performance")]


def test_schema_address_is_accepted():
    assert from_document({"$schema": "plan.json", **document()}) == from_document(document())


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
