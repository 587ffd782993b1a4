"""`numaforge.api`: what it adds to the functions that have their own tests, and how it refuses."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from numaforge import api
from numaforge.api import NodePlan, NodeTopology
from tests.fixtures.machines import dgx_h100
from tests.fixtures.workers import SOUND

UNSET = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
LIMITS = {"cpu": "28", "memory": "64Gi", "nvidia.com/gpu": "1"}
POD = {"spec": {"containers": [{"name": "main", "resources": {"limits": LIMITS}}]}}


@cache
def machine() -> NodeTopology:
    return dgx_h100()


@cache
def plan() -> NodePlan:
    return api.plan_node(machine(), api.load_profile("training"), "1.36")


def test_pods_are_checked_against_planned_or_current_node() -> None:
    assert api.fit(machine(), POD, config_text=UNSET).configured.pods == 8
    assert api.fit(machine(), POD, plan=plan()).configured.pods == 7
    answers = api.admit(machine(), [POD] * 8, plan=plan())
    assert [answer.admitted for answer in answers] == [True] * 7 + [False]
    assert len(answers[0].cpus["main"]) == 28


def test_gpus_of_registered_driver_are_counted_by_claims() -> None:
    by_claims = replace(machine(), userland=replace(SOUND, claim_drivers=("gpu.nvidia.com",)))
    [answer] = api.admit(by_claims, [POD], config_text=UNSET)
    assert (answer.admitted, answer.devices) == (True, {})
    assert api.fit(by_claims, POD, config_text=UNSET).configured.runs_out == ("nvidia.com/gpu",)


def test_a_difference_has_a_path_and_both_sides() -> None:
    other = replace(machine(), swap_bytes=4711)
    (found,) = api.diff(machine(), other)
    assert (found.path, found.right) == ("swap_bytes", 4711)
    assert api.diff(plan(), plan()) == []


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "a name for a machine": (lambda: api.plan_node("gpu-1", plan()), "plan_node(): topology is str"),  # type: ignore[arg-type]
    "a name for a profile": (
        lambda: api.plan_node(machine(), "training"),  # type: ignore[arg-type]
        "plan_node(): profile is str where NodeProfile is taken",
    ),
    "a machine for a plan": (lambda: api.render_plan(machine()), "render_plan(): plan is NodeTopology"),  # type: ignore[arg-type]
    "bytes for a text": (lambda: api.loads(b"{}"), "loads(): text is bytes where str is taken"),  # type: ignore[arg-type]
    "a number for a pod": (lambda: api.fit(machine(), 3), "fit(): pod is int where Pod or Mapping is taken"),  # type: ignore[arg-type]
    "a number for a profile": (lambda: api.load_profile(3), "source is int where str or Path or Mapping"),  # type: ignore[arg-type]
    "a machine and a plan": (lambda: api.diff(machine(), plan()), "a machine and a plan cannot be compared"),
    "a pod twice": (
        lambda: api.admit(machine(), [{**POD, "metadata": {"name": "a"}}] * 2, plan=plan()),
        "pod 'a' is admitted already",
    ),
    "a number for ids": (lambda: api.format_cpulist(3), "format_cpulist(): ids is int"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("wrong", WRONG)
def test_invalid_call_is_refused_with_an_argument_error(wrong: str) -> None:
    call, said = WRONG[wrong]
    with pytest.raises(api.ArgumentError) as refused:
        call()
    assert said in str(refused.value)
    assert isinstance(refused.value, api.NumaforgeError)
