"""Record which devices NVIDIA's device plugin prefers, over many orders in which the kubelet may offer them.

`python -m tests.conformance.record_preferred_allocation CHECKOUT`, where CHECKOUT is a clone of
github.com/NVIDIA/k8s-device-plugin. Needs Go and a C compiler. The plugin's own resource manager answers,
with go-gpuallocator's policy, for the distances that we read from the machines: only NVML is a fake.
"""

import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numaforge.kubelet.admission.inventory import inventory_of
from numaforge.kubelet.admission.nvidia_resources import GPU
from numaforge.machine.topology.saved import ready_machine, ready_machines
from tests.conformance.checkouts import answers_in, text_of, version_of
from tests.fixtures.machines import dgx_1v, nvlink_bridges

FILE = Path(__file__).with_name("preferred_allocation.json")
PROGRAM = Path(__file__).with_name("preferred_allocation.go")
_LEVELS = {50: 10, 40: 20, 30: 30, 20: 40, 10: 50}  # NVML's level by the score of a distance over PCIe
_SUBSETS = 12  # of the GPUs of a machine, as if pods had the others


@dataclass(frozen=True)
class Question:
    """What the kubelet offers, what it needs, and how many."""

    available: tuple[int, ...]
    required: tuple[int, ...]
    size: int


def scores_of_machines() -> dict[str, list[list[int]]]:
    """Return the scores of each pair of GPUs by machine: ready ones, bridges, and meshes of V100."""
    machines = {name: ready_machine(name) for name in ready_machines()} | {
        "four bridges": nvlink_bridges(4),
        "dgx-1v": dgx_1v(),
        "dgx-1v without a link": dgx_1v(1),
    }
    found = {name: scores_of(inventory_of(machine).get(GPU, ())) for name, machine in machines.items()}
    return {name: scores for name, scores in found.items() if len(scores) > 1} | {
        "a bridge and three": [
            [0 if one == other else 250 if {one, other} == {0, 1} else 50 for other in range(5)]
            for one in range(5)
        ],
    }


def scores_of(devices: Any) -> list[list[int]]:
    """Return the scores of GPUs as a matrix."""
    rows = [dict(device.links) for device in devices]
    return [[row.get(device.id, 0) for device in devices] for row in rows]


def questions(gpus: int) -> Iterator[Question]:
    """Yield each number of all GPUs, and some of what is left of them, with required GPUs and without."""
    everything = tuple(range(gpus))
    for size in everything:
        yield Question(everything, (), size + 1)
    chance = random.Random(gpus)  # noqa: S311
    for number in range(_SUBSETS if gpus > 2 else 0):
        available = sorted(chance.sample(everything, chance.randint(2, gpus)))
        size = chance.randint(1, len(available))
        required = sorted(chance.sample(available, chance.randint(0, size - 1))) if number % 2 else []
        yield Question(tuple(available), tuple(required), size)


REPLICAS = {
    f"{name}, {policy}": {"policy": policy, "gpus": gpus, "taken": taken, "required": required, "size": size}
    for policy in ("distributed", "packed")
    for name, gpus, taken, required, size in (
        ("one of three idle GPUs", [4, 4, 4], [0, 0, 0], [0, 0, 0], 1),
        ("two of three GPUs", [4, 4, 4], [1, 0, 2], [0, 0, 0], 2),
        ("five of three GPUs", [4, 4, 4], [0, 0, 0], [0, 0, 0], 5),
        ("GPUs of unlike counts", [2, 4], [1, 1], [0, 0], 3),
        ("beside a required one", [3, 3], [0, 1], [1, 0], 3),
        ("three of those that are left", [2, 2, 2], [1, 2, 0], [0, 0, 0], 3),
    )
}
"""Requests for replicas: of each GPU how many there are, are taken, and are required."""


def ids(counts: list[int], first: list[int] | None = None) -> list[str]:
    """Return the ids of replicas, of each GPU so many from a number on."""
    starts = first or [0] * len(counts)
    return [
        f"{gpu}::{number}"
        for gpu, (start, count) in enumerate(zip(starts, counts, strict=True))
        for number in range(start, start + count)
    ]


def main(checkout: Path) -> None:
    """Ask the plugin of a checkout, and write the file."""
    machines = scores_of_machines()
    asked = {name: [*questions(len(scores))] for name, scores in machines.items()}
    whole = (_whole(machines[name], each) for name, listed in asked.items() for each in listed)
    answers = iter(answers_in(checkout, "internal/rm", PROGRAM, [*whole, *map(_shared, REPLICAS.values())]))
    recorded = {
        name: {
            "scores": scores,
            "answers": [{**vars(each), "sets": next(answers)} for each in asked[name]],
        }
        for name, scores in machines.items()
    }
    shared = {name: {**case, "sets": next(answers)} for name, case in REPLICAS.items()}
    record = {"version": version_of(checkout, "k8s-device-plugin"), "machines": recorded, "replicas": shared}
    FILE.write_text(text_of(record, "machines", "answers", "replicas"), encoding="utf-8")


def _whole(scores: list[list[int]], question: Question) -> dict[str, Any]:
    return {
        "Levels": [[_LEVELS.get(score % 100, 0) for score in row] for row in scores],
        "Links": [[score // 100 for score in row] for row in scores],
        "Devices": [str(gpu) for gpu in range(len(scores))],
        "Policy": "distributed",
        "Available": [*map(str, question.available)],
        "Required": [*map(str, question.required)],
        "Size": question.size,
    }


def _shared(case: Mapping[str, Any]) -> dict[str, Any]:
    left = [count - taken for count, taken in zip(case["gpus"], case["taken"], strict=True)]
    return {
        "Levels": [],
        "Links": [],
        "Devices": ids(case["gpus"]),
        "Policy": case["policy"],
        "Available": ids(left, case["taken"]),
        "Required": ids(case["required"], case["taken"]),
        "Size": case["size"],
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
