"""NVML on the virtual node: the capture brings pynvml along, which loads the library that it finds there."""

import pytest

from lab.cluster import Lab
from tests.fakes.nvml.gpus import MODELS
from tests.lab import gpus


@pytest.mark.long
def test_nvml_names_the_gpus_found_in_sysfs(pristine: Lab) -> None:
    node = pristine.nodes[0]
    without = gpus.seen(node)
    assert [gpu.uuid for gpu in without] == [None] * node.machine.gpus
    gpus.install(node)

    named = gpus.seen(node)
    assert [(gpu.pci_address, gpu.numa_node) for gpu in named] == [
        (gpu.pci_address, gpu.numa_node) for gpu in without
    ]
    assert [gpu.uuid for gpu in named] == [
        f"GPU-{number:08d}-0000-4000-8000-000000000000" for number in range(len(without))
    ]
    _, name, memory = MODELS["h100-80gb"]
    assert {(gpu.name, gpu.memory_bytes, gpu.mig_mode) for gpu in named} == {(name, memory, "disabled")}
