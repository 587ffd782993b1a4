"""The GPUs, as NVML has them now."""

from __future__ import annotations

import json

import pytest

from numaforge.roles.mig.instance import MigGpu
from numaforge.verification import expectations
from numaforge.verification.live import VerifiedNode


@pytest.mark.expects(table=expectations.mig)
def test_mig(node: VerifiedNode, name: str, expected: tuple[MigGpu, bool]) -> None:
    wanted, cut_by_us = expected
    assert name in node.live.gpus, "NVML on the host does not answer for this GPU"
    gpu = json.loads(node.live.gpus[name])
    assert gpu["mode"] == wanted.mode
    assert not cut_by_us or sorted(
        (each["profile_id"], each["start"], each["size"], sorted(each["compute_instances"]))
        for each in gpu["instances"]
    ) == sorted(
        (each.profile_id, each.start, each.size, sorted(each.compute_instances)) for each in wanted.instances
    )
