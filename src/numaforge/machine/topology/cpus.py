"""CPUs, cores, packages and caches, from the masks that the kernel exports.

Masks decide, not ids: core ids repeat across dies and clusters, package ids repeat on ia64 and are -1 on
POWER and s390. Masks may name offline CPUs, so they are always restricted to the online set.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from numaforge.lib.cpulist import parse_cpulist
from numaforge.lib.errors import NumaforgeError, TopologyError
from numaforge.lib.given import digits
from numaforge.machine.topology.model import CoreCaches, CpuSet, CpuStates, L3Cache, Package

_CPU_FILE = re.compile(r"/sys/devices/system/cpu/cpu([0-9]{1,9})/(.+)")
_INSTRUCTION = "Instruction"
_CACHE_FILE = re.compile(r"cache/(index[0-9]+)/(\w+)")
_ID = re.compile(r"-?[0-9]{1,10}")
_SIZE = re.compile(r"([0-9]{1,20})([KMG]?)")
_WORD = re.compile(r"(?:0x)?[0-9a-fA-F]{1,32}")
_MOST_WORDS = 2048  # of 65536 CPUs; the kernel's largest NR_CPUS is 8192
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}

CpuFiles = Mapping[int, Mapping[str, str]]  # CPU -> path below its folder -> text


@dataclass(frozen=True)
class Inventory:
    """All CPUs, and what sysfs (`files`) or else /proc/cpuinfo (`stanzas`) says of each."""

    files: CpuFiles
    stanzas: CpuFiles
    cpus: CpuStates

    @cached_property
    def caches(self) -> dict[int, list[tuple[str, L3Cache]]]:
        """The caches of each online CPU, at every level, with their kinds."""
        return {cpu: _caches(self.files.get(cpu, {})) for cpu in self.cpus.online}


def read_inventory(files: Mapping[str, str]) -> Inventory:
    """Return the CPUs; raises TopologyError when neither sysfs nor /proc/cpuinfo names one."""
    by_cpu: dict[int, dict[str, str]] = {}
    for path, text in files.items():
        if match := _CPU_FILE.fullmatch(path):
            by_cpu.setdefault(int(match[1]), {})[match[2]] = text
    stanzas = _cpuinfo_stanzas(files.get("/proc/cpuinfo", ""))
    # Kernels before 2.6.26 have no list. CPU 0 often cannot be switched off and then has no file of its own.
    switched_on = frozenset(cpu for cpu, of_cpu in by_cpu.items() if of_cpu.get("online", "1").strip() == "1")
    listed = cpu_set(files, "/sys/devices/system/cpu/online")
    online = listed or switched_on or frozenset(stanzas)
    if not online:
        raise TopologyError(
            "the snapshot names no online CPU", remedy="capture a root that holds /sys/devices/system/cpu"
        )
    present = cpu_set(files, "/sys/devices/system/cpu/present") or frozenset(by_cpu)
    return Inventory(
        files=by_cpu,
        stanzas=stanzas,
        cpus=CpuStates(
            online=online,
            offline=present - online,
            isolated=(cpu_set(files, "/sys/devices/system/cpu/isolated") or frozenset()) & online,
        ),
    )


def read_switchable(inventory: Inventory) -> CpuSet | None:
    """Return the CPUs that can be taken offline: those with a file `online`; None where none has one."""
    return frozenset(cpu for cpu, files in inventory.files.items() if "online" in files) or None


def read_cores(inventory: Inventory) -> tuple[CpuSet, ...]:
    """Return the online threads of every physical core."""

    def siblings(cpu: int) -> CpuSet | None:
        files = inventory.files.get(cpu, {})
        return first_set(files, ("core_cpus", "thread_siblings", "core_cpus_list", "thread_siblings_list"))

    identities = {
        cpu: (stanza.get("physical id"), stanza.get("core id")) for cpu, stanza in inventory.stanzas.items()
    }

    def same_in_cpuinfo(cpu: int) -> CpuSet:
        own = identities.get(cpu, (None, None))
        return frozenset({cpu} if None in own else (peer for peer in identities if identities[peer] == own))

    return _partition(inventory.cpus.online, siblings, same_in_cpuinfo)


def read_core_ids(inventory: Inventory) -> Mapping[int, tuple[int, int]] | None:
    """Return the kernel's core_id and physical_package_id of each online CPU; None where one lacks them."""
    names = ("topology/core_id", "topology/physical_package_id")
    texts_of = {
        cpu: [inventory.files.get(cpu, {}).get(name, "") for name in names] for cpu in inventory.cpus.online
    }
    if not all(_ID.fullmatch(text.strip()) for texts in texts_of.values() for text in texts):
        return None
    return {cpu: (int(core), int(package)) for cpu, (core, package) in texts_of.items()}


def read_packages(inventory: Inventory) -> tuple[Package, ...]:
    """Return the sockets; ids are the kernel's where they are unique, else running numbers."""

    def siblings(cpu: int) -> CpuSet | None:
        files = inventory.files.get(cpu, {})
        names = ("package_cpus", "core_siblings", "package_cpus_list", "core_siblings_list")
        return first_set(files, names)

    id_of = {cpu: _package_id(inventory, cpu) for cpu in inventory.cpus.online}
    groups = _partition(
        inventory.cpus.online, siblings, lambda cpu: frozenset(p for p in id_of if id_of[p] == id_of[cpu])
    )
    ids = [number for group in groups if (number := id_of[min(group)]) is not None]
    if len(set(ids)) < len(groups):
        ids = list(range(len(groups)))
    return tuple(Package(number, group) for number, group in zip(ids, groups, strict=True))


