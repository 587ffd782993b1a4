"""Interpret a snapshot: the one function from raw text to a machine."""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from numaforge.lib.cpulist import parse_cpulist
from numaforge.lib.kubelet_paths import ROOT_DIR
from numaforge.lib.ordering import grouped
from numaforge.lib.unfinished import Unfinished
from numaforge.machine.knobs import KNOB_AT
from numaforge.machine.snapshot import catalogue
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.cpufreq import read_cpufreq, read_idle_states
from numaforge.machine.topology.cpus import (
    read_core_caches,
    read_core_ids,
    read_cores,
    read_inventory,
    read_last_level_caches,
    read_packages,
    read_switchable,
)
from numaforge.machine.topology.gpus import read_driver, read_gpus
from numaforge.machine.topology.holders import read_device_holders, read_gpu_processes, read_holders_doubt
from numaforge.machine.topology.kubelet import read_kubelet
from numaforge.machine.topology.model import Core, CpuSet, NodeTopology, NumaNode, Package
from numaforge.machine.topology.nics import read_networks, read_nics
from numaforge.machine.topology.numa import meminfo_bytes, read_numa_nodes, read_pools
from numaforge.machine.topology.nvidia_install import read_nvidia_install, read_nvswitches
from numaforge.machine.topology.pci import read_accelerators, read_nvmes, read_other_devices, read_pci_paths
from numaforge.machine.topology.pcie import (
    bar1_bytes,
    read_pci_functions,
    read_peer_memory,
    with_direct_functions,
)
from numaforge.machine.topology.rdma import read_rdma_devices, read_rdma_netns
from numaforge.machine.topology.userland import read_userland
from numaforge.machine.topology.vendors import only_amd

_SYSCTLS = "/proc/sys/"
_DMI = "/sys/class/dmi/id"
_NOT_TOLD = re.compile(r"O\.?E\.?M|system product name|default string|not specified", re.IGNORECASE)


def read_topology(snapshot: Snapshot) -> NodeTopology:
    """Return the machine in a snapshot; raises TopologyError where it shows no CPU, or an unreadable set."""
    files = snapshot.files
    inventory = read_inventory(files)
    packages = read_packages(inventory)
    numa_nodes = read_numa_nodes(files, inventory.cpus.online)
    cores = tuple(_core(cpus, packages, numa_nodes) for cpus in read_cores(inventory))
    architecture = snapshot.commands.get("uname -m") or _architecture(files)
    core_ids = read_core_ids(inventory)
    # s390x has books and drawers above its packages, whose ids repeat: the kubelet looks at them, too.
    drawers = {cpu: package.id for package in packages for cpu in package.cpus if architecture == "s390x"}
    gpus = tuple(replace(gpu, bar1_bytes=bar1_bytes(gpu, files)) for gpu in read_gpus(snapshot))
    accelerators, pci_functions = read_accelerators(snapshot), read_pci_functions(snapshot)
    rdma_devices = with_direct_functions(read_rdma_devices(snapshot), pci_functions)
    nics = read_nics(snapshot, rdma_devices)
    addresses = {gpu.pci_address for gpu in gpus} | {nic.pci_address for nic in nics}
    addresses |= {accelerator.pci_address for accelerator in accelerators}
    addresses |= {device.data_direct for device in rdma_devices if device.data_direct}
    meminfo = files.get("/proc/meminfo", "")
    vendor = re.search(r"^vendor_id\s*: (\S+)$", files.get("/proc/cpuinfo", ""), re.MULTILINE)
    # A kernel that was started without any prints "(null)" (before 5.19).
    nohz_full = files.get("/sys/devices/system/cpu/nohz_full")
    kubelet = read_kubelet(snapshot)
    root_dir = kubelet.root_dir if kubelet else ROOT_DIR
    holders = read_device_holders(snapshot, root_dir)
    return NodeTopology(
        hostname=_one_line(files, "/proc/sys/kernel/hostname"),
        architecture=architecture,
        cpu_vendor=vendor[1] if vendor else None,
        product=_product(files),
        product_name=_one_line(files, f"{_DMI}/product_name"),
        firmware=_one_line(files, f"{_DMI}/bios_version"),
        kernel=_kernel(files),
        kernel_cmdline=_one_line(files, "/proc/cmdline"),
        os_release=dict(_assignments(files.get("/etc/os-release") or files.get("/usr/lib/os-release", ""))),
        memory_bytes=meminfo_bytes(meminfo, "MemTotal"),
        swap_bytes=meminfo_bytes(meminfo, "SwapTotal"),
        cgroup_version=_cgroup_version(files),
        kubelet=kubelet,
        cpus=inventory.cpus,
        smt=_one_line(files, "/sys/devices/system/cpu/smt/control"),
        switchable=read_switchable(inventory),
        nohz_full=None if nohz_full is None else parse_cpulist(nohz_full.strip().replace("(null)", "")),
        packages=packages,
        numa_nodes=numa_nodes,
        cores=cores,
        kubelet_cores=_kubelet_cores(core_ids, cores, numa_nodes, drawers),
        kubelet_packages=_kubelet_packages(core_ids, packages),
        l3_caches=read_last_level_caches(inventory),
        core_caches=read_core_caches(inventory),
        hugepages=read_pools(files),
        cpufreq=read_cpufreq(inventory),
        idle_states=read_idle_states(inventory),
        kernel_values=_kernel_values(files),
        sysctls={
            path.removeprefix(_SYSCTLS).replace("/", "."): " ".join(text.split())
            for path, text in sorted(files.items())
            if path.startswith(_SYSCTLS)
        },
        loadable_modules=_loadable_modules(snapshot),
        gpus=gpus,
        nvidia=read_driver(snapshot),
        nvidia_install=read_nvidia_install(snapshot),
        nvswitches=read_nvswitches(snapshot),
        gpu_processes=read_gpu_processes(snapshot, gpus),
        device_holders=holders,
        holders_doubt=read_holders_doubt(snapshot, root_dir) if holders else None,
        accelerators=accelerators,
        nics=nics,
        rdma_devices=rdma_devices,
        rdma_netns=read_rdma_netns(files),
        networks=read_networks(files.get(catalogue.ROUTES, "")),
        nccl_conf=files.get(catalogue.RCCL_CONF if only_amd(gpus) else catalogue.NCCL_CONF),
        peer_memory=read_peer_memory(snapshot),
        nvmes=read_nvmes(snapshot),
        other_devices=read_other_devices(snapshot),
        pci_functions=pci_functions,
        pci_paths=read_pci_paths(snapshot, sorted(addresses)),
        userland=read_userland(snapshot),
        kernel_values_record=files.get(catalogue.KERNEL_VALUES),
        previous_plan=files.get("/etc/numaforge/plan.json"),
        unfinished=_unfinished(snapshot),
        planned_files=_planned_files(files),
        unreadable=snapshot.unreadable,
    )


