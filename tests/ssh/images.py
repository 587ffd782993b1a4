"""Nodes of an image: their kubelet was never started."""

import sys
from pathlib import Path

from numaforge.image.first_boot.stamp import PROGRAM
from tests.ssh.kubeadm import kubeadm_files
from tests.ssh.sandbox import Sandbox

NUMAFORGE = Path(sys.executable).parent / "numaforge"
SETTINGS = "/etc/numaforge/boot.yaml"
OWN = "/etc/numaforge/profiles/own.yaml"
GPU = "/sys/bus/pci/devices/0000:17:00.0"
DRIVER_PARAMETERS = "/proc/driver/nvidia/params"
PROFILE = """
name: own
cpus: {reserved: {cores_per_numa_node: 1}}
memory: {system_reserved: 1Gi}
kubelet: {cpu_manager_policy: static}
tuning: {governor: performance}
"""


def image_files(port: int) -> dict[str, str]:
    """Return the files of a node that was never started, by path."""
    return {
        **kubeadm_files(port),
        "/sys/class/dmi/id/product_uuid": "1-2-3\n",
        f"{GPU}/class": "0x030200\n",
        f"{GPU}/vendor": "0x10de\n",
        f"{GPU}/device": "0x2330\n",
    }


def prepare(node: Sandbox) -> None:
    """Lay what an image has into a sandbox, and count how often numaforge itself is started."""
    node.run("mkdir -p /run/systemd/system /opt/numaforge /etc/numaforge/profiles")
    write(node, SETTINGS, "profile: own\n")
    write(node, OWN, PROFILE)
    write(node, PROGRAM, f'#!/bin/sh\necho >> /run/planned\nexec {NUMAFORGE} "$@"\n')
    node.run(f"chmod 755 {PROGRAM}")
    node.run("mount -t tmpfs tmpfs /proc/driver && mkdir /proc/driver/nvidia")
    write(node, DRIVER_PARAMETERS, 'CoherentGPUMemoryMode: "numa"\n')


def write(node: Sandbox, path: str, text: str) -> None:
    node.path(path).write_text(text)
