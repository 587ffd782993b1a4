"""Our reading of the shared RDMA device plugin's configuration, and its own code: the same answers."""

import json
from random import Random

import pytest

from lab import rdma_oracle
from tests.oracle.rdma_answers import answer, comparable
from tests.oracle.rdma_configs import CASES, FUNCTIONS, RECORD, question, random_config
from tests.oracle.scale import SCALE

pytestmark = pytest.mark.long

CONFIGURATIONS = 5000 * SCALE


def test_record_matches_the_plugin():
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))["cases"]
    asked = rdma_oracle.ask([question(config) for config in CASES.values()])
    assert [{key: case[key] for key in case if key not in ("id", "config")} for case in recorded] == asked


def test_random_configurations_are_judged_as_by_the_plugin():
    random = Random(SCALE)  # noqa: S311
    configs = [random_config(random) for _ in range(CONFIGURATIONS)]
    answers = rdma_oracle.ask([question(config) for config in configs])
    assert {bool(each.get("selected")) for each in answers} == {True, False}
    differ = [
        (config, theirs)
        for config, theirs in zip(configs, answers, strict=True)
        if answer(config, FUNCTIONS) != comparable(theirs)
    ]
    assert differ[:3] == []