_PLANNED_FILE = re.compile(
    r"/sys/devices/system/cpu/cpu\d+/cpuidle/state\d+/disable"
    r"|/sys/fs/cgroup/[^/]+/cpuset\.cpus\.effective"
    r"|/proc/swaps|/proc/irq/default_smp_affinity|/sys/devices/virtual/workqueue/cpumask"
    r"|/sys/class/net/[^/]+/queues/rx-\d+/rps_cpus"
)
_INTERRUPT = re.compile(r"/sys/bus/pci/devices/[^/]+/msi_irqs/(\d+)")


def _planned_files(files: Mapping[str, str]) -> dict[str, str]:
    if catalogue.PLAN not in files:
        return {}
    managed = files.get(catalogue.MANAGED_INTERRUPTS, "").splitlines()
    texts = {path: text for path, text in files.items() if _PLANNED_FILE.fullmatch(path)}
    for path in files:
        if interrupt := _INTERRUPT.fullmatch(path):
            affinity = f"/proc/irq/{interrupt[1]}/smp_affinity_list"
            if affinity in files and affinity not in managed:
                texts[path] = files[affinity]
    return texts


def _unfinished(snapshot: Snapshot) -> Unfinished | None:
    """Return the unfinished change; a snapshot does not show whether a process works on it."""
    name = snapshot.links.get(catalogue.UNFINISHED)
    if name is None:
        return None
    state = snapshot.files.get(catalogue.UNFINISHED_STATE, "").strip()
    why = snapshot.files.get(catalogue.UNFINISHED_WHY)
    how = "undone" if why is not None else "unconfirmed" if state == "confirming" else "open"
    return Unfinished(name.rpartition("/")[2], how, state)


def _product(files: Mapping[str, str]) -> str | None:
    names = (_one_line(files, f"{_DMI}/{name}") for name in ("sys_vendor", "product_name"))
    real_names = [name for name in names if name and not _NOT_TOLD.search(name)]
    return " ".join(dict.fromkeys(real_names)) if len(real_names) == 2 else None


def _core(cpus: CpuSet, packages: Iterable[Package], numa_nodes: Iterable[NumaNode]) -> Core:
    first = min(cpus)
    return Core(
        package=next(package.id for package in packages if first in package.cpus),
        numa_node=next((node.id for node in numa_nodes if first in node.cpus), None),
        cpus=cpus,
    )


