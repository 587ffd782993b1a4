"""Mutated main files, drop-ins, flags and state files: `check` has a verdict on each of them."""

import os
from random import Random

import pytest

from numaforge.kubelet.startup.check import check
from tests.oracle.machines import KINDS, described, topology
from tests.oracle.raw import MUTATED

CASES = 300 * int(os.environ.get("NUMAFORGE_FUZZ", "1"))
SEED = os.environ.get("NUMAFORGE_FUZZ_SEED", "1")


@pytest.mark.parametrize("what", MUTATED)
def test_mutated_configurations_are_checked_without_a_crash(what: str) -> None:
    random = Random(f"{what}/{SEED}")  # noqa: S311
    machine = topology(described(KINDS["small"]))
    cases = [MUTATED[what](random) for _ in range(CASES)]
    verdicts = [
        check(
            case.text,
            topology=machine,
            version="1.36",
            drop_ins=case.drop_in_texts,
            flags=case.flags,
            state_files=case.state,
        )
        for case in cases
    ]
    assert all(report.starts == (report.error is None) for report in verdicts)
    assert 0 < sum(report.starts for report in verdicts) < CASES
