"""Devices that are cut: MIG's instances and AMD's compute partitions."""

from numaforge.kubelet.admission.inventory import inventory_of
from numaforge.machine.topology.gpu_models import countable_gpus
from tests.fixtures import machines
from tests.fixtures.tables import cases


@cases(
    "build, resources",
    {
        "whole": (machines.mi300x, {"amd.com/gpu": 8}),
        "partitioned": (lambda: machines.mi300x("DPX"), {"amd.com/gpu": 16}),
        "a-mode-is-not-known": (machines.mi300x_cpx, {}),
        "another-vendor": (machines.dgx_h100, {"nvidia.com/gpu": 8}),
    },
)
def test_uncountable_partitions_are_not_promised(build, resources):
    topology = build()
    assert {name: len(devices) for name, devices in inventory_of(topology).items()} == resources
    assert bool(countable_gpus(topology.gpus)) is bool(resources)
