"""The shapes of the virtual machines add up, and QEMU is given what they say."""

from __future__ import annotations

import shutil

import pytest

from lab import acpi
from lab.machines import GPU_SERVER, SMALL_GPU_SERVER, machines
from lab.node import Node
from lab.requirements import find_command


@pytest.mark.parametrize("machine", [GPU_SERVER, SMALL_GPU_SERVER])
def test_every_cpu_is_on_one_numa_node(machine):
    cpus = [cpu for index in range(len(machine.numa_nodes)) for cpu in machine.cpus_of(index)]
    assert cpus == list(range(machine.cpus))


@pytest.mark.parametrize(
    ("source", "destination", "distance"), [(0, 0, 10), (0, 1, 12), (1, 2, 21), (3, 0, 21)]
)
def test_distance_grows_from_home_over_the_package_to_the_other_one(source, destination, distance):
    assert GPU_SERVER.distance(source, destination) == distance


def test_no_two_nics_share_an_address():
    macs = GPU_SERVER.nic_macs()
    assert len(set(macs)) == len(macs) == 2


def test_a_lab_of_three_has_one_large_node():
    assert list(machines(3).values()) == [GPU_SERVER, SMALL_GPU_SERVER, SMALL_GPU_SERVER]


@pytest.mark.skipif(find_command("qemu-system-x86_64") is None, reason="qemu-system-x86_64 is not installed")
def test_forwarded_ports_are_on_loopback(tmp_path):
    node = Node("n", GPU_SERVER, tmp_path, 20022, "127.87.1.1")
    netdev = next(argument for argument in node.qemu_arguments() if "hostfwd" in argument)
    assert netdev == "user,id=management,hostfwd=tcp:127.0.0.1:20022-:22,hostfwd=tcp:127.87.1.1:10250-:10250"


def test_the_eleventh_cpu_is_named_in_hexadecimal():
    assert "\\_SB.CPUS.C00A" in acpi.source(16)


@pytest.mark.skipif(shutil.which("iasl") is None, reason="iasl (acpica-tools) is not installed")
def test_the_acpi_table_compiles(tmp_path):
    assert acpi.compile_table(16, tmp_path).read_bytes()[:4] == b"SSDT"
