"""What is measured on a machine, with its installed programs: one command for each figure."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from numaforge.fleet.measure.record import NotMeasured
from numaforge.lib.cpulist import format_cpulist
from numaforge.machine import measure_outputs as outputs
from numaforge.machine.topology.model import Gpu, NodeTopology, NumaNode, RdmaDevice, RdmaPort

_GRACE_SECONDS = 15  # on top of the seconds that a program is asked to take
_BLOCK_SECONDS = 30  # sysbench goes through a block at random before it checks the clock
_MEMRATE_SECONDS = 10  # stress-ng goes through 26 ways to read and write, and reports those that it reached
_MARGIN_SECONDS = 4  # the seconds of ib_write_bw that do not count
_GPU_SECONDS = 120
_REDUCE_SECONDS = 180
_MIB = 2**20
_LEAST_BLOCK_MIB, _MOST_BLOCK_MIB, _MOST_RANDOM_MIB = 64, 1024, 256
_SHARE_OF_MEMORY = 4  # a buffer has at most a fourth of its NUMA node's memory


class Tool(NamedTuple):
    """A program that measures: the arguments for its version, none of a kernel's tracer; its origin."""

    name: str
    origin: str
    version: str = ""


TIMERLAT, OSNOISE = "timerlat tracer", "osnoise tracer"
"""The kernel tracers that rtla reads; without them it cannot run."""

_TIMERLAT = "rtla timerlat top -c {cpus} -d {seconds}s -q"
_OSNOISE = "rtla osnoise top -c {cpus} -d {seconds}s -q"
_CYCLICTEST = "cyclictest -q -m -p 95 -a {cpus} -t {count} -D {seconds}"

_ROWS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
TOOLS = {row["name"]: Tool(**row) for row in _ROWS}


@dataclass(frozen=True)
class MeasureTask:
    """One command with figures: its words, the reader of its output, its limits by place.

    `places` renames the reader's places; unknown ones are refused where it has any. `load` are CPUs under
    load. `function`: the command is a shell function for two RDMA ports.
    """

    kind: str
    place: str
    program: str
    words: tuple[str, ...]
    read: outputs.Reader
    seconds: int
    needs: tuple[str, ...] = ()
    places: Mapping[str, str] | None = None
    limits: Mapping[str, float] | None = None
    load: frozenset[int] = frozenset()
    function: bool = False


class CpuSplit(NamedTuple):
    """The CPUs for pods, and the reserved ones, by the plan; without one, all are for pods."""

    pods: frozenset[int]
    reserved: frozenset[int]


class Effort(NamedTuple):
    """The seconds of a run, where its program has such an option, and the runs per figure."""

    seconds: int = 3
    runs: int = 3


def tasks(
    machine: NodeTopology, split: CpuSplit, programs: Iterable[str], effort: Effort
) -> tuple[list[MeasureTask], list[NotMeasured]]:
    """Return what is measured on a machine, and what is not because a program is missing."""
    present = {*programs}
    chosen: list[MeasureTask] = []
    missing: list[NotMeasured] = []
    for choices in _choices(machine, split, effort):
        able = next(
            (choice for choice in choices if all({*one.needs, one.program} <= present for one in choice)),
            None,
        )
        if able is not None:
            chosen += able
        else:
            names = [" and ".join(_lacking(choice, present)) for choice in choices if choice]
            missing.append(NotMeasured(choices[0][0].kind, "", f"there is no {', no '.join(names)}"))
    return chosen, missing


def _lacking(several: Sequence[MeasureTask], present: set[str]) -> list[str]:
    needs = dict.fromkeys(
        name for one in several for name in (one.program, *one.needs) if name not in present
    )
    return [f"{name} ({TOOLS[name].origin})" for name in needs]


def _choices(machine: NodeTopology, split: CpuSplit, effort: Effort) -> Iterator[list[list[MeasureTask]]]:
    """Yield for each subject of the machine the ways to measure it, the best first."""
    pairs = list(_node_pairs(machine, split))
    if pairs:
        yield [
            [_sysbench(machine, split, *pair, "seq", effort) for pair in pairs],
            [_stress_ng(machine, split, *pair, effort) for pair in pairs],
            [_mlc("memory-bandwidth", "--bandwidth_matrix", outputs.mlc_bandwidth)],
        ]
        yield [[_sysbench(machine, split, *pair, "rnd", effort) for pair in pairs]]
        yield [[_mlc("memory-latency", "--latency_matrix", outputs.mlc_latency)]]
    if split.pods:
        for busy in (frozenset[int](), split.reserved) if split.reserved else (frozenset[int](),):
            on_pods = split, busy, effort
            yield [
                [_of_pods("timer-latency", _TIMERLAT, outputs.rtla_timerlat, *on_pods, TIMERLAT)],
                [_of_pods("timer-latency", _CYCLICTEST, outputs.cyclictest, *on_pods)],
            ]
            yield [[_of_pods("os-noise", _OSNOISE, outputs.rtla_osnoise, *on_pods, OSNOISE)]]
    yield from _gpu_choices(machine)
    ports = _ports(machine)
    if ports:
        yield [[_write(port, ports[(index + 1) % len(ports)], effort) for index, port in enumerate(ports)]]


