"""Read what hwloc says of a machine: the output of `lstopo -v -` or `lstopo --of xml`, told in our facts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

from numaforge.lib.cpulist import format_cpulist
from numaforge.machine.topology.cpus import parse_mask
from tests.machines.facts import groups

_LINE = re.compile(r"(?P<indent> *)(?P<kind>\w+)(?:\([^)]*\))?(?: L#\d+)?(?: \((?P<told>.*)\))?")
_KIB = 1024
_INSTRUCTIONS = "2"  # cache_type in XML


@dataclass
class _Object:
    kind: str  # "Package", "NUMANode", "L3Cache", "Core", "PU"
    number: int | None  # as the kernel counts
    memory_bytes: int | None = None
    cpus: frozenset[int] = frozenset()
    children: list[_Object] = field(default_factory=list)

    def below(self) -> Iterator[_Object]:
        yield self
        for child in self.children:
            yield from child.below()


def read_lstopo(text: str) -> dict[str, Any]:
    """Return the facts that lstopo tells: packages, cores, NUMA nodes and last-level caches."""
    machine = _from_xml(text) if text.lstrip().startswith("<?xml") else _from_text(text)
    objects = list(machine.below())
    told = {
        "packages": groups(found.cpus for found in objects if found.kind == "Package"),
        "cores": groups(found.cpus for found in objects if found.kind == "Core"),
        "numa_nodes": {
            str(found.number): {"cpus": format_cpulist(found.cpus), "memory_bytes": found.memory_bytes}
            for found in sorted(objects, key=lambda found: found.number or 0)
            if found.kind == "NUMANode"
        },
        "last_level_caches": groups(_last_level_caches(objects)),
    }
    return {name: fact for name, fact in told.items() if fact}


def _last_level_caches(objects: list[_Object]) -> set[frozenset[int]]:
    caches = [
        (int(found.kind[1]), found.cpus) for found in objects if re.fullmatch(r"L\d[du]?Cache", found.kind)
    ]
    cpus = frozenset().union(*(found.cpus for found in objects))
    shared = (
        max(((level, held) for level, held in caches if cpu in held), default=None, key=_level)
        for cpu in cpus
    )
    return {deepest[1] for deepest in shared if deepest is not None}


def _level(cache: tuple[int, frozenset[int]]) -> int:
    return cache[0]


def _from_text(text: str) -> _Object:
    machine = _Object("Machine", None)
    path: list[tuple[int, _Object]] = [(-1, machine)]
    for line in text.splitlines():
        if line.startswith("depth "):
            break
        if not (match := _LINE.fullmatch(line)):
            continue
        told = match["told"] or ""
        number, memory = re.search(r"\bP#(\d+)", told), re.search(r"\blocal=(\d+)KB", told)
        found = _Object(
            match["kind"],
            int(number[1]) if number else None,
            int(memory[1]) * _KIB if memory else None,
        )
        while path[-1][0] >= len(match["indent"]):
            path.pop()
        path[-1][1].children.append(found)
        path.append((len(match["indent"]), found))
    _spread_cpus(machine)
    return machine


def _spread_cpus(above: _Object) -> None:
    """Give every object the CPUs below it, and memory those of what it is attached to."""
    attached = [child for child in above.children if child.kind in ("NUMANode", "MemCache")]
    for child in above.children:
        _spread_cpus(child)
    if above.kind == "PU" and above.number is not None:
        above.cpus = frozenset({above.number})
    else:
        above.cpus = frozenset().union(*(child.cpus for child in above.children if child not in attached))
    for memory in attached:
        for found in memory.below():
            found.cpus = above.cpus


def _from_xml(text: str) -> _Object:
    top = ElementTree.fromstring(text).find("object")  # noqa: S314
    assert top is not None
    return _object(top)


def _object(element: ElementTree.Element) -> _Object:
    kind = element.get("type", "")
    if element.get("cache_type") == _INSTRUCTIONS:
        kind = "InstructionCache"
    elif kind.endswith("Cache") and "depth" in element.attrib:
        kind = f"L{element.get('depth')}Cache"
    number = element.get("os_index")
    return _Object(
        kind,
        None if number is None else int(number),
        int(element.get("local_memory", "0")) or None,
        parse_mask(",".join(word or "0" for word in element.get("cpuset", "0x0").split(","))),
        [_object(child) for child in element.findall("object")],
    )
