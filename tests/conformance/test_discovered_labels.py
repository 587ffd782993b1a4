"""GPU feature discovery gave these machines these labels: what we predict of them is the same."""

import json
from typing import Any

import pytest

from numaforge.cluster.explain.discovered_labels import discovered_labels
from tests.conformance.record_discovered_labels import FILE, GPU, PLUGINS, machines, question

RECORD: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
OF_OTHERS = {f"{GPU}.present", f"{GPU}.clique"}
"""The GPU operator's label, and that of a fabric, which these machines' fake has not."""


def test_record_matches_the_machines_as_read_today() -> None:
    first = next(iter(PLUGINS.values()))
    asked = {name: question(machine, first)["Gpus"] for name, machine in machines().items()}
    assert {name: machine["gpus"] for name, machine in RECORD["machines"].items()} == asked


@pytest.mark.parametrize(
    ("name", "plugin"),
    [
        (name, plugin)
        for name, machine in RECORD["machines"].items()
        for plugin, labels in machine["labels"].items()
        if "error" not in labels  # MPS beside MIG devices
    ],
)
def test_labels_match_gpu_feature_discovery(name: str, plugin: str) -> None:
    given = RECORD["machines"][name]["labels"][plugin]
    predicted = discovered_labels(machines()[name], PLUGINS[plugin])
    compared = {key: value for key, value in predicted.items() if key not in OF_OTHERS}
    assert compared == {key: given.get(key) for key in compared}
