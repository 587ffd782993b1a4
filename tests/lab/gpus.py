"""GPUs on a node of the lab: the fake libnvidia-ml and nvidia-smi, where the driver's own would be."""

import base64
import importlib.util
import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.node import Node
from numaforge.machine.snapshot.capture import parse_output, script
from numaforge.machine.topology.model import Gpu
from numaforge.machine.topology.read import read_topology
from tests.fakes.nvml.build import LIBRARY, SMI, build
from tests.fakes.nvml.gpus import gpu_text

DESCRIPTION = "/etc/fake-nvml/gpus"
STATE = "/etc/fake-nvml/state"
PLUGIN = "lab-deviceplugin.service"
CUT: Mapping[int, tuple[tuple[int, int], ...]] = {
    0: ((9, 0), (19, 4), (19, 5), (19, 6)),
    1: tuple((19, start) for start in range(7)),
}
"""Profile and start of each GPU instance, by the index of its GPU."""


DRIVER = "fake-driver.service"
DRIVER_RUNS = """[Unit]
DefaultDependencies=no
Before=sysinit.target

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'mount -t tmpfs tmpfs /proc/driver && mkdir /proc/driver/nvidia'
ExecStart=/bin/sh -c 'echo "NVRM version: 580.95.05" > /proc/driver/nvidia/version'

[Install]
WantedBy=sysinit.target
"""
"""What says that the driver runs, in each boot."""


def cut(found: tuple[Gpu, ...]) -> dict[int, tuple[tuple[int, int], ...]]:
    """Return where the GPU instances of the GPUs in MIG mode lie, by the index of the GPU."""
    return {
        index: tuple(
            (each.profile_id, each.start)
            for each in sorted(gpu.gpu_instances or (), key=lambda each: each.start)
        )
        for index, gpu in enumerate(found)
        if gpu.mig_mode == "enabled"
    }


def seen(node: Node) -> tuple[Gpu, ...]:
    """Return the GPUs of a node as a capture shows them."""
    return read_topology(parse_output(node.run("sh -s", input_text=script()))).gpus


def install(node: Node, model: str = "h100-80gb") -> Sequence[str]:
    """Have NVML answer for each GPU that sysfs places, and return their PCI addresses.

    The device plugin then offers what NVML shows. What is done to the GPUs is kept on the node's disk, and a
    boot of the node is one for them.
    """
    addresses = [gpu.pci_address for gpu in seen(node)]
    gpus = "".join(gpu_text(model, address, number=number) for number, address in enumerate(addresses))
    programs = build(f'-DDEFAULT_MACHINE="{DESCRIPTION}"')
    found = importlib.util.find_spec("pynvml")
    assert found is not None
    assert found.origin is not None
    files = {
        f"/usr/local/lib/{LIBRARY}": (programs / LIBRARY).read_bytes(),
        f"/usr/local/bin/{SMI}": (programs / SMI).read_bytes(),
        "/usr/local/lib/pynvml/pynvml.py": Path(found.origin).read_bytes(),  # for the device plugin
        f"/etc/systemd/system/{DRIVER}": DRIVER_RUNS.encode(),
        DESCRIPTION: f"driver 580.95.05\nstate {STATE}\n{gpus}".encode(),
    }
    node.run(
        f"base64 -d | tar -C / -xz && ldconfig && systemctl enable --now {DRIVER} && nvidia-smi -L && sync"
        f" && systemctl restart {PLUGIN}",
        input_text=base64.b64encode(_archive(files)).decode(),
    )
    return addresses


def _archive(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for path, content in files.items():
            entry = tarfile.TarInfo(path.removeprefix("/"))
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