def _gpu_choices(machine: NodeTopology) -> Iterator[list[list[MeasureTask]]]:
    nvidia = gpus_by_number(machine)
    if nvidia:
        pcie = {number: limit for number, gpu in nvidia.items() if (limit := gpu_limit(gpu))}
        yield [[_nvbandwidth("to-gpu", "host_to_device_memcpy_ce", nvidia, pcie)]]
        yield [[_nvbandwidth("from-gpu", "device_to_host_memcpy_ce", nvidia, pcie)]]
    if len(nvidia) > 1:
        links = {number: limit for number, gpu in nvidia.items() if (limit := nvlink_limit(gpu))}
        pairs = _nvbandwidth("between-gpus", "device_to_device_memcpy_read_ce", nvidia, links)
        yield [[replace(pairs, read=outputs.nvbandwidth_pairs)]]
        count = str(len(nvidia))
        words = ("all_reduce_perf", "-b", "8G", "-e", "8G", "-g", count)
        gpus = f"{count} GPUs"
        reduce = MeasureTask("all-reduce", gpus, words[0], words, outputs.nccl_all_reduce, _REDUCE_SECONDS)
        yield [[reduce]]
    amd = {gpu.pci_address: gpu for gpu in machine.gpus if gpu.vendor == "1002"}
    if amd:
        limits = {address: limit for address, gpu in amd.items() if (limit := gpu_limit(gpu))}
        places = {address: f"GPU {address}" for address in amd}
        for kind, read in (
            ("to-gpu", outputs.rocm_bandwidth_host),
            ("from-gpu", outputs.rocm_bandwidth_from),
        ):
            program = "rocm-bandwidth-test"
            yield [[MeasureTask(kind, "", program, (program,), read, _GPU_SECONDS, (), places, limits)]]


def _node_pairs(machine: NodeTopology, split: CpuSplit) -> Iterator[tuple[NumaNode, NumaNode]]:
    """Yield each NUMA node with CPUs for pods, with itself, its nearest and its farthest neighbour."""
    with_memory = [node for node in machine.numa_nodes if node.memory_bytes and node.cpus]
    for node in with_memory:
        if not node.cpus & split.pods:
            continue
        yield node, node
        far_nodes = sorted(
            (far for far in with_memory if far.id != node.id),
            key=lambda far: (node.distances.get(far.id, 0), far.id),
        )
        for far_node in {far.id: far for far in (*far_nodes[:1], *far_nodes[-1:])}.values():
            yield node, far_node


def pod_cpus(machine: NodeTopology, split: CpuSplit, node: NumaNode) -> frozenset[int]:
    """Return one CPU of each core of a NUMA node that pods may have."""
    cores = (core.cpus & split.pods for core in machine.cores if core.numa_node == node.id)
    first_cpus = frozenset(min(cpus) for cpus in cores if cpus)
    return first_cpus or frozenset(node.cpus & split.pods)


