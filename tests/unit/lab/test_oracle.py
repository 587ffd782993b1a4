"""The comparison with the kubelet's own code, apart from that code: its recipes, its cases."""

from collections.abc import Sequence
from random import Random

import pytest

from lab import oracle
from numaforge.kubelet_minors.versions import LATEST_MINOR
from tests.oracle.case import API, Case, shrink
from tests.oracle.configurations import configuration


@pytest.mark.parametrize("minor", oracle.MINORS)
def test_every_minor_has_a_module_file(minor):
    assert oracle.component(minor).module_file.is_file()


def test_newest_minor_with_rules_is_compared():
    assert f"1.{LATEST_MINOR}" in oracle.MINORS


def test_minor_is_built_with_tags_up_to_its_own():
    assert oracle.component("1.30").tags == ()
    assert oracle.component("1.32").tags == ("from31", "from32")


def test_same_seed_generates_the_same_cases():
    one, other = Random(1), Random(1)  # noqa: S311
    assert [configuration(one) for _ in range(20)] == [configuration(other) for _ in range(20)]


def test_failing_case_is_reduced_to_its_cause():
    def disagreements(cases: Sequence[Case]) -> list[str | None]:
        found = [case.settings.get("port") == 1 and "--v=2" in case.flags for case in cases]
        return ["they differ" if differ else None for differ in found]

    case = Case(
        {**API, "maxPods": 5, "port": 1, "evictionHard": {"memory.available": "1Gi"}},
        tail="registerNode: true\n",
        drop_ins={"10.conf": {**API, "maxPods": 6}},
        flags=("--max-pods=7", "--v=2"),
        operations=({"remove": "p0"},),
    )
    assert shrink(case, disagreements) == Case({**API, "port": 1}, flags=("--v=2",))
