"""NVIDIA's device plugin chose among these GPUs and replicas: ours may choose the same, and nothing else."""

import json
from typing import Any

import pytest

from numaforge.kubelet.admission.masks import bits, mask_of
from numaforge.kubelet.admission.preferred import ByLinks, ByReplicas
from numaforge.lib.ordering import grouped
from tests.conformance.record_preferred_allocation import FILE, Question, ids, questions, scores_of_machines

RECORD: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
CRASH = "panic: runtime error: invalid memory address or nil pointer dereference"


@pytest.mark.parametrize("name", RECORD["machines"])
def test_gpus_are_chosen_by_their_links(name: str) -> None:
    machine = RECORD["machines"][name]
    policy = ByLinks(tuple(map(tuple, machine["scores"])))
    for answer in machine["answers"]:
        available, required = mask_of(answer["available"]), mask_of(answer["required"])
        preferred = policy.of(available, required, answer["size"])
        sets = [",".join(map(str, bits(gpus))) for gpus in preferred.sets]
        assert sorted([*sets, *([CRASH] if preferred.may_crash else [])]) == answer["sets"], answer


def test_record_matches_the_distances_as_read_today() -> None:
    machines = scores_of_machines()
    assert {name: machine["scores"] for name, machine in RECORD["machines"].items()} == machines
    for name, machine in RECORD["machines"].items():
        answers = machine["answers"]
        asked = [Question(tuple(one["available"]), tuple(one["required"]), one["size"]) for one in answers]
        assert asked == [*questions(len(machines[name]))]


@pytest.mark.parametrize("name", RECORD["replicas"])
def test_replica_choice_follows_the_replicas_in_use(name: str) -> None:
    case = RECORD["replicas"][name]
    devices = ids(case["gpus"])
    of_gpus = grouped((one.partition("::")[0], 1 << at) for at, one in enumerate(devices))
    policy = ByReplicas(tuple(map(sum, of_gpus.values())), case["policy"] == "packed")
    left = ids(list(map(int.__sub__, case["gpus"], case["taken"])), case["taken"])
    required = mask_of(map(devices.index, ids(case["required"], case["taken"])))
    preferred = policy.of(mask_of(map(devices.index, left)), required, case["size"])
    sets = {",".join(devices[at].partition("::")[0] for at in bits(mask)) for mask in preferred.sets}
    assert sorted(sets) == case["sets"]
