"""Rules about the host itself: control groups, swap, the clock, limits, crash dumps, local drives."""

import re
from collections.abc import Iterator

from numaforge.findings.engine import Applicability, Seen, within
from numaforge.findings.rules import machine_rule
from numaforge.findings.userland import scope
from numaforge.kubelet_minors.values.cpusets import CpuSetError, parse_cpuset
from numaforge.lib.cpulist import cpus_named, format_cpulist
from numaforge.lib.quantity import parse_bytes
from numaforge.machine.topology.model import HostProcess, NodeTopology
from numaforge.machine.topology.numa import hugepage_sizes

LEAST_OPEN_FILES = 65536
"""Data loaders open a file for each worker and shard; OKE gives 131072, containerd's own unit 1048576."""


def _cgroup(machine: NodeTopology) -> Iterator[Seen]:
    if machine.cgroup_version is None:
        yield Seen(unknown="/proc/mounts was not captured")
    elif machine.cgroup_version == 1:
        yield Seen("control groups of version 1 are mounted", "/sys/fs/cgroup")


@within(scope.with_kubelet)
def _kubelet_minds_swap(machine: NodeTopology) -> Applicability:
    settings = scope.kubelet_settings(machine)
    if settings is None:
        return Applicability(None, "the kubelet's configuration cannot be read")
    if settings.get("failSwapOn") is False:
        return Applicability(False, "the kubelet's failSwapOn is false")
    return Applicability(True, "failSwapOn is not false")


def _swap_on(machine: NodeTopology) -> Iterator[Seen]:
    swaps = scope.userland(machine).swaps
    if swaps is None:
        yield Seen(unknown="/proc/swaps was not captured")
    for device in swaps or ():
        yield Seen("swap is on" + (", compressed in memory" if "/zram" in device else ""), device)


def _swap_comes_back(machine: NodeTopology) -> Iterator[Seen]:
    userland = scope.userland(machine)
    if userland.swap_units is None:
        yield Seen(unknown="the units of swap were not looked for")
    if userland.swaps or userland.swap_kept_off:
        return
    for unit in userland.swap_units or ():
        yield Seen("swap is off now, and this turns it on at the next boot", unit)


_TIME_DAEMONS = ("chronyd", "systemd-timesyn", "ntpd")


def _no_time_daemon(machine: NodeTopology) -> Iterator[Seen]:
    userland = scope.userland(machine)
    if userland.processes is None:
        yield Seen(unknown="the processes were not captured")
    elif not any(process.name in _TIME_DAEMONS for process in userland.processes):
        if userland.clock_synchronised:
            return  # by something unknown here, such as a hypervisor's agent
        yield Seen("neither chronyd nor systemd-timesyncd nor ntpd runs")


def _clock(machine: NodeTopology) -> Iterator[Seen]:
    synchronised = scope.userland(machine).clock_synchronised
    if synchronised is None:
        yield Seen(unknown="timedatectl did not answer")
    elif not synchronised:
        yield Seen("the kernel's clock is not synchronised (timedatectl: NTPSynchronized=no)")


def _open_files(machine: NodeTopology) -> Iterator[Seen]:
    for process in _runtimes(machine):
        if process.open_files is not None and process.open_files < LEAST_OPEN_FILES:
            yield Seen(f"its soft limit is {process.open_files} open files", process.unit or process.name)


def _runtimes(machine: NodeTopology) -> list[HostProcess]:
    return [
        process
        for process in scope.userland(machine).processes or ()
        if process.name in ("containerd", "crio") and not process.in_pod
    ]


@within(scope.with_kubelet)
def _with_runtime(machine: NodeTopology) -> Applicability | None:
    return None if _runtimes(machine) else Applicability(False, "neither containerd nor CRI-O runs")


def _no_crash_kernel(machine: NodeTopology) -> Iterator[Seen]:
    if machine.kernel_cmdline is None:
        yield Seen(unknown="/proc/cmdline was not captured")
    elif not re.search(r"(?:^| )crashkernel=", machine.kernel_cmdline):
        yield Seen("no memory is kept for a crash kernel (crashkernel=)", "/proc/cmdline")


