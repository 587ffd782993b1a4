"""Mutated main files, drop-ins, flags and state files: `check` has a verdict on each of them."""

import os
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from numaforge.kubelet.startup.check import check
from tests.fuzz import kubelet_inputs as inputs
from tests.oracle.machines import KINDS, described, topology
from tests.oracle.raw import MANAGED, state_files

CASES = 300 * int(os.environ.get("NUMAFORGE_FUZZ", "1"))
SEED = os.environ.get("NUMAFORGE_FUZZ_SEED", "1")


def _main(random: Random) -> dict[str, Any]:
    return {"config_text": inputs.configuration(random)}


def _json(random: Random) -> dict[str, Any]:
    return {"config_text": inputs.json_text(random)}


def _drop_in(random: Random) -> dict[str, Any]:
    text = inputs.configuration(random) if random.random() < 0.7 else inputs.json_text(random)
    return {"config_text": inputs.HEAD, "drop_ins": {"10-a.conf": text}}


def _flags(random: Random) -> dict[str, Any]:
    return {"config_text": inputs.HEAD, "flags": inputs.flags(random)}


def _state(random: Random) -> dict[str, Any]:
    return {"config_text": MANAGED, "state_files": state_files(random)}


@pytest.mark.parametrize("make", [_main, _json, _drop_in, _flags, _state], ids=lambda make: make.__name__[1:])
def test_mutated_configurations_are_checked_without_a_crash(make: Callable[[Random], dict[str, Any]]) -> None:
    random = Random(f"{make.__name__}/{SEED}")  # noqa: S311
    machine = topology(described(KINDS["small"]))
    verdicts = [check(**make(random), topology=machine, version="1.36") for _ in range(CASES)]
    assert all(report.starts == (report.error is None) for report in verdicts)
    assert 0 < sum(report.starts for report in verdicts) < CASES
