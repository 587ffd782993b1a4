"""PCI functions: which are GPUs, and which interface and RDMA device belongs to which."""

from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.gpus import read_gpus
from numaforge.machine.topology.model import Nvme
from numaforge.machine.topology.nics import read_nics
from numaforge.machine.topology.pci import read_accelerators, read_nvmes, read_other_devices, read_pci_paths
from numaforge.machine.topology.rdma import read_rdma_devices
from tests.fixtures.pcie import PCI, function
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)


@cases("pci_class, vendor, device, gpus, accelerators", CASES["classes"])
def test_gpus_and_accelerators_are_recognised_by_class_and_id(pci_class, vendor, device, gpus, accelerators):
    snapshot = Snapshot(files=function("0000:01:00.0", pci_class, vendor, device))
    assert (len(read_gpus(snapshot)), len(read_accelerators(snapshot))) == (gpus, accelerators)


@cases("vendor, device, name", CASES["accelerator_name_is_read"])
def test_accelerator_name_is_read(vendor, device, name):
    links = {f"{PCI}/0000:01:00.0/driver": "/sys/bus/pci/drivers/habanalabs"}
    files = function("0000:01:00.0", "0x120000", vendor, device, numa_node="1")
    (found,) = read_accelerators(Snapshot(files, links))
    assert (found.name, found.driver, found.numa_node) == (name, "habanalabs", 1)


@cases("status, numa_node", CASES["numa_node_of_gpu_memory_is_read"])
def test_numa_node_of_gpu_memory_is_read(status, numa_node):
    files = function("0009:01:00.0", "0x030200", device="2342")
    files["/proc/driver/nvidia/gpus/0009:01:00.0/numa_status"] = status
    (gpu,) = read_gpus(Snapshot(files))
    assert gpu.memory_numa_node == numa_node


def test_numa_node_of_minus_one_is_unknown():
    (gpu,) = read_gpus(Snapshot(files=function("0000:01:00.0", "0x030200", numa_node="-1")))
    assert gpu.numa_node is None


def test_link_speed_unknown_to_the_kernel_stays_unknown():
    link = {"current_link_speed": "Unknown", "current_link_width": "255", "max_link_speed": "32.0 GT/s PCIe"}
    (gpu,) = read_gpus(Snapshot(files=function("0000:01:00.0", "0x030200", **link)))
    assert (gpu.link.speed, gpu.link.width, gpu.link.max_speed) == (None, None, 32.0)


def nics(files, links):
    snapshot = Snapshot(files, links)
    found = read_nics(snapshot, read_rdma_devices(snapshot))
    return [(nic.pci_address, nic.interface, nic.rdma_device) for nic in found]


def test_software_rdma_device_belongs_to_the_function_of_its_interface():
    files = function("0000:81:00.0", "0x020000") | {"/sys/class/infiniband/rxe0/parent": "ens10"}
    links = {
        "/sys/class/net/ens10": "/sys/devices/pci0000:80/0000:80:00.0/0000:81:00.0/virtio3/net/ens10",
        "/sys/class/infiniband/rxe0": "/sys/devices/virtual/infiniband/rxe0",
    }
    assert nics(files, links) == [("0000:81:00.0", "ens10", "rxe0")]


def test_bonded_rdma_device_belongs_to_its_function():
    files = function("0000:18:00.0", "0x020000") | {
        "/sys/class/infiniband/mlx5_bond_0/ports/1/gid_attrs/ndevs/0": "bond0"
    }
    links = {
        "/sys/class/net/ens1": "/sys/devices/pci0000:15/0000:18:00.0/net/ens1",
        "/sys/class/net/bond0": "/sys/devices/virtual/net/bond0",
        "/sys/class/infiniband/mlx5_bond_0": "/sys/devices/pci0000:15/0000:18:00.0/infiniband/mlx5_bond_0",
    }
    assert nics(files, links) == [("0000:18:00.0", "ens1", "mlx5_bond_0")]


def test_two_interfaces_of_one_function_are_two_nics():
    files = function("0000:18:00.0", "0x020000") | {
        "/sys/class/infiniband/mlx4_0/ports/1/gid_attrs/ndevs/0": "ens1d1"
    }
    links = {
        f"/sys/class/net/{name}": f"/sys/devices/pci0000:15/0000:18:00.0/net/{name}"
        for name in ("ens1", "ens1d1")
    } | {"/sys/class/infiniband/mlx4_0": "/sys/devices/pci0000:15/0000:18:00.0/infiniband/mlx4_0"}
    assert nics(files, links) == [("0000:18:00.0", "ens1", None), ("0000:18:00.0", "ens1d1", "mlx4_0")]


def test_network_function_without_an_interface_is_a_nic():
    assert nics(function("0000:18:00.0", "0x020700"), {}) == [("0000:18:00.0", None, None)]


def test_pci_path_starts_at_the_root_complex():
    target = "/sys/devices/platform/bus/pci0000:15/0000:15:01.0/0000:1b:00.0"
    paths = read_pci_paths(Snapshot({}, {f"{PCI}/0000:1b:00.0": target}), ["0000:1b:00.0", "0000:ff:00.0"])
    assert paths == {"0000:1b:00.0": ("pci0000:15", "0000:15:01.0", "0000:1b:00.0")}


def test_nvme_controller_is_distinguished_from_other_storage():
    drive, disk = "0000:01:00.0", "0000:02:00.0"
    snapshot = Snapshot(files=function(drive, "0x010802", numa_node="1") | function(disk, "0x010601"))
    assert read_nvmes(snapshot) == (Nvme(drive, None, 1),)


@cases("pci_class, is_other", CASES["other_devices_exclude_known_device_classes"])
def test_other_devices_exclude_known_device_classes(pci_class, is_other):
    snapshot = Snapshot(files=function("0000:00:17.0", pci_class, numa_node="1"))
    found = [(one.pci_address, one.pci_class, one.numa_node) for one in read_other_devices(snapshot)]
    assert found == ([("0000:00:17.0", pci_class[2:6], 1)] if is_other else [])
