"""The one form of a GPU instance: of a plan, of NVML's answer, of the worker and of the proof."""

from dataclasses import asdict

import pytest

from numaforge.machine.topology.model import ComputeInstance, GpuInstance
from numaforge.roles.mig.devices import as_instance
from numaforge.roles.mig.instance import MigGpu, MigInstance

HALF = MigInstance("3g.40gb", 9, 4, 4, (2, 1))
GPU = MigGpu("0000:1b:00.0", None, "enabled", (HALF, MigInstance("1g.10gb", 19, 0, 1, (1,))))


def test_mig_gpu_survives_a_round_trip():
    assert MigGpu.read(asdict(GPU)) == GPU


@pytest.mark.parametrize(
    ("slices", "compute"),
    [
        pytest.param((1, 2), (2, 1), id="the largest first"),
        pytest.param((1, None), (1, 0), id="one that is not known"),
        pytest.param((), (), id="none"),
    ],
)
def test_nvml_instance_has_the_form_of_a_planned_instance(slices, compute):
    found = GpuInstance(
        7, 9, 4, 4, tuple(ComputeInstance(at, each) for at, each in enumerate(slices)), (4711,)
    )
    assert as_instance(found) == MigInstance("whatever its driver says", 9, 4, 4, compute)
