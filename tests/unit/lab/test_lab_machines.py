"""The shapes of the virtual machines add up, and QEMU is given what they say."""

from __future__ import annotations

import shutil

import pytest

from lab import acpi
from lab.machines import GPU_SERVER, SMALL_GPU_SERVER, TRAY, machines
from lab.node import Node
from lab.requirements import find_command

QEMU = pytest.mark.skipif(
    find_command("qemu-system-x86_64") is None, reason="qemu-system-x86_64 is not installed"
)


@pytest.mark.parametrize("machine", [GPU_SERVER, SMALL_GPU_SERVER, TRAY])
def test_every_cpu_is_on_one_numa_node(machine):
    cpus = [cpu for index in range(len(machine.numa_nodes)) for cpu in machine.cpus_of(index)]
    assert cpus == list(range(machine.cpus))


@pytest.mark.parametrize(
    ("source", "destination", "distance"), [(0, 0, 10), (0, 1, 12), (1, 2, 21), (3, 0, 21)]
)
def test_distance_grows_from_home_over_the_package_to_the_other_one(source, destination, distance):
    assert GPU_SERVER.distance(source, destination) == distance


@pytest.mark.parametrize(
    ("source", "destination", "distance"),
    [
        pytest.param(0, 1, 40, id="the-other-cpu"),
        pytest.param(2, 9, 11, id="within-a-gpu"),
        pytest.param(2, 10, 40, id="another-gpu"),
        pytest.param(0, 17, 80, id="a-gpu-beside-the-cpu"),
        pytest.param(0, 18, 120, id="a-gpu-of-the-other-cpu"),
        pytest.param(33, 1, 80, id="the-last-gpu-beside-the-second-cpu"),
    ],
)
def test_distances_on_a_tray_are_a_gb200s(source, destination, distance):
    assert TRAY.distance(source, destination) == TRAY.distance(destination, source) == distance


def test_a_tray_has_34_numa_nodes_and_memory_of_gpus_on_the_first_of_each_eight():
    assert (TRAY.gpu_nodes, TRAY.gpu_memory_nodes) == (tuple(range(2, 34)), (2, 10, 18, 26))
    assert (GPU_SERVER.gpu_nodes, GPU_SERVER.gpu_memory_nodes) == ((), ())


def test_no_two_nics_share_an_address():
    macs = GPU_SERVER.nic_macs()
    assert len(set(macs)) == len(macs) == 2


def test_a_lab_of_three_has_one_large_node():
    assert list(machines(3).values()) == [GPU_SERVER, SMALL_GPU_SERVER, SMALL_GPU_SERVER]
    assert list(machines(2, TRAY).values()) == [TRAY, SMALL_GPU_SERVER]


@QEMU
def test_a_cpu_that_is_never_plugged_keeps_each_numa_node_of_a_gpu(tmp_path):
    arguments = Node("n", TRAY, tmp_path, 20022, "127.87.1.1").qemu_arguments()
    assert "8,sockets=10,cores=2,threads=2,maxcpus=40" in arguments
    kept = [argument for argument in arguments if argument.startswith("node,") and "memdev" not in argument]
    assert kept == [f"node,nodeid={node},cpus={node + 6}" for node in range(2, 34)]


@QEMU
def test_forwarded_ports_are_on_loopback(tmp_path):
    node = Node("n", GPU_SERVER, tmp_path, 20022, "127.87.1.1")
    netdev = next(argument for argument in node.qemu_arguments() if "hostfwd" in argument)
    assert netdev == "user,id=management,hostfwd=tcp:127.0.0.1:20022-:22,hostfwd=tcp:127.87.1.1:10250-:10250"


def test_the_eleventh_cpu_is_named_in_hexadecimal():
    assert "\\_SB.CPUS.C00A" in acpi.source(16)


@pytest.mark.skipif(shutil.which("iasl") is None, reason="iasl (acpica-tools) is not installed")
def test_the_acpi_table_compiles(tmp_path):
    assert acpi.compile_table(16, tmp_path).read_bytes()[:4] == b"SSDT"
