"""NVML on the virtual node: the capture brings pynvml along, which loads the library that it finds there."""

from __future__ import annotations

import base64

from lab.cluster import Lab
from lab.node import Node
from numaforge.snapshot import parse_output, script
from numaforge.topology import read_topology
from numaforge.topology.model import Gpu
from tests.fakes.nvml.build import LIBRARY, build

LIBRARY_ON_NODE = f"/usr/local/lib/{LIBRARY}"
MACHINE_ON_NODE = "/root/nvml-machine"
MEMORY_BYTES = 85520809984


def gpus(node: Node) -> tuple[Gpu, ...]:
    output = node.run(f"export FAKE_NVML_MACHINE={MACHINE_ON_NODE}; sh -s", input_text=script())
    return read_topology(parse_output(output)).gpus


def test_nvml_names_the_gpus_that_sysfs_places(pristine: Lab) -> None:
    node = pristine.nodes[0]
    without = gpus(node)
    assert [gpu.uuid for gpu in without] == [None] * node.machine.gpus
    machine = "driver 580.95.05\n" + "".join(
        f"gpu {gpu.pci_address}\n  device 0x{gpu.device}{gpu.vendor}\n  name NVIDIA H100 80GB HBM3\n"
        f"  uuid GPU-{number:08d}-0000-4000-8000-000000000000\n  memory_bytes {MEMORY_BYTES}\n  nvlinks 18\n"
        for number, gpu in enumerate(without)
    )
    node.run(f"cat > {MACHINE_ON_NODE}", input_text=machine)
    library = base64.b64encode((build() / LIBRARY).read_bytes()).decode()
    node.run(f"base64 -d > {LIBRARY_ON_NODE} && ldconfig", input_text=library)

    named = gpus(node)
    assert [(gpu.pci_address, gpu.numa_node) for gpu in named] == [
        (gpu.pci_address, gpu.numa_node) for gpu in without
    ]
    assert [gpu.uuid for gpu in named] == [
        f"GPU-{number:08d}-0000-4000-8000-000000000000" for number in range(len(without))
    ]
    assert {(gpu.name, gpu.memory_bytes, gpu.nvlinks) for gpu in named} == {
        ("NVIDIA H100 80GB HBM3", MEMORY_BYTES, 18)
    }
