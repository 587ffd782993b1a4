"""What differs by Kubernetes minor: `python -m lab.minors` writes tables.json from the kubelet's sources.

A history lists changes: `28 beta on, 33 ga on locked, 36 gone` is a beta gate, on by default from
1.28 (or earlier) on, locked to its default from 1.33, unknown to 1.36. A flag has how its value parses and
the field that it sets, a field its Go type, an option its maturity, a gate in DEPENDENCIES those that it
needs. REMOVALS has the minor in which a gate is to go, as the newest minor announces it; some stay longer.

lists.json is written by hand: what is the same in all minors. A default replaces an unset field, and a zero
where the field's type is not a pointer. The flags, fields and aliases of libraries are those of
k8s.io/component-base, k8s.io/api, cAdvisor and klog; the internal names those that differ from the
capitalized field name; the labels those of k8s.io/kubelet/pkg/apis/well_known_labels.go.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any


def _read(name: str) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return table


_TABLES, _LISTS = _read("tables.json"), _read("lists.json")

RELEASES: Mapping[int, str] = {int(minor): release for minor, release in _TABLES["releases"].items()}
GATES: Mapping[str, str] = _TABLES["gates"]
REMOVALS: Mapping[str, int] = _TABLES["removals"]
DEPENDENCIES: Mapping[str, str] = _TABLES["dependencies"]
FLAGS: Mapping[str, str] = _TABLES["flags"]
FIELDS: Mapping[str, str] = _TABLES["fields"]
ALIASES: Mapping[str, str] = _TABLES["aliases"]
CPU_OPTIONS: Mapping[str, str] = _TABLES["cpu_options"]
TOPOLOGY_OPTIONS: Mapping[str, str] = _TABLES["topology_options"]

DEFAULTS: Mapping[str, Any] = _LISTS["defaults"]
EVICTION_HARD: Mapping[str, str] = _LISTS["eviction_hard"]
LIBRARY_FLAGS: Mapping[str, str] = _LISTS["library_flags"]
LIBRARY_FIELDS: Mapping[str, str] = _LISTS["library_fields"]
LIBRARY_ALIASES: Mapping[str, str] = _LISTS["library_aliases"]
INTERNAL_NAMES: Mapping[str, str] = _LISTS["internal_names"]
NODE_LABELS: Sequence[str] = _LISTS["node_labels"]
NAMESPACED_SYSCTLS: Sequence[str] = _LISTS["namespaced_sysctls"]
CIPHER_SUITES: Sequence[str] = _LISTS["cipher_suites"]

_GONE = "gone"


@cache
def state_at(history: str, minor: int) -> str | None:
    """Return the state at a minor, or None where there is none."""
    reached = None
    for change in history.split(", "):
        since, _, state = change.partition(" ")
        if int(since) <= minor:
            reached = state
    return None if reached == _GONE else reached


def first_minor(history: str) -> int:
    """Return the minor with which a history begins; the oldest in the tables stands for all older ones."""
    return int(history.partition(" ")[0])


def states_at(histories: Mapping[str, str], minor: int) -> dict[str, str]:
    """Return the states of a table at a minor, by name."""
    states = {name: state_at(history, minor) for name, history in histories.items()}
    return {name: state for name, state in states.items() if state is not None}
