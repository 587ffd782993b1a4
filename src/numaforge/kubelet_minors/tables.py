"""What differs by Kubernetes minor: `python -m lab.minors` writes tables.json from the kubelet's sources.

A history lists changes: `28 beta on, 33 ga on locked, 36 gone` is a beta gate, on by default from
1.28 (or earlier) on, locked to its default from 1.33, unknown to 1.36. A flag has how its value parses and
the field that it sets, a field its Go type, an option its maturity, a gate in DEPENDENCIES those that it
needs. REMOVALS has the minor in which a gate is to go, as the newest minor announces it; some stay longer.
"""

import json
from collections.abc import Mapping
from pathlib import Path

_TABLES = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))

RELEASES: Mapping[int, str] = {int(minor): release for minor, release in _TABLES["releases"].items()}
GATES: Mapping[str, str] = _TABLES["gates"]
REMOVALS: Mapping[str, int] = _TABLES["removals"]
DEPENDENCIES: Mapping[str, str] = _TABLES["dependencies"]
FLAGS: Mapping[str, str] = _TABLES["flags"]
FIELDS: Mapping[str, str] = _TABLES["fields"]
ALIASES: Mapping[str, str] = _TABLES["aliases"]
CPU_OPTIONS: Mapping[str, str] = _TABLES["cpu_options"]
TOPOLOGY_OPTIONS: Mapping[str, str] = _TABLES["topology_options"]
