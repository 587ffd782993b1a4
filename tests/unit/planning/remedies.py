"""Remedies as a machine follows them: each sentence that ends a refusal of planning, applied to a profile."""

import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import yaml

from numaforge.lib.errors import PlanError
from numaforge.lib.quantity import format_bytes, parse_bytes
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.profiles import load_profile
from numaforge.roles.hugepages.plan import pool_places

Document = dict[str, Any]

OUTSIDE = (  # what an admin does elsewhere than in the profile
    "capture the snapshot again",
    "show fewer NUMA nodes in the firmware",
    "switch the NVIDIA driver",
    "set failSwapOn: false in the kubelet's own file",
    "set failCgroupV1: false in the kubelet's own file",
)

_VERBS = "set|leave|use|take|capture|add|show|switch|choose|reserve|ask"
_ALTERNATIVES = re.compile(rf"[,;]? or (?=(?:{_VERBS}) )")
_STEPS = re.compile(rf" and (?=(?:{_VERBS}) )")

_FREE_KEYS = ("eviction_hard", "sysctls")  # mappings whose keys have dots of their own


@dataclass(frozen=True)
class Case:
    """What is planned: for which machine, by which profile, for which kubelet."""

    machine: NodeTopology
    profile: Document
    version: str


def ways_out(case: Case, refused: PlanError) -> Iterator[Case]:
    """Yield what each alternative of a remedy makes, where a profile or another kubelet can follow it.

    Raises LookupError for a remedy that is not known here.
    """
    for alternative in _ALTERNATIVES.split(refused.remedy or ""):
        if alternative.startswith(OUTSIDE) or "GPUs whose MIG profiles are known" in str(refused):
            continue
        followed = replace(case, profile=deepcopy(case.profile))
        for step in _STEPS.split(alternative):
            followed = _follow(followed, step, refused)
        yield followed


def _follow(case: Case, step: str, refused: PlanError) -> Case:
    for pattern, apply in _SENTENCES.items():
        if said := re.fullmatch(pattern, step):
            return apply(case, *said.groups(), refused.where or "") or case
    raise LookupError(f"no test follows the remedy {step!r} of: {refused}")


def _set(case: Case, key: str, value: str, _where: str) -> None:
    _put(case.profile, key, yaml.safe_load(value))


def _leave_out(case: Case, key: str, _where: str) -> None:
    if entry := re.fullmatch(r"hugepages\[(\d+)\]", key):
        del case.profile["hugepages"][int(entry[1])]
    else:
        _put(case.profile, key, None)


def _without_option(case: Case, option: str, _where: str) -> None:
    case.profile["kubelet"]["topology_manager_options"].pop(option)


def _use_policy(case: Case, policy: str, _where: str) -> None:
    _put(case.profile, "kubelet.topology_manager_policy", policy)


def _newer(case: Case, minor: str, _where: str) -> Case:
    return replace(case, version=f"1.{minor}.0")


def _size(case: Case, sizes: str, where: str) -> None:
    _put(case.profile, where.partition(": ")[2], sizes.split(", ")[0])


def _add_parameter(case: Case, parameter: str, _where: str) -> None:
    case.profile.setdefault("kernel", {}).setdefault("cmdline", []).append(parameter)
    _put(case.profile, "maintenance.reboot", "allowed")


def _take(case: Case, amount: str, fields: str, _where: str) -> None:
    """Take from the fields in the order in which they are named."""
    left = parse_bytes(amount)
    for field in fields.split(", "):
        if field == "hugepages":
            _take_pages(case, left)
            return
        held = _get(case, field)
        has = 0 if held is None else _bytes(held, case.machine)
        least = 2**20 if "eviction" in field else 0
        taken = min(left, max(0, has - least))
        if taken:
            _put(case.profile, field, format_bytes(has - taken))
        left -= taken


def _take_pages(case: Case, count: int) -> None:
    for entry in case.profile["hugepages"]:
        nodes = max(1, len(case.machine.numa_nodes))
        if "share" in entry:
            memory = sum(node.memory_bytes or 0 for node in pool_places(case.machine).values())
            entry["share"] = f"{max(1, int(float(entry['share'][:-1]) - 100 * count / memory) - 1)}%"
            continue
        pages = -(-count // parse_bytes(entry["size"]))
        name = "count" if "count" in entry else "count_per_numa_node"
        entry[name] = max(0, entry[name] - (pages if name == "count" else -(-pages // nodes)))


def _less_on_node(case: Case, amount: str, node: str | None, _where: str) -> None:
    memory = {place: each.memory_bytes or 0 for place, each in pool_places(case.machine).items()}
    for entry in case.profile["hugepages"]:
        pages = -(-parse_bytes(amount) // parse_bytes(entry["size"]))
        if "share" in entry:
            part = 100 * parse_bytes(amount) / memory[None if node is None else int(node)]
            entry["share"] = f"{int(float(entry['share'][:-1]) - part)}%"
        elif "count_per_numa_node" in entry:
            entry["count_per_numa_node"] = max(0, entry["count_per_numa_node"] - pages)
        else:
            entry["count"] = max(0, entry["count"] - pages * len(memory))


def _put(profile: Document, key: str, value: Any) -> None:
    *path, last = _path(key)
    held: Any = profile
    for part in path:
        if isinstance(held, list):
            held = held[int(part)]
            continue
        if held.get(part) is None:
            held[part] = {}
        held = held[part]
    if path == ["cpus", "reserved"]:
        held.clear()
    held[last] = value


def _get(case: Case, key: str) -> Any:
    held: Any = load_profile(case.profile).model_dump()
    for part in _path(key):
        held = held.get(part)
    return held


def _bytes(amount: Any, machine: NodeTopology) -> int:
    if isinstance(amount, str) and amount.endswith("%"):
        return int((machine.memory_bytes or 0) * float(amount[:-1]) / 100)
    return parse_bytes(str(amount))


def _path(key: str) -> list[str]:
    parts = re.findall(r"[^.\[\]]+", key)
    free = next((at for at, part in enumerate(parts) if part in _FREE_KEYS), len(parts))
    return [*parts[: free + 1], *([".".join(parts[free + 1 :])] if parts[free + 1 :] else [])]


_SENTENCES: Mapping[str, Callable[..., Case | None]] = {
    r"set ([\w.\[\]-]+): (.+?)(?:, or (?:fewer|more))?": _set,
    r"leave (\S+) out(?:: .*)?": _leave_out,
    r"remove (\S+)": _without_option,
    r"use topologyManagerPolicy: (\S+)": _use_policy,
    r"use a kubelet that has \S+ \(1\.\d+ to 1\.(\d+)\)": _newer,
    r"use kubelet 1\.(\d+) or later, .*": _newer,
    r"choose a size that it has: (.+)": _size,
    r"add (\S+) to it, with maintenance\.reboot: allowed": _add_parameter,
    r"take (\w+) from ([\w., ]+?)(?: or the kubelet's own reservations)?": _take,
    r"ask for (\w+) less on (?:NUMA node (\d+)|the machine)": _less_on_node,
}
