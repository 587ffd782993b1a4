"""Devices that are cut: MIG's instances and AMD's compute partitions."""

import pytest

from numaforge.kubelet.admission.inventory import inventory_of
from numaforge.machine.topology.slices import countable_gpus
from tests.fixtures import machines


@pytest.mark.parametrize(
    ("build", "resources"),
    [
        pytest.param(machines.mi300x, {"amd.com/gpu": 8}, id="whole"),
        pytest.param(lambda: machines.mi300x("DPX"), {"amd.com/gpu": 16}, id="partitioned"),
        pytest.param(machines.mi300x_cpx, {}, id="a-mode-is-not-known"),
        pytest.param(machines.dgx_h100, {"nvidia.com/gpu": 8}, id="another-vendor"),
    ],
)
def test_uncountable_partitions_are_not_promised(build, resources):
    topology = build()
    assert {name: len(devices) for name, devices in inventory_of(topology).items()} == resources
    assert bool(countable_gpus(topology.gpus)) is bool(resources)
