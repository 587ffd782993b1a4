"""One virtual node: its QEMU process, its identity, its saved state."""

from __future__ import annotations

import io
import shlex
import subprocess
import tarfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lab import acpi, tsc
from lab.errors import LabError
from lab.image import Image
from lab.machines import MANAGEMENT_MAC, MEMORY_BLOCK_MIB, Machine, NumaNode
from lab.process import Daemon
from lab.qmp import Monitor, connect, listens
from lab.requirements import command
from lab.waiting import wait_until

SAVED_STATE = "ready"
MACHINE_ARGUMENTS = "machine-arguments"
"""The file with the kernel parameters of the machine, which are not on its disk; GRUB takes them from the
firmware (`/etc/grub.d/01_machine`). They are measured once: each boot of a node has the same."""
ACCELERATOR = "tcg,thread=single,tb-size=1024"
"""One host thread for all virtual CPUs. With one each (thread=multi) a guest hangs now and then while it
boots: Linux patches code that all CPUs run (static keys), and QEMU 7.2 may keep the translation of the
breakpoint that stands there for a moment. On two host cores that would be no more than a tenth faster."""
CPU = "Skylake-Server-v1,-erms,-avx,-avx2,-f16c,-fma,-xsave,-pku,-smap,-smep"
"""Without what QEMU emulates slowly, and programs use because it is fast on a real CPU: with these a page is
cleared byte by byte, and programs take half as long again."""
HOST_SEEN_FROM_NODE = "10.0.2.2"
KUBELET_PORT = 10250

PATIENCE_S = 600.0
"""For a command on the node: one that takes a second takes a minute where other work has the host's cores."""

UID_OF_USER = {"root": 0, "lab": 1000, "admin": 1001}
"""Who may log in: root, an ordinary user without sudo, and one with sudo and no password."""


