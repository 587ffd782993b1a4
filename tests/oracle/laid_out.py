"""Random machines as files, with what the kubelet makes of them: by cAdvisor's rules, without code of ours.

`laid_out(SEED)` is the same machine for a seed. Sizes, ids and numbering are drawn, and what few have: CPUs
offline, NUMA nodes without memory or CPUs, ids that repeat, kernels without NUMA nodes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from numaforge.machine.snapshot.model import Snapshot
from tests.fixtures.machines import KUBEADM_CONFIG
from tests.fixtures.trees import KUBEADM_DROP_IN, KUBEADM_FLAGS, MOUNTS, UNIT, mask

_CPU, _NODE = "/sys/devices/system/cpu", "/sys/devices/system/node"
_H100, _CONNECTX = ("0x030200", "0x10de", "0x2330"), ("0x020700", "0x15b3", "0x1021")


@dataclass(frozen=True)
class LaidOut:
    """A machine: what is read of it, and what the kubelet finds.

    `facts` has the form of the recorded ones in tests/machines (`cores`, `memory_bytes`), and more: the cores
    by the sibling masks (`siblings`), how many CPUs the kubelet reports (`capacity`), its CPUs of each NUMA
    node (`numa_cpus`), the NUMA node of each GPU (`gpus`; None where it is not known), the pages that are
    there by the path of their number (`pools`).
    """

    seed: int
    files: Mapping[str, str]
    memory_bytes: int | None
    facts: Mapping[str, Any]

    def snapshot(self, random: Random | None = None) -> Snapshot:
        """Return it as a snapshot; with `random` its files are in another order."""
        paths = list(self.files)
        if random is not None:
            random.shuffle(paths)
        return Snapshot(files={path: self.files[path] for path in paths})


@dataclass
class _Thread:
    cpu: int
    core: int  # counted over the machine
    node: int
    package: int
    l3: int
    core_id: int = 0
    package_id: int = 0
    online: bool = True


def laid_out(seed: int) -> LaidOut:
    """Return the machine of a seed."""
    random = Random(seed)  # noqa: S311 - nothing is secret
    threads, node_ids = _threads(random)
    _switch_off(random, threads)
    _give_ids(random, threads)
    numa = random.random() >= 0.08
    unseen = random.choice(node_ids) if numa and len(node_ids) > 1 and random.random() < 0.03 else None
    shown = [node for node in node_ids if node != unseen] if numa else []
    memory = {node: _memory(random) for node in shown}
    if numa and random.random() < 0.3:
        count = random.choice((1, 1, 2, 8, 20))
        memory |= {max(node_ids) + 1 + n: random.choice((0, _memory(random))) for n in range(count)}
    total = sum(memory.values()) if numa else _memory(random) or 2**30
    known = total if total and random.random() >= 0.03 else None
    devices = _devices(random, [*memory])
    files = {
        **_cpu_files(random, threads),
        **_node_files(random, threads, memory),
        **_proc_files(known),
        **(_kubelet_files() if random.random() < 0.7 else {}),
    }
    if not numa:
        files |= _pools(random, "/sys/kernel/mm", 1)
    for number, ((pci_class, vendor, device), node) in enumerate(devices):
        folder = f"/sys/bus/pci/devices/0000:{number + 1:02x}:00.0"
        at = "-1" if node is None else str(node)
        held = {"class": pci_class, "vendor": vendor, "device": device, "numa_node": at}
        files |= {f"{folder}/{name}": text for name, text in held.items()}
    pools = {path: int(text) for path, text in files.items() if path.endswith("/nr_hugepages")}
    facts = {**_facts(threads, memory, devices, numa=numa), "pools": pools}
    return LaidOut(seed, files, known, facts)


def _threads(random: Random) -> tuple[list[_Thread], list[int]]:
    packages, per_package = random.choice((1, 1, 2, 2, 2, 4)), random.choice((1, 1, 1, 2, 2, 4))
    cores, smt = random.choice((1, 2, 3, 4, 6, 8, 16)), random.choice((1, 2, 2, 2, 4, 8))
    nodes = packages * per_package
    sparse = random.random() < 0.15
    node_ids = sorted(random.sample(range(3 * nodes), nodes)) if sparse else list(range(nodes))
    per_l3 = random.choice((cores, cores, 1, 2, 4, cores * per_package))
    count = nodes * cores
    order = list(range(count))
    numbering = random.choice(("far", "far", "near", "turns", "any"))
    if numbering == "turns":
        order = [core for first in range(cores) for core in range(first, count, cores)]
    elif numbering == "any":
        random.shuffle(order)
    cpus = list(range(count * smt))
    if random.random() < 0.08:
        cpus = [0, *sorted(random.sample(range(1, 2 * count * smt + 1), count * smt - 1))]
    found = []
    for place, core in enumerate(order):
        for thread in range(smt):
            number = place * smt + thread if numbering == "near" else thread * count + place
            node = core // cores
            found.append(_Thread(cpus[number], core, node_ids[node], node // per_package, core // per_l3))
    return sorted(found, key=lambda thread: thread.cpu), node_ids


def _switch_off(random: Random, threads: Sequence[_Thread]) -> None:
    kind = random.choice(("none",) * 7 + ("some", "some", "second threads"))
    firsts = {thread.core: thread.cpu for thread in reversed(threads)}
    for thread in threads:
        if kind == "second threads" and thread.cpu != firsts[thread.core]:
            thread.online = False
    if kind == "some":
        for thread in random.sample(threads[1:], k=min(len(threads) - 1, random.randint(1, 3))):
            thread.online = False


def _give_ids(random: Random, threads: Sequence[_Thread]) -> None:
    """Give the ids that the kernel prints: as most machines have them, or as odd ones do."""
    kind = random.choice(("machine", "package", "package", "package", "sparse", "node halves", "thread"))
    step = random.choice((1, 1, 1, 36))
    unknown = random.random() < 0.04
    cores_of: dict[int, list[int]] = {}
    for thread in threads:
        cores_of.setdefault(thread.package if kind == "package" else thread.node, []).append(thread.core)
    for thread in threads:
        listed = sorted({*cores_of[thread.package if kind == "package" else thread.node]})
        index = listed.index(thread.core)
        # Two dies below one NUMA node may both count from 0: four threads then have the ids of two.
        ids = {"package": index, "node halves": index % max(1, len(listed) // 2), "thread": thread.cpu}
        thread.core_id = ids.get(kind, thread.core * (3 if kind == "sparse" else 1))
        thread.package_id = -1 if unknown else thread.package * step


def _memory(random: Random) -> int:
    kib = random.choice((0, random.randint(2**18, 2**21), random.randint(2**21, 2**25), 2**29 + 4))
    return kib * 1024


def _devices(random: Random, nodes: Sequence[int]) -> list[tuple[tuple[str, str, str], int | None]]:
    unknown = random.random() < 0.15
    found: list[tuple[tuple[str, str, str], int | None]] = []
    for kind in (_H100, _CONNECTX):
        for _ in range(random.choice((0, 0, 1, 2, 4, 8))):
            found.append((kind, None if unknown or not nodes else random.choice(nodes)))
    return found


def _cpu_files(random: Random, threads: Sequence[_Thread]) -> dict[str, str]:
    online = [thread for thread in threads if thread.online]
    isolated = {thread.cpu for thread in online if thread.core % 3 == 1} if random.random() < 0.05 else set()
    files = {
        f"{_CPU}/online": _list(thread.cpu for thread in online),
        f"{_CPU}/present": _list(thread.cpu for thread in threads),
        f"{_CPU}/possible": _list(thread.cpu for thread in threads),
        f"{_CPU}/isolated": _list(isolated),
    }
    width = threads[-1].cpu + 1
    caches = random.random() < 0.9
    for thread in threads:
        folder = f"{_CPU}/cpu{thread.cpu}"
        if thread.cpu:
            files[f"{folder}/online"] = str(int(thread.online))
        if not thread.online:
            continue
        files[f"{folder}/topology/core_id"] = str(thread.core_id)
        files[f"{folder}/topology/physical_package_id"] = str(thread.package_id)
        together = {
            "core_cpus": [other.cpu for other in online if other.core == thread.core],
            "package_cpus": [other.cpu for other in online if other.package == thread.package],
        }
        for name, cpus in together.items():
            files[f"{folder}/topology/{name}"] = mask(frozenset(cpus), width).strip()
        if caches:
            shared = frozenset(other.cpu for other in online if other.l3 == thread.l3)
            held = {"level": "3", "type": "Unified", "size": "32768K", "shared_cpu_list": _list(shared)}
            files |= {f"{folder}/cache/index3/{name}": text for name, text in held.items()}
    return files


def _node_files(random: Random, threads: Sequence[_Thread], memory: Mapping[int, int]) -> dict[str, str]:
    if not memory:
        return {}
    files = {f"{_NODE}/online": _list(memory), f"{_NODE}/possible": _list(memory)}
    width, distances, pools = threads[-1].cpu + 1, random.random() < 0.9, random.choice((0, 0, 0, 3))
    for node, size in memory.items():
        folder = f"{_NODE}/node{node}"
        # The kernel keeps offline CPUs out of a NUMA node's mask.
        cpus = frozenset(thread.cpu for thread in threads if thread.online and thread.node == node)
        files[f"{folder}/cpumap"] = mask(cpus, width).strip()
        files[f"{folder}/cpulist"] = _list(cpus)
        files[f"{folder}/meminfo"] = f"Node {node} MemTotal: {size // 1024} kB\nNode {node} MemFree: 0 kB"
        if distances:
            files[f"{folder}/distance"] = " ".join("10" if other == node else "21" for other in memory)
        if size:
            files |= _pools(random, folder, pools)
    return files


def _pools(random: Random, above: str, most: int) -> dict[str, str]:
    return {
        f"{above}/hugepages/hugepages-{kib}kB/{name}_hugepages": str(pages if name != "surplus" else 0)
        for kib, pages in ((2048, random.randint(0, most)), (2**20, 0))
        for name in ("nr", "free", "surplus")
    }


def _proc_files(memory_bytes: int | None) -> dict[str, str]:
    total = [] if memory_bytes is None else [f"MemTotal: {memory_bytes // 1024} kB"]
    return {
        "/proc/meminfo": "\n".join([*total, "SwapTotal: 0 kB"]),
        "/proc/mounts": MOUNTS,
        "/proc/sys/kernel/hostname": "laid-out",
        "/proc/sys/kernel/osrelease": "6.8.0",
        "/proc/cmdline": "ro",
    }


def _kubelet_files() -> dict[str, str]:
    return {
        "/usr/lib/systemd/system/kubelet.service": UNIT,
        "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf": KUBEADM_DROP_IN,
        "/var/lib/kubelet/kubeadm-flags.env": KUBEADM_FLAGS,
        "/var/lib/kubelet/config.yaml": KUBEADM_CONFIG,
    }


def _facts(
    threads: Sequence[_Thread],
    memory: Mapping[int, int],
    devices: Sequence[tuple[tuple[str, str, str], int | None]],
    *,
    numa: bool,
) -> dict[str, Any]:
    """Return what cAdvisor finds: GetNodesInfo and getCoresInfo in its utils/sysinfo/sysinfo.go."""
    online = [thread for thread in threads if thread.online]
    seen = [thread for thread in online if thread.node in memory] if numa else online
    cores: dict[tuple[int, int, int], list[int]] = {}
    siblings: dict[int, list[int]] = {}
    for thread in seen:
        node = thread.node if numa else thread.package_id
        cores.setdefault((node, thread.core_id, thread.package_id), []).append(thread.cpu)
        siblings.setdefault(thread.core, []).append(thread.cpu)
    return {
        "cores": " ".join(map(_list, cores.values())),
        "siblings": " ".join(map(_list, siblings.values())),
        "memory_bytes": {str(node): size for node, size in memory.items()},
        "capacity": len(seen) if numa else len(threads),
        "gpus": [node for kind, node in devices if kind is _H100],
        "numa_cpus": {
            str(node): _list(thread.cpu for thread in seen if thread.node == node) for node in memory
        },
    }


def _list(cpus: Iterable[int]) -> str:
    return ",".join(map(str, sorted(cpus)))
