"""What is taken of RDMA devices, and that nothing that identifies them is."""

import tempfile
from pathlib import Path

from numaforge.lib.framing import Answer
from numaforge.machine.snapshot.capture import from_root, parse_output, script
from numaforge.machine.topology.read import read_topology
from tests.fixtures.captures import captured_by_nobody
from tests.fixtures.rdma_hosts import PF, SWITCH, VF, rdma_device, rdma_host, write_rdma_host
from tests.fixtures.trees import write


def test_script_and_folder_reader_agree(shell, tmp_path):
    machine = rdma_host(
        rdma_device(
            "mlx5_0", PF, "ens1", virtual_functions=1, mtu=9000, operstate="up", firmware="28.39.1002"
        ),
        rdma_device("mlx5_1", VF, management=None, physical_function=PF),
        rdma_device("mlx5_8", SWITCH, management=True, character_devices=("issm0", "umad0", "uverbs0")),
    )
    write_rdma_host(tmp_path, machine)
    finished = shell(script(str(tmp_path)))
    assert finished.stderr == ""
    assert parse_output(finished.stdout) == from_root(tmp_path)
    assert read_topology(from_root(tmp_path)).rdma_devices == machine.rdma_devices


def test_unreadable_product_data_is_reported():
    with tempfile.TemporaryDirectory() as folder:
        root = write_rdma_host(Path(folder), rdma_host(rdma_device("mlx5_0", PF)))
        (root / f"sys/devices/pci0000:17/0000:17:01.0/{PF}/vpd").chmod(0)
        captured = captured_by_nobody(root)
    assert captured.unreadable == ("/sys/class/infiniband/mlx5_0/device/vpd",)
    assert read_topology(captured).rdma_devices[0].management is None


def test_only_the_management_flag_is_captured_from_product_data(shell, tmp_path):
    write_rdma_host(
        tmp_path, rdma_host(rdma_device("mlx5_0", PF), rdma_device("mlx5_8", SWITCH, management=True))
    )
    written = (tmp_path / f"sys/devices/pci0000:2a/0000:2a:01.0/{SWITCH}/vpd").read_text()
    assert "MT1234X567" in written
    printed = shell(script(str(tmp_path))).stdout
    assert "MT1234X567" not in printed
    taken = {path: text for path, text in parse_output(printed).files.items() if path.endswith("/vpd")}
    folder = "/sys/class/infiniband/mlx5_{}/device/vpd"
    assert taken == {folder.format(0): "", folder.format(8): "SW_MNG"}


def test_product_data_is_unknown_when_its_read_fails(shell, tmp_path):
    write_rdma_host(tmp_path, rdma_host(rdma_device("mlx5_0", PF)))
    data = tmp_path / f"sys/devices/pci0000:17/0000:17:01.0/{PF}/vpd"
    data.unlink()
    data.mkdir()  # it opens, and reading it fails
    (found,) = read_topology(parse_output(shell(script(str(tmp_path))).stdout)).rdma_devices
    assert found.management is None


def test_capture_waits_for_slow_product_data(shell, tmp_path):
    write_rdma_host(tmp_path / "root", rdma_host(rdma_device("mlx5_8", SWITCH, management=True)))
    slow = write(tmp_path, "/bin/tr", '#!/bin/sh\nsleep 1\nPATH=${PATH#*:} exec tr "$@"\n')
    slow.chmod(0o755)
    printed = shell(script(str(tmp_path / "root")), {"PATH_FIRST": str(slow.parent)}).stdout
    assert Answer.of(printed).status == 0
    assert read_topology(parse_output(printed)).rdma_devices[0].management