@dataclass(frozen=True)
class Node:
    """A worker of the lab."""

    name: str
    machine: Machine
    state: Path
    """The lab's state directory."""
    ssh_port: int
    kubelet_address: str
    """The loopback address of this machine that reaches the node's kubelet on its usual port."""

    @property
    def folder(self) -> Path:
        return self.state / "nodes" / self.name

    @property
    def disk(self) -> Path:
        return self.folder / "disk.qcow2"

    @property
    def daemon(self) -> Daemon:
        return Daemon(self.name, self.state)

    def monitor(self) -> Monitor:
        """Return a connection to this node's QEMU, to be entered as a context."""
        return Monitor(self.folder / "qmp.sock")

    def create(self, image: Image, identity: dict[str, tuple[bytes, int, int]]) -> None:
        """Write an empty disk over the image, what the firmware says, and what the first boot unpacks.

        `identity` maps paths in the guest to content, mode and owner.
        """
        self.folder.mkdir(parents=True)
        acpi.compile_table(self.machine.cpus, self.folder)
        (self.folder / MACHINE_ARGUMENTS).write_text(_machine_arguments(self.machine))
        backing = ["-b", str(image.disk), "-F", "raw"]
        _quietly(command("qemu-img"), "create", "-q", "-f", "qcow2", *backing, str(self.disk))
        macs = " ".join(self.machine.nic_macs(rdma_only=True))
        files = {
            "etc/hostname": (f"{self.name}\n".encode(), 0o644, 0),
            "etc/hosts": (f"127.0.0.1 localhost\n127.0.1.1 {self.name}\n".encode(), 0o644, 0),
            "etc/lab/machine": (f'RDMA_MACS="{macs}"\nGPU={self.machine.gpu}\n'.encode(), 0o644, 0),
            **identity,
        }
        if nodes := self.machine.gpu_nodes:
            held = " ".join(map(str, self.machine.gpu_memory_nodes))
            tray = f'GPU_NODES={nodes[0]}-{nodes[-1]}\nGPU_MEMORY_NODES="{held}"\n'
            files["etc/lab/tray"] = (tray.encode(), 0o644, 0)
        with tarfile.open(self.folder / "identity.tar", "w") as tar:
            for path, (content, mode, owner) in files.items():
                entry = tarfile.TarInfo(path)
                entry.size, entry.mode, entry.uid, entry.gid = len(content), mode, owner, owner
                entry.mtime = int(time.time())
                tar.addfile(entry, io.BytesIO(content))
        (self.folder / "identity.tar").chmod(0o600)

    def power_on(self, *, restore: str | None = None) -> None:
        """Start QEMU, from power-on or paused in a saved state."""
        (self.folder / "qmp.sock").unlink(missing_ok=True)
        arguments = self.qemu_arguments()
        self.daemon.start([*arguments, "-S", "-loadvm", restore] if restore else arguments)
        self._await_monitor()

    def qemu_arguments(self) -> list[str]:
        """Return QEMU's command line, which must be the same for a saved state to load."""
        forwards = (
            f"hostfwd=tcp:127.0.0.1:{self.ssh_port}-:22,"
            f"hostfwd=tcp:{self.kubelet_address}:{KUBELET_PORT}-:{KUBELET_PORT}"
        )
        machine = self.machine
        packages = machine.packages + _never_plugged(machine)
        sockets = (
            f"sockets={packages},cores={machine.cores_per_package},threads={machine.threads_per_core},"
            f"maxcpus={packages * machine.cpus // machine.packages}"
        )
        return [
            command("qemu-system-x86_64"),
            *("-name", self.name, "-machine", "q35", "-nodefaults", "-no-user-config", "-display", "none"),
            *("-accel", ACCELERATOR, "-cpu", CPU),
            *("-smp", f"{machine.cpus},{sockets}", "-m", _memory_argument(machine), "-rtc", "base=utc"),
            *("-smbios", f"type=11,path={self.folder / MACHINE_ARGUMENTS}"),
            *("-drive", f"file={self.disk},if=none,id=root,format=qcow2,cache=unsafe,discard=unmap"),
            *("-device", "virtio-blk-pci,drive=root,bus=pcie.0,addr=3,bootindex=0"),
            *("-netdev", f"user,id=management,{forwards}"),
            *("-device", f"virtio-net-pci,netdev=management,mac={MANAGEMENT_MAC},bus=pcie.0,addr=4,romfile="),
            *("-device", "virtio-rng-pci,bus=pcie.0,addr=5"),
            *("-serial", f"file:{self.folder / 'console.log'}"),
            *("-chardev", f"socket,id=resume,path=nodes/{self.name}/resume.sock,server=on,wait=off"),
            *("-serial", "chardev:resume"),
            *("-qmp", f"unix:nodes/{self.name}/qmp.sock,server=on,wait=off"),
            *("-fw_cfg", f"name=opt/numaforge/identity,file={self.folder / 'identity.tar'}"),
            *("-acpitable", f"file={self.folder / 'cpufreq.aml'}"),
            *_numa_arguments(machine),
            *_pci_arguments(machine),
        ]

    def _await_monitor(self, patience_s: float = 30) -> None:
        def opened() -> bool:
            self.daemon.require_alive()
            return listens(self.folder / "qmp.sock")

        wait_until(opened, "QEMU opened no monitor", patience_s, every_s=0.02, where=self.name)

    def power_off(self) -> None:
        """End QEMU at once; the saved state stays."""
        self.daemon.stop()

    def save(self, state: str = SAVED_STATE) -> None:
        """Save the paused machine."""
        with self.monitor() as monitor:
            monitor.save(state)

    def pause(self) -> None:
        """Stop the virtual CPUs."""
        with self.monitor() as monitor:
            monitor.execute("stop")

    def resume(self) -> None:
        """Resume the virtual CPUs."""
        with self.monitor() as monitor:
            monitor.execute("cont")

    def wake(self, state: str = SAVED_STATE) -> None:
        """Start from a saved state."""
        self.power_on(restore=state)
        self.resume()
        self.set_clock()

    def ssh_arguments(self, *extra: str) -> list[str]:
        """Return the command line that logs in as root; append a command to run it instead."""
        return [command("ssh"), "-F", str(self.state / "ssh_config"), *extra, self.name]

    def run(self, script: str, *, input_text: str | None = None, timeout_s: float = PATIENCE_S) -> str:
        """Run a shell command on the node as root and return what it prints; raise when it fails."""
        done = self.try_run(script, input_text=input_text, timeout_s=timeout_s)
        if done.returncode != 0:
            raise LabError(f"{script!r} ended with {done.returncode}: {done.stderr.strip()}", where=self.name)
        return done.stdout

    def try_run(
        self, script: str, *, user: str = "root", input_text: str | None = None, timeout_s: float = PATIENCE_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command on the node and return its outcome."""
        return subprocess.run(
            [*self.ssh_arguments("-l", user), f"sh -c {shlex.quote(script)}"],
            input=input_text,
            stdin=subprocess.DEVNULL if input_text is None else None,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def set_clock(self, patience_s: float = 30) -> None:
        """Set the restored guest's clock and have it drop its connections, over its second serial port."""
        try:
            with connect(self.folder / "resume.sock", patience_s) as line:
                line.sendall(f"{time.time():.3f}\n".encode())
                answer = line.makefile().readline()
        except OSError as refusal:
            raise LabError(f"the guest does not set its clock: {refusal}", where=self.name) from refusal
        if not answer.startswith("resumed"):
            raise LabError(f"the guest does not set its clock: {answer!r}", where=self.name)


@cache
def emulator() -> str:
    """Return QEMU's version string."""
    asked = [command("qemu-system-x86_64"), "--version"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.partition("\n")[0]


def _machine_arguments(machine: Machine) -> str:
    khz = tsc.frequency_khz()
    arguments = ["tsc=nowatchdog", *([] if khz is None else [f"tsc_early_khz={khz}"])]
    if machine.gpu_nodes:  # NVIDIA's driver brings GPU memory online
        arguments.append("memhp_default_state=offline")
    return " ".join(arguments)


def _never_plugged(machine: Machine) -> int:
    """Return how many packages are never plugged in: each of their CPUs keeps a NUMA node of a GPU.

    Linux makes only the NUMA nodes that firmware lists at boot, and QEMU 7.2 lists those with memory or CPUs.
    """
    return -(-len(machine.gpu_nodes) * machine.packages // machine.cpus)


def _memory_argument(machine: Machine) -> str:
    if not machine.gpu_nodes:
        return f"{machine.memory_mib}M"
    modules = sum(_memory_modules(machine).values())
    # QEMU aligns each module to its size.
    return f"{machine.memory_mib}M,slots={len(machine.gpu_nodes)},maxmem={machine.memory_mib + 2 * modules}M"


def _memory_modules(machine: Machine) -> dict[int, int]:
    """Return the MiB of the module in each NUMA node of a GPU: an offline one is enough to have the node."""
    held = machine.gpu_memory_nodes
    return {node: machine.gpu_memory_mib if node in held else MEMORY_BLOCK_MIB for node in machine.gpu_nodes}


def _numa_arguments(machine: Machine) -> list[str]:
    arguments: list[str] = []
    for index, node in enumerate(machine.numa_nodes):
        cpus = machine.cpus_of(index)
        arguments += ["-object", f"memory-backend-ram,id=memory{index},size={node.memory_mib}M"]
        arguments += ["-numa", f"node,nodeid={index},cpus={cpus[0]}-{cpus[-1]},memdev=memory{index}"]
    for place, index in enumerate(machine.gpu_nodes):
        arguments += ["-numa", f"node,nodeid={index},cpus={machine.cpus + place}"]
    for index, mib in _memory_modules(machine).items():
        arguments += ["-object", f"memory-backend-ram,id=memory{index},size={mib}M"]
        arguments += ["-device", f"pc-dimm,id=module{index},memdev=memory{index},node={index}"]
    everywhere = range(len(machine.numa_nodes) + len(machine.gpu_nodes))
    for source in everywhere:
        for destination in everywhere:
            if source != destination:
                distance = machine.distance(source, destination)
                arguments += ["-numa", f"dist,src={source},dst={destination},val={distance}"]
    return arguments


def _pci_arguments(machine: Machine) -> list[str]:
    """Give each NUMA node a PCI host bridge of its own, with one root port per GPU and NIC."""
    arguments: list[str] = []
    macs = iter(machine.nic_macs())
    for index, node in enumerate(machine.numa_nodes):
        bridge = f"pci{index}"
        place = f"bus=pcie.0,addr={0x10 + index:#x}"
        bus_number = 0x20 * (index + 1)
        arguments += ["-device", f"pxb-pcie,id={bridge},bus_nr={bus_number},numa_node={index},{place}"]
        devices = ["pci-testdev"] * node.gpus + _nics(node)
        for slot, device in enumerate(devices):
            port = f"{bridge}port{slot}"
            chassis = 16 * (index + 1) + slot
            arguments += [
                "-device",
                f"pcie-root-port,id={port},bus={bridge},addr={slot},chassis={chassis},slot={chassis},io-reserve=0",
            ]
            if device != "pci-testdev":
                arguments += ["-netdev", f"hubport,id=rail{chassis},hubid={chassis}"]
                device += f",netdev=rail{chassis},mac={next(macs)},romfile="
            arguments += ["-device", f"{device},bus={port}"]
    return arguments


def _nics(node: NumaNode) -> list[str]:
    """The kinds of NICs: the interface of an e1000e hangs on its PCI function, as that of a real NIC does."""
    kinds = ["virtio-net-pci"] * node.nics
    return ["e1000e", *kinds[1:]] if node.rdma else kinds


def _quietly(*arguments: str) -> None:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{Path(arguments[0]).name}: {done.stderr.strip()}")
