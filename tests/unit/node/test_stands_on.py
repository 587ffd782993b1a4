"""Which modules a node depends on: what boots and mounts need, and the ways in, under all shells."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from numaforge.lib import shell as scripts
from tests.fixtures.tables import cases, tables
from tests.fixtures.trees import link, write

CASES = tables(__file__)

FOLDERS = ("/sys/", "/proc/", "/etc/", "/dev/disk/", "/run/")
NVME = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme0/nvme0n1"
SATA = "/sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda"
MODPROBE = {
    "xfs": "libcrc32c xfs",
    "vfat": "fat vfat",
    "nvme": "nvme_core nvme",
    "mlx5_core": "mlxfw mlx5_core",
    "nfs": "sunrpc nfs",
}
"""What modprobe would load for a module."""


class Host:
    """A host of files: what stands below /sys, /proc, /etc and /dev is in a folder."""

    def __init__(self, root: Path, shell: list[str]) -> None:
        self.root, self.shell, self.routes = root, shell, {"": ""}
        for path in ("/etc/fstab", "/proc/swaps", "/proc/net/tcp", "/proc/net/tcp6", "/proc/1/mountinfo"):
            write(root, path, "")

    def device(self, path: str, **drivers: str) -> None:
        """Make a device, of whose ancestors some have drivers: by their names with "_" for other signs."""
        (self.root / path[1:]).mkdir(parents=True, exist_ok=True)
        for name, driver in drivers.items():
            for folder in (Path(path), *Path(path).parents):
                if "".join(c if c.isalnum() else "_" for c in folder.name) == name.lstrip("_"):
                    module = f"/sys/module/{driver}"
                    write(self.root, f"{module}/initstate", "live\n")
                    (self.root / str(folder)[1:] / "driver").mkdir(exist_ok=True)
                    link(self.root, f"{folder}/driver/module", str(self.root) + module)

    def block(self, number: str, path: str, **drivers: str) -> None:
        self.device(path, **drivers)
        name = path.rpartition("/")[2]
        for place in (f"/sys/dev/block/{number}", f"/sys/class/block/{name}", f"/sys/block/{name}"):
            link(self.root, place, str(self.root) + path)

    def interface(self, name: str, path: str, **drivers: str) -> None:
        self.device(path, **drivers)
        write(self.root, f"/sys/class/net/{name}/uevent", f"INTERFACE={name}\n")
        link(self.root, f"/sys/class/net/{name}/device", str(self.root) + path)

    def mounted(self, place: str, type_: str, device: str, source: str, options: str = "rw") -> None:
        file = self.root / "proc/1/mountinfo"
        line = f"36 35 {device} / {place} rw,noatime shared:1 - {type_} {source} {options}\n"
        file.write_text(file.read_text() + line)

    def stands_on(self, call: str = "stands_on", environment: Mapping[str, str] | None = None) -> set[str]:
        programs = self.root / "programs"
        programs.mkdir(exist_ok=True)
        cases = "".join(f"{name}) list='{found}' ;;\n" for name, found in MODPROBE.items())
        modprobe = f'case $2 in\n{cases}*) exit 1 ;;\nesac\nfor m in $list; do echo "insmod /lib/$m.ko"; done'
        answers = "".join(f"*'{asked}'*) echo '{said}' ;;\n" for asked, said in self.routes.items() if asked)
        for name, body in (("modprobe", modprobe), ("ip", f"case $* in\n{answers}*) : ;;\nesac")):
            file = write(self.root, f"/programs/{name}", f"#!/bin/sh\n{body}\n")
            file.chmod(0o755)
        names = ("ways", "loaded", "stands_on")
        library = scripts.library(*(f"roles/modules/{name}" for name in names))
        for folder in FOLDERS:
            library = library.replace(folder, f"{self.root}{folder}")
        library = library.replace(f"{self.root}/proc/$process", "/none/$process")
        done = subprocess.run(
            [*self.shell, "-s"],
            input=f"{library}{call}\n",
            env={"PATH": f"{programs}:{os.environ['PATH']}", **(environment or {})},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        return {*done.stdout.splitlines()}


@pytest.fixture
def host(tmp_path: Path, shell: list[str]) -> Host:
    return Host(tmp_path, shell)


def modules(lines: set[str], why: str) -> set[str]:
    return {line.split()[0] for line in lines if line.split()[2] == why}


def test_bare_host_depends_only_on_container_modules(host):
    assert host.stands_on() == {"overlay - containers"}


def test_mounted_file_system_needs_its_modules_and_its_disks(host):
    host.block("259:1", NVME, _0000_01_00_0="nvme", _0000_00_01_0="pcieport")
    host.mounted("/data", "xfs", "259:1", "/dev/nvme0n1")
    found = host.stands_on()
    assert modules(found, "file-system") >= {"xfs", "libcrc32c"}
    assert modules(found, "block-device") == {"nvme", "nvme_core", "pcieport"}
    assert "nvme /data block-device" in found


def test_partition_depends_on_its_disk(host):
    host.block("8:0", SATA, _0_0_0_0="sd_mod", _0000_00_1f_2="ahci")
    host.block("8:1", f"{SATA}/sda1")
    write(host.root, f"{SATA}/sda1/partition", "1\n")
    host.mounted("/", "ext4", "8:1", "/dev/sda1")
    assert modules(host.stands_on(), "block-device") == {"sd_mod", "ahci"}


def test_volumes_arrays_and_multipaths_need_their_members_modules(host):
    host.block("8:0", SATA, _0_0_0_0="sd_mod", _0000_00_1f_2="ahci")
    array = "/sys/devices/virtual/block/md0"
    write(host.root, f"{array}/md/level", "raid1\n")
    host.block("9:0", array)
    link(host.root, f"{array}/slaves/sda", str(host.root) + SATA)
    volume = "/sys/devices/virtual/block/dm-0"
    write(host.root, f"{volume}/dm/uuid", "CRYPT-LUKS2-1\n")
    write(host.root, "/sys/module/dm_crypt/initstate", "live\n")
    host.block("253:0", volume)
    link(host.root, f"{volume}/slaves/md0", str(host.root) + array)
    host.mounted("/", "ext4", "253:0", "/dev/mapper/root")
    found = modules(host.stands_on(), "block-device")
    assert found == {"dm_mod", "dm_crypt", "md_mod", "raid1", "sd_mod", "ahci"}


def test_multipath_namespace_needs_all_of_its_controllers(host):
    controller = NVME.rpartition("/")[0]
    host.device(controller, _0000_01_00_0="nvme")
    write(host.root, f"{controller}/transport", "pcie\n")
    subsystem = "/sys/devices/virtual/nvme-subsystem/nvme-subsys0"
    host.block("259:0", f"{subsystem}/nvme0n1")
    link(host.root, f"{subsystem}/nvme0", str(host.root) + controller)
    host.mounted("/", "ext4", "259:0", "/dev/nvme0n1")
    assert modules(host.stands_on(), "block-device") == {"nvme", "nvme_core"}


@cases(
    "entry",
    {
        "by-its-uuid": "UUID=17-42 /boot/efi vfat umask=0077 0 1",
        "mounted-when-it-is-used": 'UUID="17-42" /boot/efi vfat noauto,x-systemd.automount 0 1',
        "by-its-device": "/dev/sda /boot/efi\tvfat\tdefaults 0 1",
    },
)
def test_fstab_entry_counts_as_mounted(host, entry):
    host.block("8:0", SATA, _0_0_0_0="sd_mod", _0000_00_1f_2="ahci")
    link(host.root, "/dev/disk/by-uuid/17-42", "../../sda")
    write(host.root, "/etc/fstab", f"# comment\n\n{entry}\n")
    found = host.stands_on()
    assert modules(found, "file-system") >= {"vfat", "fat", "nls_cp437", "nls_iso8859_1"}
    assert modules(found, "block-device") == {"sd_mod", "ahci"}


def test_mount_units_count_as_mounted_file_systems(host):
    unit = "[Mount]\nWhat=/dev/none\nWhere=/scratch\nType=xfs\n"
    write(host.root, "/etc/systemd/system/scratch.mount", unit)
    write(host.root, "/run/systemd/generator.late/boot-efi.mount", unit.replace("xfs", "vfat"))
    assert modules(host.stands_on(), "file-system") >= {"xfs", "vfat"}


def test_swap_depends_on_its_disk(host):
    host.block("8:0", SATA, _0_0_0_0="sd_mod", _0000_00_1f_2="ahci")
    write(host.root, "/etc/fstab", "UUID=5 none swap sw 0 0\n")
    link(host.root, "/dev/disk/by-uuid/5", "../../sda")
    assert modules(host.stands_on(), "block-device") == {"sd_mod", "ahci"}


def test_needed_module_needs_the_modules_that_it_uses(host):
    host.mounted("/data", "ext4", "0:1", "none")
    link(host.root, "/sys/module/mbcache/holders/ext4", "../../ext4")
    link(host.root, "/sys/module/ext4/initstate", "live")
    link(host.root, "/sys/module/deeper/holders/mbcache", "../../mbcache")
    found = modules(host.stands_on(), "file-system")
    assert {"mbcache", "ext4"} <= found


def nic(host: Host, name: str, driver: str = "mlx5_core") -> None:
    host.interface(name, f"/sys/devices/pci0000:15/0000:17:00.0/{name}-device", _0000_17_00_0=driver)


@cases(
    "routes, found",
    {
        "ipv4": ({"-4 route show table all": "default via 192.0.2.1 dev eth0"}, True),
        "ipv6": ({"-6 route show table all": "default via fe80::1 dev eth0"}, True),
        "of-a-policy": ({"-4 route show table all": "default via 192.0.2.1 dev eth0 table 100"}, True),
        "no-default": ({"-4 route show table all": "192.0.2.0/24 dev eth0"}, False),
    },
)
def test_interface_of_each_default_route_is_needed(host, routes, found):
    nic(host, "eth0")
    host.routes = routes
    assert (modules(host.stands_on(), "default-route") == {"mlx5_core", "mlxfw"}) is found


def test_vlan_over_a_bond_needs_vlan_bond_and_nic(host):
    nic(host, "eth0")
    write(host.root, "/sys/class/net/bond0/uevent", "DEVTYPE=bond\n")
    link(host.root, "/sys/class/net/bond0/lower_eth0", "../eth0")
    write(host.root, "/sys/class/net/bond0.7/uevent", "DEVTYPE=vlan\n")
    link(host.root, "/sys/class/net/bond0.7/lower_bond0", "../bond0")
    host.routes = {"-4 route show table all": "default via 192.0.2.1 dev bond0.7"}
    assert modules(host.stands_on(), "default-route") == {"8021q", "bonding", "mlx5_core", "mlxfw"}


def socket(local: str, state: str = "01") -> str:
    return (
        "  sl  local_address rem_address   st tx_queue\n"
        f"   0: {local} 0200A8C0:D431 {state} 00000000:00000000 02:000A7D4E 00000000     0 0 22 2 0\n"
    )


@cases("file, local, state, port, address", CASES["connections"])
def test_interface_of_an_sshd_connection_is_needed(host, file, local, state, port, address):
    nic(host, "eth0")
    write(host.root, f"/proc/net/{file}", socket(local, state))
    host.routes = {f"address show to {address}": "2: eth0    inet 192.168.0.1/24 scope global eth0"}
    found = host.stands_on(environment={"SSH_PORT": port})
    assert (modules(found, "connection") == {"mlx5_core", "mlxfw"}) is (address is not None)


@cases(
    "options, routes, found",
    {
        "the-interface-to-its-server": (
            "rw,vers=4.2,proto=tcp,clientaddr=10.0.0.9,addr=10.0.0.1",
            {"route get 10.0.0.1": "10.0.0.1 dev eth0 src 10.0.0.9"},
            {"mlx5_core", "mlxfw"},
        ),
        "unknown-is-all": ("rw,proto=tcp,addr=10.0.0.1", {}, {"mlx5_core", "mlxfw", "e1000e"}),
        "over-rdma": (
            "rw,proto=rdma,addr=10.0.0.1",
            {"route get 10.0.0.1": "10.0.0.1 dev eth0 src 10.0.0.9"},
            {"mlx5_core", "mlxfw", "ib_core", "rdma_cm", "rpcrdma", "mlx5_ib", "ib_uverbs"},
        ),
    },
)
def test_network_storage_needs_its_nic(host, options, routes, found):
    nic(host, "eth0")
    host.interface("eth1", "/sys/devices/pci0000:00/0000:00:19.0/eth1-device", _0000_00_19_0="e1000e")
    for user in ("ib_uverbs", "mlx5_ib"):
        link(host.root, f"/sys/module/ib_core/holders/{user}", f"../../{user}")
        write(host.root, f"/sys/module/{user}/initstate", "live\n")
    link(host.root, "/sys/class/infiniband/mlx5_0/device", f"{host.root}/sys/devices/pci0000:15/0000:17:00.0")
    host.mounted("/scratch", "nfs4", "0:52", "10.0.0.1:/scratch", options)
    host.routes = {"": "", **routes}
    said = host.stands_on()
    assert modules(said, "storage-network") == found
    assert modules(said, "file-system") >= {"nfs", "nfsv4", "sunrpc"}


def test_disk_over_fabrics_needs_its_transport_and_its_nic(host):
    nic(host, "eth0")
    controller = "/sys/class/nvme/nvme3"
    write(host.root, f"{controller}/transport", "tcp\n")
    write(host.root, f"{controller}/address", "traddr=10.0.0.1,trsvcid=4420\n")
    host.routes = {"route get 10.0.0.1": "10.0.0.1 dev eth0 src 10.0.0.9"}
    found = host.stands_on()
    assert modules(found, "block-device") == {"nvme_tcp", "nvme_fabrics", "nvme_core"}
    assert modules(found, "storage-network") == {"mlx5_core", "mlxfw"}
