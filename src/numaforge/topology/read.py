"""Interpret a snapshot: the one function from raw text to what is there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

from numaforge.snapshot import catalogue
from numaforge.snapshot.model import Snapshot
from numaforge.topology.cpufreq import read_cpufreq
from numaforge.topology.cpus import read_cores, read_inventory, read_last_level_caches, read_packages
from numaforge.topology.holders import read_device_holders, read_gpu_processes
from numaforge.topology.kubelet import read_kubelet
from numaforge.topology.model import Core, CpuSet, NodeTopology, NumaNode, Package
from numaforge.topology.numa import meminfo_bytes, read_numa_nodes, read_pools
from numaforge.topology.nvidia import read_driver
from numaforge.topology.nvidia_install import read_nvidia_install, read_nvswitches
from numaforge.topology.pci import read_accelerators, read_gpus, read_nics, read_pci_paths

_SYSCTLS = "/proc/sys/"
_THP = "/sys/kernel/mm/transparent_hugepage/"


def read_topology(snapshot: Snapshot) -> NodeTopology:
    """Return what the snapshot shows; whatever it does not show is None or empty.

    Raises TopologyError when it shows no CPU at all or a set of CPUs that cannot be read.
    """
    files = snapshot.files
    inventory = read_inventory(files)
    packages = read_packages(inventory)
    numa_nodes = read_numa_nodes(files, inventory.online)
    gpus, nics, accelerators = read_gpus(snapshot), read_nics(snapshot), read_accelerators(snapshot)
    addresses = sorted(
        {gpu.pci_address for gpu in gpus}
        | {nic.pci_address for nic in nics}
        | {accelerator.pci_address for accelerator in accelerators}
    )
    meminfo = files.get("/proc/meminfo", "")
    kubelet = read_kubelet(snapshot)
    return NodeTopology(
        hostname=_one_line(files, "/proc/sys/kernel/hostname"),
        architecture=snapshot.commands.get("uname -m") or _architecture(files),
        kernel=_kernel(files),
        kernel_cmdline=_one_line(files, "/proc/cmdline"),
        memory_bytes=meminfo_bytes(meminfo, "MemTotal"),
        swap_bytes=meminfo_bytes(meminfo, "SwapTotal"),
        cgroup_version=_cgroup_version(files),
        online=inventory.online,
        offline=inventory.offline,
        isolated=inventory.isolated,
        packages=packages,
        numa_nodes=numa_nodes,
        cores=tuple(_core(cpus, packages, numa_nodes) for cpus in read_cores(inventory)),
        l3_caches=read_last_level_caches(inventory),
        cpufreq=read_cpufreq(inventory),
        gpus=gpus,
        nics=nics,
        pci_paths=read_pci_paths(snapshot, addresses),
        kubelet=kubelet,
        os_release=_os_release(files),
        sysctls=_sysctls(files),
        transparent_hugepages=_transparent_hugepages(files),
        previous_plan=files.get("/etc/numaforge/plan.json"),
        hugepages=read_pools(
            {path: text for path, text in files.items() if path.startswith("/sys/kernel/mm/hugepages/")}
        ),
        accelerators=accelerators,
        smt=_one_line(files, "/sys/devices/system/cpu/smt/control"),
        unreadable=snapshot.unreadable,
        nvidia=read_driver(snapshot),
        nvidia_install=read_nvidia_install(snapshot),
        nvswitches=read_nvswitches(snapshot),
        gpu_processes=read_gpu_processes(snapshot, gpus),
        device_holders=read_device_holders(snapshot, kubelet.root_dir if kubelet else catalogue.ROOT_DIR),
    )


def _core(cpus: CpuSet, packages: Iterable[Package], numa_nodes: Iterable[NumaNode]) -> Core:
    first = min(cpus)
    return Core(
        package=next(package.id for package in packages if first in package.cpus),
        numa_node=next((node.id for node in numa_nodes if first in node.cpus), None),
        cpus=cpus,
    )


def _one_line(files: Mapping[str, str], path: str) -> str | None:
    return files.get(path, "").strip() or None


def _kernel(files: Mapping[str, str]) -> str | None:
    version = re.match(r"Linux version (\S+)", files.get("/proc/version", ""))
    return (
        _one_line(files, "/proc/sys/kernel/osrelease")
        or (version[1] if version else None)
        or _saved_by_hwloc(files, "OSRelease")
    )


# How each architecture's kernel writes /proc/cpuinfo. POWER8 and later run either byte order: not said there.
_CPUINFO_OF = {
    "x86_64": r"\A(?![\s\S]*^fdiv_bug)[\s\S]*^flags\s*:.*\blm\b",  # only 32-bit kernels tell of the FDIV bug
    "aarch64": r"^CPU architecture\s*: (?:8|AArch64)",
    "riscv64": r"^isa\s*: rv64",
    "s390x": r"^features\s*:.*\bzarch\b",
    "ppc64": r"^cpu\s*: POWER[4-7]\b",
    "ia64": r"^arch\s*: IA-64",
}


def _architecture(files: Mapping[str, str]) -> str | None:
    cpuinfo = files.get("/proc/cpuinfo", "")
    told = (name for name, form in _CPUINFO_OF.items() if re.search(form, cpuinfo, re.MULTILINE))
    return _saved_by_hwloc(files, "Architecture") or next(told, None)


def _saved_by_hwloc(files: Mapping[str, str], key: str) -> str | None:
    found = re.search(rf"^{key}: (\S+)$", files.get("/proc/hwloc-nofile-info", ""), re.MULTILINE)
    return found[1] if found else None


def _cgroup_version(files: Mapping[str, str]) -> int | None:
    """Return 2 where /sys/fs/cgroup itself is cgroup2, 1 where any version 1 hierarchy is mounted."""
    mounts = [line.split()[1:3] for line in files.get("/proc/mounts", "").splitlines()]
    if ["/sys/fs/cgroup", "cgroup2"] in mounts or "/sys/fs/cgroup/cgroup.controllers" in files:
        return 2
    return 1 if any(kind == "cgroup" for _, kind in mounts) else None


def _os_release(files: Mapping[str, str]) -> dict[str, str]:
    text = files.get("/etc/os-release") or files.get("/usr/lib/os-release", "")
    pairs = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return {name: " ".join(shlex.split(value)) for name, equals, value in pairs if equals}


def _sysctls(files: Mapping[str, str]) -> dict[str, str]:
    return {
        path.removeprefix(_SYSCTLS).replace("/", "."): " ".join(text.split())
        for path, text in sorted(files.items())
        if path.startswith(_SYSCTLS)
    }


def _transparent_hugepages(files: Mapping[str, str]) -> dict[str, str]:
    """Return the chosen word of each setting: `always [madvise] never` is "madvise"."""
    found: dict[str, str] = {}
    for path, text in sorted(files.items()):
        if path.startswith(_THP):
            chosen = re.search(r"\[(\S+)\]", text)
            found[path.removeprefix(_THP)] = chosen[1] if chosen else text.strip()
    return found