@within(scope.with_gpu)
def _with_nvme(machine: NodeTopology) -> Applicability:
    nodes = {gpu.numa_node for gpu in machine.gpus}
    drives = [nvme.numa_node for nvme in machine.nvmes]
    if len(nodes) < 2 or len(drives) < 2:
        return Applicability(False, "GPUs of one NUMA node, or fewer than two NVMe drives")
    if None in nodes or None in drives:
        return Applicability(None, "the NUMA node of a GPU or of a drive is not known")
    return Applicability(True, f"{len(drives)} NVMe drives, GPUs on {len(nodes)} NUMA nodes")


def _nvme_elsewhere(machine: NodeTopology) -> Iterator[Seen]:
    drives = {nvme.numa_node for nvme in machine.nvmes}
    for node in sorted({gpu.numa_node for gpu in machine.gpus if gpu.numa_node is not None} - drives):
        yield Seen("its GPUs have no NVMe drive on their NUMA node", f"NUMA node {node}")


_ASKED_SIZE = re.compile(r"(?:^| )((?:default_)?hugepagesz=([0-9]{1,9})([KMG]))(?= |$)", re.IGNORECASE)


def _asks_for_hugepages(machine: NodeTopology) -> Applicability:
    if machine.kernel_cmdline is None:
        return Applicability(None, "/proc/cmdline was not captured")
    pattern_match = _ASKED_SIZE.search(machine.kernel_cmdline)
    return Applicability(
        pattern_match is not None, pattern_match[1] if pattern_match else "no hugepagesz= on the command line"
    )


def _no_such_hugepages(machine: NodeTopology) -> Iterator[Seen]:
    """Yield the sizes without a pool: the kernel's own page size decides which exist."""
    sizes = hugepage_sizes(machine)
    if not sizes:
        yield Seen(unknown="the pools of huge pages were not captured")
        return
    available = ", ".join(sizes)
    for argument, number, unit in _ASKED_SIZE.findall(machine.kernel_cmdline or ""):
        if parse_bytes(f"{number}{unit.upper()}i") not in map(parse_bytes, sizes):
            yield Seen(f"{argument}: this kernel has {available}", "/proc/cmdline")


def _isolates(machine: NodeTopology) -> Applicability:
    shown = format_cpulist(machine.isolated)
    return Applicability(bool(shown), f"it isolates {shown}" if shown else "it isolates none")


def _isolated_for_pods(machine: NodeTopology) -> Iterator[Seen]:
    """Yield the isolated CPUs that the kubelet does not reserve: pods share them (kubernetes#87862)."""
    settings = scope.kubelet_settings(machine) if machine.kubelet else {}
    try:
        reserved = None if settings is None else parse_cpuset(str(settings.get("reservedSystemCPUs") or ""))
    except CpuSetError:
        reserved = None
    if reserved is None:
        yield Seen(unknown="the kubelet's configuration cannot be read")
    elif shared := machine.isolated - reserved:
        yield Seen(
            f"the kernel isolates {cpus_named(shared)}, and moves no process between them", "/proc/cmdline"
        )


RULES = (
    machine_rule("NH101", scope.with_kubelet, _cgroup),
    machine_rule("NH102", _kubelet_minds_swap, _swap_on),
    machine_rule("NH103", _kubelet_minds_swap, _swap_comes_back),
    machine_rule("NH104", scope.with_kubelet, _no_time_daemon),
    machine_rule("NH105", scope.with_kubelet, _clock),
    machine_rule("NH106", _with_runtime, _open_files),
    machine_rule("NH107", scope.with_gpu, _no_crash_kernel),
    machine_rule("NH108", _with_nvme, _nvme_elsewhere),
    machine_rule("NH109", _asks_for_hugepages, _no_such_hugepages),
    machine_rule("NH110", _isolates, _isolated_for_pods),
)
