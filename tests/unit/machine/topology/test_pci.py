"""PCI functions: which are GPUs, and which interface and RDMA device belongs to which."""

from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.gpus import read_gpus
from numaforge.machine.topology.model import Nvme
from numaforge.machine.topology.nics import read_nics
from numaforge.machine.topology.pci import read_accelerators, read_nvmes, read_other_devices, read_pci_paths
from numaforge.machine.topology.rdma import read_rdma_devices
from tests.fixtures.pcie import PCI, function
from tests.fixtures.tables import cases


@cases(
    "pci_class, vendor, device, gpus, accelerators",
    {
        "nvidia-3d-controller": ("0x030200", "10de", "2330", 1, 0),
        "nvidia-vga": ("0x030000", "10de", "2684", 1, 0),
        "amd-instinct-mi250": ("0x038000", "1002", "740c", 1, 0),
        "amd-instinct-mi300x-has-no-display-class": ("0x120000", "1002", "74a1", 1, 0),
        "amd-alveo-is-an-accelerator": ("0x120000", "10ee", "500c", 0, 1),
        "intel-max": ("0x038000", "8086", "0bd5", 1, 0),
        "aspeed-console": ("0x030000", "1a03", "2000", 0, 0),
        "matrox-console": ("0x030000", "102b", "0532", 0, 0),
        "ati-server-console": ("0x030000", "1002", "515e", 0, 0),
        "gaudi-is-an-accelerator": ("0x120000", "1da3", "1020", 0, 1),
        "vector-engine-is-an-accelerator": ("0x0b4000", "1bcf", "001c", 0, 1),
        "a-switch-is-neither": ("0x060400", "10de", "1af1", 0, 0),
    },
)
def test_gpus_and_accelerators_are_recognised_by_class_and_id(pci_class, vendor, device, gpus, accelerators):
    snapshot = Snapshot(files=function("0000:01:00.0", pci_class, vendor, device))
    assert (len(read_gpus(snapshot)), len(read_accelerators(snapshot))) == (gpus, accelerators)


@cases(
    "vendor, device, name",
    {
        "gaudi": ("1da3", "1000", "Gaudi"),
        "gaudi-2": ("1da3", "1020", "Gaudi 2"),
        "gaudi-3": ("1da3", "1060", "Gaudi 3"),
        "a-device-that-is-newer-than-the-table": ("1da3", "2000", None),
        "another-vendor": ("8086", "1020", None),
    },
)
def test_accelerator_name_is_read(vendor, device, name):
    links = {f"{PCI}/0000:01:00.0/driver": "/sys/bus/pci/drivers/habanalabs"}
    files = function("0000:01:00.0", "0x120000", vendor, device, numa_node="1")
    (found,) = read_accelerators(Snapshot(files, links))
    assert (found.name, found.driver, found.numa_node) == (name, "habanalabs", 1)


@cases(
    "status, numa_node",
    {
        "online": ("Node:      253\nStatus:    online\nAddress:   40000000000", 253),
        "offline": ("Node:      253\nStatus:    offline\nAddress:   40000000000", None),
        "failed": ("Node:      253\nStatus:    online_failed", None),
        "the-driver-keeps-it-to-itself": ("Node:      -1\nStatus:    disabled", None),
        "no-such-file": ("", None),
    },
)
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


@cases(
    "pci_class, is_other",
    {
        "SATA": ("0x010601", True),
        "USB": ("0x0c0330", True),
        "NVMe has a kind of its own": ("0x010802", False),
        "and so has a NIC": ("0x020000", False),
        "bridges are drawn as switches": ("0x060400", False),
        "system peripherals of a chipset": ("0x088000", False),
        "counters of a chipset": ("0x110100", False),
    },
)
def test_other_devices_exclude_known_device_classes(pci_class, is_other):
    snapshot = Snapshot(files=function("0000:00:17.0", pci_class, numa_node="1"))
    found = [(one.pci_address, one.pci_class, one.numa_node) for one in read_other_devices(snapshot)]
    assert found == ([("0000:00:17.0", pci_class[2:6], 1)] if is_other else [])