def block_mib(machine: NodeTopology, node: NumaNode, memory: NumaNode, threads: int) -> int:
    """Return the MiB for each thread, a power of two for sysbench: together twice the node's L3 caches."""
    caches = sum(cache.size_bytes or 0 for cache in machine.l3_caches if cache.cpus & node.cpus)
    mib_wanted = max(_LEAST_BLOCK_MIB, -(-2 * caches // (_MIB * threads)))
    room = (memory.memory_bytes or 0) // (_MIB * _SHARE_OF_MEMORY * threads)
    most = max(1, min(2 * mib_wanted - 1, room, _MOST_BLOCK_MIB))
    return 1 << (most.bit_length() - 1)


def across(node: NumaNode, memory: NumaNode) -> str:
    """Return the words for CPUs of one NUMA node with memory of another."""
    return f"NUMA node {node.id}" if node.id == memory.id else f"NUMA node {node.id} to {memory.id}"


def _bound_to(
    cpus: Iterable[int],
    node: NumaNode,
    memory: NumaNode,
    kind: str,
    command: str,
    read: outputs.Reader,
    seconds: int,
) -> MeasureTask:
    """Return a command on CPUs of one NUMA node, with memory of another."""
    words = command.split()
    bound = ("numactl", f"--physcpubind={format_cpulist(cpus)}", f"--membind={memory.id}", *words)
    return MeasureTask(kind, across(node, memory), words[0], bound, read, seconds, ("numactl",))


def _sysbench(
    machine: NodeTopology, split: CpuSplit, node: NumaNode, memory: NumaNode, order: str, effort: Effort
) -> MeasureTask:
    cpus = pod_cpus(machine, split, node)
    # At random it goes through a whole block before it checks the clock: all threads share a smaller one.
    one = min(block_mib(machine, node, memory, 1), _MOST_RANDOM_MIB)
    block, scope = (
        (block_mib(machine, node, memory, len(cpus)), "local") if order == "seq" else (one, "global")
    )
    command = (
        f"sysbench memory --threads={len(cpus)} --memory-block-size={block}M --memory-total-size=1000T "
        f"--memory-scope={scope} --memory-oper=read --memory-access-mode={order} --time={effort.seconds} run"
    )
    kind = "memory-bandwidth" if order == "seq" else "memory-random"
    seconds = effort.seconds + (_GRACE_SECONDS if order == "seq" else _BLOCK_SECONDS)
    return _bound_to(cpus, node, memory, kind, command, outputs.sysbench_memory, seconds)


def _stress_ng(
    machine: NodeTopology, split: CpuSplit, node: NumaNode, memory: NumaNode, effort: Effort
) -> MeasureTask:
    cpus, seconds = pod_cpus(machine, split, node), max(effort.seconds, _MEMRATE_SECONDS)
    block = block_mib(machine, node, memory, len(cpus))
    command = f"stress-ng --memrate {len(cpus)} --memrate-bytes {block}M --metrics-brief -t {seconds}"
    read, limit = outputs.stress_ng_memrate, seconds + _GRACE_SECONDS
    return _bound_to(cpus, node, memory, "memory-bandwidth", command, read, limit)


def _mlc(kind: str, matrix: str, read: outputs.Reader) -> MeasureTask:
    return MeasureTask(kind, "", "mlc", ("mlc", matrix), read, _GPU_SECONDS)


def _of_pods(
    kind: str,
    command: str,
    read: outputs.Reader,
    split: CpuSplit,
    busy: frozenset[int],
    effort: Effort,
    *tracer: str,
) -> MeasureTask:
    """Return a command on the CPUs for pods, with load on `busy` ones; {} are their list and number."""
    cpus = format_cpulist(split.pods)
    words = tuple(command.format(cpus=cpus, count=len(split.pods), seconds=effort.seconds).split())
    needs, limit = (*tracer, "taskset") if busy else tracer, effort.seconds + _GRACE_SECONDS
    kind = f"{kind}-loaded" if busy else kind
    return MeasureTask(kind, f"CPUs {cpus}", words[0], words, read, limit, needs, load=busy)


def _nvbandwidth(
    kind: str, test: str, gpus: Mapping[str, object], limits: Mapping[str, float]
) -> MeasureTask:
    words = ("env", "CUDA_DEVICE_ORDER=PCI_BUS_ID", "nvbandwidth", "-t", test)
    places = {number: f"GPU {getattr(gpu, 'pci_address', number)}" for number, gpu in gpus.items()}
    return MeasureTask(
        kind, "", "nvbandwidth", words, outputs.nvbandwidth_host, _GPU_SECONDS, (), places, limits
    )


_Port = tuple[RdmaDevice, int]


def _ports(machine: NodeTopology) -> list[_Port]:
    """Return the RDMA ports that carry traffic of workloads and are up."""
    return [
        (device, port.number)
        for device in machine.rdma_devices
        if not device.management and device.physical_function is None
        for port in device.ports
        if port.state == "ACTIVE"
    ]


def _write(sender: _Port, receiver: _Port, effort: Effort) -> MeasureTask:
    device, number = sender
    receiving, other_number = receiver
    ends = (device.name, str(number), receiving.name, str(other_number))
    words = ("write_between", *ends, str(effort.seconds))
    ports = {
        f"{rdma_device.name} {port.number}": port
        for rdma_device in (device, receiving)
        for port in rdma_device.ports
    }
    both = [
        port_limit(ports[f"{device.name} {number}"]),
        port_limit(ports[f"{receiving.name} {other_number}"]),
    ]
    known_limits = [limit for limit in both if limit is not None]
    return MeasureTask(
        "rdma-write",
        f"{device.name} port {number} to {receiving.name} port {other_number}",
        "ib_write_bw",
        words,
        outputs.perftest_write,
        effort.seconds + _MARGIN_SECONDS + 2 * _GRACE_SECONDS,
        limits={"": min(known_limits)} if len(known_limits) == len(both) else None,
        function=True,
    )


def alignment_tasks(
    machine: NodeTopology, split: CpuSplit, programs: Iterable[str], effort: Effort
) -> tuple[list[MeasureTask], list[NotMeasured]]:
    """Return a small program on CPUs for pods of one NUMA node, with memory there, then on the farthest."""
    present = {*programs}
    pairs = list(_node_pairs(machine, split))
    first = next((node for node, memory in pairs if node.id == memory.id), None)
    far = [memory for node, memory in pairs if first and node.id == first.id and memory.id != first.id]
    if first is None or not far:
        why = "the machine has no second NUMA node with CPUs and memory"
        return [], [NotMeasured("memory-bandwidth", "", why)]
    tasks: list[MeasureTask] = []
    if {"numactl", "sysbench"} <= present:
        for order in ("seq", "rnd"):
            tasks += [_sysbench(machine, split, first, memory, order, effort) for memory in (first, far[-1])]
    elif {"numactl", "stress-ng"} <= present:
        tasks += [_stress_ng(machine, split, first, memory, effort) for memory in (first, far[-1])]
    if tasks:
        return tasks, []
    tools = [TOOLS[name] for name in ("numactl", "sysbench", "stress-ng") if name not in present]
    names = ", no ".join(f"{tool.name} ({tool.origin})" for tool in tools)
    return [], [NotMeasured("memory-bandwidth", "", f"there is no {names}")]


# Bits that arrive of those sent, by GT/s: 8b/10b, 128b/130b, then flits of 256 bytes with 242 of content
# (PCI Express base specification 6.0).
_CODING = ((5.0, 8 / 10), (32.0, 128 / 130), (64.0, 242 / 256))
# GB/s of one NVLink in one direction, by the GPU's architecture (NVIDIA's data sheets: 600 GB/s for 12 links
# in both directions, 900 for 18, 1800 for 18).
_NVLINK = {"volta": 25.0, "ampere": 25.0, "hopper": 25.0, "blackwell": 50.0}


def pcie_limit(speed: float | None, width: int | None) -> float | None:
    """Return the GB/s that a PCIe link carries in one direction, by GT/s and lanes; None where unknown."""
    if not speed or not width:
        return None
    coding = next((share for most, share in _CODING if speed <= most), None)
    return None if coding is None else speed * width * coding / 8


def gpu_limit(gpu: Gpu) -> float | None:
    """Return the GB/s between host and GPU in one direction, by the widest link that slot and GPU reach."""
    for link in (gpu.driver_link, gpu.link):
        if link is not None and (limit := pcie_limit(link.max_speed, link.max_width)) is not None:
            return limit
    return None


def nvlink_limit(gpu: Gpu) -> float | None:
    """Return the GB/s from a GPU to another; None if unknown: they may then reach each other over PCIe.

    All links to a switch count; else those to the peer with the fewest.
    """
    per_link = _NVLINK.get((gpu.architecture or "").lower())
    if per_link is None or not gpu.nvlinks:
        return None
    if "switch" in gpu.nvlink_peers:
        return per_link * gpu.nvlink_peers["switch"]
    direct = [count for peer, count in gpu.nvlink_peers.items() if ":" in peer]
    return per_link * min(direct) if direct else None


def port_limit(port: RdmaPort) -> float | None:
    """Return the Gb/s of an RDMA port, as the kernel words its rate: "400 Gb/sec (4X NDR)"."""
    rate = re.match(r"(\d+(?:\.\d+)?) Gb/sec", port.rate or "")
    return float(rate[1]) if rate and float(rate[1]) > 0 else None


def gpus_by_number(machine: NodeTopology) -> dict[str, Gpu]:
    """Return NVIDIA's GPUs by their CUDA number, in the order of PCI addresses."""
    gpus = sorted((gpu for gpu in machine.gpus if gpu.vendor == "10de"), key=lambda gpu: gpu.pci_address)
    return {str(number): gpu for number, gpu in enumerate(gpus)}