def _kubelet_cores(
    ids: Mapping[int, tuple[int, int]] | None,
    cores: Iterable[Core],
    numa_nodes: Iterable[NumaNode],
    drawers: Mapping[int, int],
) -> tuple[Core, ...] | None:
    """Return the cores by the kernel's ids, or None where the sibling masks say the same.

    cAdvisor utils/sysinfo/sysinfo.go, getCoresInfo: threads of a NUMA node with equal core_id and
    physical_package_id are a core, on s390x with equal book_id and drawer_id, too: `drawers` has these by
    CPU; without NUMA nodes each package stands for one.
    """
    node_of = {cpu: node.id for node in numa_nodes for cpu in node.cpus}
    if ids is None:
        return None
    # Where the kernel does not know the packages it prints -1, and the kubelet finds a single one.
    together = grouped(
        ((node_of.get(cpu), core, max(package, 0), drawers.get(cpu)), cpu)
        for cpu, (core, package) in sorted(ids.items())
        if not node_of or cpu in node_of
    )
    kubelet_cores = tuple(
        Core(package, node, frozenset(cpus)) for (node, _, package, _), cpus in together.items()
    )
    node_cores = {core for core in cores if not node_of or core.numa_node is not None}
    return None if {*kubelet_cores} == node_cores else kubelet_cores


def _kubelet_packages(
    ids: Mapping[int, tuple[int, int]] | None, packages: Iterable[Package]
) -> tuple[Package, ...] | None:
    """Return the packages as the kernel's ids tell them, or None where the sibling masks say the same.

    cAdvisor machine/machine.go, GetSockets: each distinct "physical id", else physical_package_id, of the
    CPUs that are online is a socket.
    """
    if ids is None:
        return None
    together = grouped((package, cpu) for cpu, (_, package) in sorted(ids.items()))
    by_ids = tuple(Package(number, frozenset(cpus)) for number, cpus in together.items())
    return None if {package.cpus for package in by_ids} == {package.cpus for package in packages} else by_ids


def _one_line(files: Mapping[str, str], path: str) -> str | None:
    return files.get(path, "").strip() or None


def _kernel(files: Mapping[str, str]) -> str | None:
    version = re.match(r"Linux version (\S+)", files.get("/proc/version", ""))
    return (
        _one_line(files, "/proc/sys/kernel/osrelease")
        or (version[1] if version else None)
        or _saved_by_hwloc(files, "OSRelease")
    )


# How each architecture's kernel writes /proc/cpuinfo. POWER8 and later run either byte order, not shown
# there.
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
    matching = (name for name, form in _CPUINFO_OF.items() if re.search(form, cpuinfo, re.MULTILINE))
    by_kernel = _one_line(files, "/proc/sys/kernel/arch")  # since Linux 6.1
    return by_kernel or _saved_by_hwloc(files, "Architecture") or next(matching, None)


def _loadable_modules(snapshot: Snapshot) -> tuple[str, ...]:
    pattern = re.compile(
        rf"/lib/modules/{re.escape(_kernel(snapshot.files) or '')}/(?:.*/)?(\w+)\.ko(?:\.\w+)?"
    )
    present = snapshot.commands.get("present", "").split()
    return tuple(sorted({match[1] for path in present if (match := pattern.fullmatch(path))}))


def _saved_by_hwloc(files: Mapping[str, str], key: str) -> str | None:
    match = re.search(rf"^{key}: (\S+)$", files.get("/proc/hwloc-nofile-info", ""), re.MULTILINE)
    return match[1] if match else None


def _cgroup_version(files: Mapping[str, str]) -> int | None:
    """Return 2 where /sys/fs/cgroup itself is cgroup2, 1 where any version 1 hierarchy is mounted."""
    mounts = re.findall(r"^[^ \n]* ([^ \n]*) ([^ \n]*)", files.get("/proc/mounts", ""), re.MULTILINE)
    if ("/sys/fs/cgroup", "cgroup2") in mounts or "/sys/fs/cgroup/cgroup.controllers" in files:
        return 2
    return 1 if any(kind == "cgroup" for _, kind in mounts) else None


@lru_cache(maxsize=16)  # a fleet has few distributions
def _assignments(text: str) -> tuple[tuple[str, str], ...]:
    pairs = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return tuple((name.strip(), _unquoted(value)) for name, equals, value in pairs if equals)


def _unquoted(text: str) -> str:
    """Return a value of os-release(5); one with unbalanced quotes is kept as written."""
    try:
        return " ".join(shlex.split(text))
    except ValueError:
        return text.strip()


def _kernel_values(files: Mapping[str, str]) -> dict[str, str]:
    """Return the effective word of each knob's file: `always [madvise] never` is "madvise"."""
    words: dict[str, str] = {}
    for path in sorted(KNOB_AT):
        text = files.get(path, "").strip() if path.startswith("/sys/") else ""
        if text:
            word = re.search(r"\[(\S+)\]", text)
            words[path] = word[1] if word else text
    return words
