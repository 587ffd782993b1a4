"""The verdict of a rule, and what holds for the rules of every subject."""

import json
from importlib.resources import files

import pytest

from numaforge.findings import Severity
from numaforge.findings.engine import Applicability, MachineRule, Scope, Seen, judge, within
from numaforge.findings.gpudirect import rules as gpudirect
from numaforge.findings.gpus import rules as gpus
from numaforge.fleet.audit import drift
from numaforge.fleet.audit import host_rules as userland
from numaforge.fleet.audit.machine import MACHINE_RULES
from tests.fixtures.gpu_machines import KINDS
from tests.fixtures.judged import judged
from tests.fixtures.machines import lab_node
from tests.fixtures.pcie import MACHINES, machine_of
from tests.fixtures.workers import worker

SUBJECTS = {"gpus": gpus.RULES, "gpudirect": gpudirect.RULES, "userland": userland.RULES}
EVERY_SUBJECT = pytest.mark.parametrize("rules", SUBJECTS.values(), ids=SUBJECTS)


def scope(answer: bool | None) -> Scope:
    return lambda _: Applicability(answer, f"scope: {answer}")


WRONG, OTHER, UNKNOWN = Seen("wrong", "a"), Seen("wrong too", "b"), Seen(unknown="not captured")


@pytest.mark.parametrize(
    ("applies", "seen", "verdict", "reason", "places"),
    [
        pytest.param(True, (), "passed", "scope: True", [], id="nothing is wrong"),
        pytest.param(True, (WRONG, OTHER), "found", "scope: True", ["a", "b"], id="two are wrong"),
        pytest.param(True, (UNKNOWN, WRONG), "found", "scope: True", ["a"], id="wrong beside unknown"),
        pytest.param(True, (UNKNOWN, UNKNOWN), "unknown", "not captured", [], id="unknown, named once"),
        pytest.param(False, (WRONG,), "not-applicable", "scope: False", [], id="another machine"),
        pytest.param(None, (WRONG,), "unknown", "scope: None", [], id="perhaps another machine"),
    ],
)
def test_rule_gives_one_verdict(applies, seen, verdict, reason, places):
    rule = MachineRule(
        "X1", Severity.NOTE, "title", "some", scope(applies), "source", "remedy", lambda _: seen
    )
    judgement = judge(rule, lab_node())
    assert (judgement.verdict, judgement.reason) == (verdict, reason)
    assert [finding.where for finding in judgement.findings] == places


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        pytest.param(True, Applicability(False, "inner"), "inner", id="the narrower one decides"),
        pytest.param(True, None, "scope: True", id="it has nothing to add"),
        pytest.param(False, Applicability(True, "inner"), "scope: False", id="it is not asked elsewhere"),
        pytest.param(None, Applicability(True, "inner"), "scope: None", id="nor where that is unknown"),
    ],
)
def test_inner_scope_narrows_the_outer(outer, inner, expected):
    assert within(scope(outer))(lambda _: inner)(lab_node()).reason == expected


@EVERY_SUBJECT
def test_rule_ids_are_ordered_and_remedies_are_instructions(rules):
    ids = [rule.id for rule in rules]
    assert ids == sorted(set(ids))
    assert [rule.id for rule in rules if not rule.remedy or rule.remedy.endswith(("?", "."))] == []
    assert {Severity.ERROR, Severity.WARNING} <= {rule.severity for rule in rules}


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    folder = tmp_path_factory.mktemp("machines")
    captured = [machine_of(folder / name, build()) for name, build in MACHINES.items()]
    return [worker(), *(build() for build in KINDS.values()), *captured]


def test_every_text_is_of_a_rule():
    texts = json.loads(files("numaforge.findings").joinpath("rules.json").read_text("utf-8"))
    planned = {rule.id for rule in drift.DRIFT}
    assert texts.keys() == {rule.id for rule in MACHINE_RULES} - planned


@EVERY_SUBJECT
def test_every_verdict_has_a_reason(rules, machines):
    assert {
        rule for machine in machines for rule, each in judged(rules, machine).items() if not each.reason
    } == set()
