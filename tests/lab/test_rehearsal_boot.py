"""The first boot of an image: the node's own kubelet tries the plan, within its share of CPU time."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from lab import kubelets, pki, requirements
from lab.cluster import Lab
from lab.machines import SMALL_GPU_SERVER
from lab.node import Node
from numaforge.image.first_boot.chosen import WRITTEN
from numaforge.image.first_boot.stamp import STATE

pytestmark = [pytest.mark.long, pytest.mark.vm]
UNIT = "numaforge-rehearsal.service"
PROFILE = b"name: rehearsed\nextends: lab\nmaintenance: {rehearsal: when-possible}\n"
MOST_SECONDS = 2.0
STARTS_OF_A_KUBELET = """
import os, resource, subprocess, sys
os.environ |= {"GOMAXPROCS": "1", "GOGC": "off"}
for _ in range(5):
    subprocess.run([sys.argv[1], "--version"], stdout=subprocess.DEVNULL, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
"""


class RehearsingLab(Lab):
    """A lab whose node gets its profile as cloud-init's `write_files` leaves it, before its first boot."""

    def _identity(
        self, node: Node, ca: pki.KeyPair, login: str, host_private: bytes, host_public: str
    ) -> dict[str, tuple[bytes, int, int]]:
        files = super()._identity(node, ca, login, host_private, host_public)
        return {**files, WRITTEN: (PROFILE, 0o644, 0)}


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node after its first boot from an image, Ready."""
    requirements.ensure()
    lab = RehearsingLab(tmp_path_factory.mktemp("r"), baked=True, first=SMALL_GPU_SERVER)
    lab.up(1, boot=True)
    yield lab.nodes[0]
    lab.down()


def test_first_boot_rehearses_within_its_share_of_cpu_time(booted: Node) -> None:
    """An emulated CPU is as much slower as the kubelet's program alone is on it."""
    assert json.loads(booted.run(f"cat {STATE}/record.json"))["profile"] == "rehearsed"
    assert "the kubelet starts with the plan in its rehearsal" in booted.run("journalctl -b -o cat")
    entries = booted.run(f"journalctl -b -o json UNIT={UNIT}").splitlines()
    used = [json.loads(entry)["CPU_USAGE_NSEC"] for entry in entries if "CPU_USAGE_NSEC" in entry]
    assert used, entries
    emulated = float(booted.run("python3 - /usr/bin/kubelet", input_text=STARTS_OF_A_KUBELET))
    here = subprocess.run(
        [sys.executable, "-", str(kubelets.build(kubelets.OWN))],
        input=STARTS_OF_A_KUBELET,
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = int(used[-1]) / 1e9
    slower = emulated / float(here.stdout)
    print(f"{seconds:.1f} s of CPU on a node that is {slower:.0f} times slower: {seconds / slower:.2f} s")
    assert seconds / slower <= MOST_SECONDS
