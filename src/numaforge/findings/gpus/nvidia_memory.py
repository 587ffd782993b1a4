"""Rules about the memory of GPUs next to Grace and Vera: NUMA nodes, or the driver's own (CDMM)."""

import re
from collections import Counter
from collections.abc import Iterator

from numaforge.findings import scope
from numaforge.findings.engine import Applicability, Scope, Seen, within
from numaforge.findings.rules import machine_rule
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.quantity import format_bytes
from numaforge.machine.topology.gpu_models import is_coherent
from numaforge.machine.topology.memory_mode import (
    DRIVER,
    FIRST_DRIVER_BY_DEFAULT,
    NUMA,
    OPTION,
    driver_branch,
    gpu_memory_mode,
    keeps_memory_online,
    memory_of_gpus,
)
from numaforge.machine.topology.model import NodeTopology

_coherent = scope.with_driven(is_coherent, none="no GPU whose memory the CPU reaches coherently")


def _in_mode(mode: str, otherwise: str) -> Scope:
    @within(_coherent)
    def in_mode(machine: NodeTopology) -> Applicability:
        in_use = gpu_memory_mode(machine)
        if in_use is None or in_use.mode is None:
            return Applicability(None, in_use.reason if in_use else "no such GPU")
        return Applicability(in_use.mode == mode, in_use.reason if in_use.mode == mode else otherwise)

    return in_mode


_as_numa_nodes = _in_mode(NUMA, "the driver keeps the GPUs' memory to itself")
_by_driver = _in_mode(DRIVER, "the GPUs' memory is NUMA nodes")


def _total(machine: NodeTopology) -> str:
    """Return the memory of all GPUs, by NUMA node or as each reports it; "" where unknown."""
    total = sum(memory_of_gpus(machine).values()) or sum(
        gpu.memory_bytes or 0 for gpu in machine.gpus if is_coherent(gpu)
    )
    return format_bytes(total >> 20 << 20) if total else ""


def _left_to_the_branch(machine: NodeTopology) -> Iterator[Seen]:
    setting, branch = scope.nvidia_install(machine).gpu_memory_mode, driver_branch(machine)
    if setting is None or branch is None:
        yield Seen(unknown=f"{OPTION} was not captured")
    elif not setting:
        total = _total(machine)
        current, then = (NUMA, DRIVER) if branch < FIRST_DRIVER_BY_DEFAULT else (DRIVER, NUMA)
        bound = (
            f"from {FIRST_DRIVER_BY_DEFAULT} on" if then == DRIVER else f"before {FIRST_DRIVER_BY_DEFAULT}"
        )
        moved = f", which moves {total} of the node's memory" if total else ""
        static = ", and the kubelet's memory manager is Static" if _is_static(machine) else ""
        yield Seen(
            f"{OPTION} is not set: branch {branch} takes {current}, "
            f"branches {bound} take {then}{moved}{static}"
        )


def _is_static(machine: NodeTopology) -> bool:
    state = machine.kubelet.state_files.get("memory_manager_state", "") if machine.kubelet else ""
    return re.search(r'"policyName"\s*:\s*"Static"', state) is not None


def _counted(machine: NodeTopology) -> Iterator[Seen]:
    bytes_of_nodes = memory_of_gpus(machine)
    if not bytes_of_nodes:
        return
    nodes, total = format_cpulist(bytes_of_nodes), format_bytes(sum(bytes_of_nodes.values()))
    pools: Counter[str] = Counter()
    for node in machine.numa_nodes:
        if node.id in bytes_of_nodes:
            pools.update({size: pool.total for size, pool in node.hugepages.items() if pool.total})
    pages = ", ".join(f"{count} x {size}" for size, count in pools.items())
    pools_note = f", and pools of {pages} are taken of it" if pages else ""
    yield Seen(f"NUMA nodes {nodes} have {total} of GPUs' memory{pools_note}")


def _mig(machine: NodeTopology) -> Iterator[Seen]:
    for gpu in scope.answering(machine):
        if gpu.mig_mode == "enabled" or gpu.mig_pending == "enabled":
            yield Seen("MIG is enabled", gpu.pci_address)


def _next_mode(machine: NodeTopology) -> Iterator[Seen]:
    install, in_use = scope.nvidia_install(machine), gpu_memory_mode(machine)
    asks_for = install.gpu_memory_mode_next
    if asks_for is None:
        yield Seen(unknown="the files of modprobe.d were not captured")
    elif asks_for and in_use is not None and in_use.mode is not None and asks_for != in_use.mode:
        yield Seen(
            f"the module that runs has {in_use.mode} ({in_use.reason}), modprobe.d asks for {asks_for}"
        )


def _persistenced(machine: NodeTopology) -> Iterator[Seen]:
    runs = keeps_memory_online(machine)
    if runs is None:
        yield Seen(unknown="the processes were not captured")
    elif not runs:
        yield Seen("no process nvidia-persistenced runs, neither on the host nor in a container")


RULES = (
    machine_rule("NG701", _coherent, _left_to_the_branch),
    machine_rule("NG702", _as_numa_nodes, _counted),
    machine_rule("NG703", _by_driver, _mig),
    machine_rule("NG704", _coherent, _next_mode),
    machine_rule("NG705", _as_numa_nodes, _persistenced),
)
