"""RDMA devices: what sysfs shows of them, software and bonds included."""

from dataclasses import replace

import pytest

from numaforge.machine.snapshot.capture import from_root
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.model import Nic, RdmaDevice
from numaforge.machine.topology.rdma import read_rdma_devices, read_rdma_netns
from numaforge.machine.topology.read import read_topology
from tests.fixtures.rdma_hosts import (
    CARD,
    PF,
    PORT,
    SECOND,
    SWITCH,
    VF,
    rdma_device,
    rdma_host,
    write_rdma_host,
)
from tests.fixtures.tables import cases
from tests.fixtures.trees import write

SOFTWARE = RdmaDevice("rxe0", None, "ens1", None, 1, (PORT,), ("uverbs3",), node_type="CA")
DEVICES = [
    pytest.param(
        [rdma_device("mlx5_0", PF, character_devices=("issm0", "umad0", "uverbs0"), node_type="CA")],
        id="character-devices",
    ),
    pytest.param([rdma_device("irdma0", PF, character_devices=("uverbs0",), node_type="RNIC")], id="iwarp"),
    pytest.param(
        [
            rdma_device("mlx5_0", PF, "ens1", virtual_functions=1, max_virtual_functions=16),
            rdma_device("mlx5_1", VF, management=None, physical_function=PF),
        ],
        id="a-virtual-function-names-its-physical-one",
    ),
    pytest.param(
        [rdma_device("mlx5_8", SWITCH, management=True)], id="the-management-function-of-an-nvswitch"
    ),
    pytest.param([rdma_device("mlx5_0", PF, management=None)], id="unreadable-product-data-are-unknown"),
    pytest.param([rdma_device("mlx5_0", PF, numa_node=None)], id="a-numa-node-of-minus-one-is-unknown"),
    pytest.param(
        [rdma_device("mlx5_0", PF, "ens1f0"), rdma_device("mlx5_1", SECOND, "ens1f1")],
        id="a-card-of-two-functions",
    ),
    pytest.param(
        [rdma_device("mlx5_0", PF, ports=(PORT, replace(PORT, number=2, state="DOWN")))],
        id="one-function-of-two-ports",
    ),
    pytest.param(
        [
            rdma_device(
                "mlx5_0", PF, "ens1", mtu=9000, operstate="up", firmware="28.39.1002", board="MT_0000000838"
            )
        ],
        id="interface-and-firmware",
    ),
    pytest.param(
        [rdma_device("mlx5_2", PF), rdma_device("mlx5_10", CARD)], id="names-in-the-order-of-their-numbers"
    ),
    pytest.param([rdma_device("mlx5_0", PF)], id="no-interface"),
]


@pytest.mark.parametrize("devices", DEVICES)
def test_every_rdma_device_is_read(devices, tmp_path):
    laid_out = rdma_host(*devices)
    assert read_topology(from_root(write_rdma_host(tmp_path, laid_out))).rdma_devices == laid_out.rdma_devices


def test_device_of_two_bonded_ports_names_both(tmp_path):
    bonded = rdma_device("mlx5_bond_0", PF, "ens1f0", bond="bond0", bond_interfaces=("ens1f0", "ens1f1"))
    second = Nic(SECOND, "ens1f1", None, "InfiniBand", None, "mlx5_core", 0)
    laid_out = rdma_host(bonded, nics=[second])
    assert read_topology(from_root(write_rdma_host(tmp_path, laid_out))).rdma_devices == (bonded,)


def test_bond_of_ports_with_a_device_each_is_not_an_rdma_device(tmp_path):
    devices = (rdma_device("mlx5_0", PF, "ens1f0"), rdma_device("mlx5_1", SECOND, "ens1f1"))
    root = write_rdma_host(tmp_path, rdma_host(*devices))
    write(root, "/sys/class/net/bond0/bonding/slaves", "ens1f0 ens1f1\n")
    assert read_topology(from_root(root)).rdma_devices == devices


def test_software_rdma_device_gets_its_numa_node_from_the_interface(tmp_path):
    laid_out = rdma_host(SOFTWARE, nics=[Nic(CARD, "ens1", "rxe0", "Ethernet", PORT.rate, "virtio-pci", 1)])
    read = read_topology(from_root(write_rdma_host(tmp_path, laid_out)))
    assert (read.rdma_devices, read.nics) == ((SOFTWARE,), laid_out.nics)


def test_software_rdma_device_does_not_belong_to_the_function_above():
    files = {
        f"/sys/bus/pci/devices/{CARD}/numa_node": "1",
        "/sys/class/infiniband/rxe0/parent": "ens1",
        "/sys/class/infiniband/rxe0/device/sriov_totalvfs": "16",
    }
    links = {
        "/sys/class/net/ens1": f"/sys/devices/pci0000:80/{CARD}/net/ens1",
        "/sys/class/infiniband/rxe0": f"/sys/devices/pci0000:80/{CARD}/infiniband/rxe0",
    }
    (found,) = read_rdma_devices(Snapshot(files, links))
    assert (found.pci_address, found.numa_node, found.max_virtual_functions) == (None, 1, None)


@cases("text, mode", {"shared": ("Y\n", "shared"), "exclusive": ("N", "exclusive"), "no-ib-core": ("", None)})
def test_netns_mode_comes_from_ib_core(text, mode):
    assert read_rdma_netns({"/sys/module/ib_core/parameters/netns_mode": text}) == mode