def read_last_level_caches(inventory: Inventory) -> tuple[L3Cache, ...]:
    """Return the groups of CPUs that share a last-level cache."""
    data_caches = {
        cpu: [cache for kind, cache in caches if kind != _INSTRUCTION]
        for cpu, caches in inventory.caches.items()
    }
    deepest = {cpu: max(ones, key=lambda one: one.level) for cpu, ones in data_caches.items() if ones}
    groups = _partition(frozenset(deepest), lambda cpu: deepest[cpu].cpus, lambda cpu: frozenset({cpu}))
    return tuple(replace(deepest[min(group)], cpus=group) for group in groups)


def read_core_caches(inventory: Inventory) -> tuple[CoreCaches, ...]:
    """Return the caches below each CPU's last level, one entry per kind and size, the deepest first."""
    sharing: dict[tuple[int, str, int | None], set[CpuSet]] = {}
    for caches in inventory.caches.values():
        last = max((cache.level for kind, cache in caches if kind != _INSTRUCTION), default=0)
        for kind, cache in caches:
            if cache.level < last:
                sharing.setdefault((cache.level, kind, cache.size_bytes), set()).add(cache.cpus)
    return tuple(
        CoreCaches(*alike, len(groups), frozenset().union(*groups))
        for alike, groups in sorted(sharing.items(), key=lambda one: (-one[0][0], one[0][1], one[0][2] or 0))
    )


def _caches(files: Mapping[str, str]) -> list[tuple[str, L3Cache]]:
    files_of: dict[str, dict[str, str]] = {}
    for name, text in files.items():
        if match := _CACHE_FILE.fullmatch(name):
            files_of.setdefault(match[1], {})[match[2]] = text
    caches = []
    for cache in files_of.values():
        level, size = digits(cache.get("level", "")), _SIZE.fullmatch(cache.get("size", "").strip())
        cpus = first_set(cache, ("shared_cpu_map", "shared_cpu_list"), folder="")
        if level is not None and cpus:
            # Virtual machines show "0K" for a cache whose size the hypervisor hides.
            size_bytes = (int(size[1]) * _UNITS[size[2]] or None) if size else None
            caches.append((cache.get("type", "").strip(), L3Cache(cpus, size_bytes, level)))
    return caches


def _package_id(inventory: Inventory, cpu: int) -> int | None:
    in_sysfs = inventory.files.get(cpu, {}).get("topology/physical_package_id")
    return digits(in_sysfs or inventory.stanzas.get(cpu, {}).get("physical id", ""))


def _partition(
    cpus: CpuSet, share: Callable[[int], CpuSet | None], otherwise: Callable[[int], CpuSet]
) -> tuple[CpuSet, ...]:
    """Group CPUs by `share`, else by `otherwise`, ordered by the lowest CPU; every CPU is in one group."""
    groups: list[CpuSet] = []
    ungrouped = set(cpus)
    for cpu in sorted(cpus):
        if cpu in ungrouped:
            shared = share(cpu)
            group = frozenset((shared if shared is not None else otherwise(cpu)) & ungrouped) | {cpu}
            groups.append(group)
            ungrouped -= group
    return tuple(groups)


def _cpuinfo_stanzas(text: str) -> dict[int, dict[str, str]]:
    stanzas: dict[int, dict[str, str]] = {}
    current: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = (part.strip() for part in line.partition(":"))
        # s390 writes "processor 3: version = FF,  identification = ..." in one line.
        processor = re.fullmatch(r"processor\s*([0-9]*)", key)
        number = (processor[1] or value) if processor and colon else ""
        if (cpu := digits(number)) is not None:
            current = stanzas.setdefault(cpu, {})
        elif colon:
            current[key] = value
    return stanzas


def cpu_set(files: Mapping[str, str], path: str) -> CpuSet | None:
    """Return the ids that a cpulist file holds, or None where the file does not exist."""
    return _parse(files[path], path, mask=False) if path in files else None


def first_set(files: Mapping[str, str], names: Iterable[str], folder: str = "topology/") -> CpuSet | None:
    """Return the first set of CPUs that is not empty, of files that hold masks, or lists, by their names."""
    for name in names:
        text = files.get(folder + name)
        if text is not None and (cpus := _parse(text, name, mask=not name.endswith("list"))):
            return cpus
    return None


def _parse(text: str, name: str, *, mask: bool) -> CpuSet:
    try:
        return parse_mask(text) if mask else _parse_list(text)
    except (NumaforgeError, ValueError) as error:
        raise TopologyError(f"{text[:80]!r} is not a set of CPUs", where=name) from error


# On a large machine thousands of files hold the same few texts.
_parse_list = lru_cache(maxsize=4096)(parse_cpulist)


@lru_cache(maxsize=4096)
def parse_mask(text: str) -> CpuSet:
    """Return the CPUs of a kernel bitmap: `"00ff,ffffffff"`, 32 bits a word, the highest word first."""
    words = text.strip().split(",")
    if len(words) > _MOST_WORDS or not all(_WORD.fullmatch(word) for word in words):
        raise ValueError("not a bitmap of CPUs")
    bits = 0
    for word in words:
        bits = bits << 32 | int(word, 16)
    return frozenset(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)
