"""Ask the kubelet's own code, cAdvisor and the CPU manager, how it sees a snapshot: on a tree made of it."""

import json
import re
import subprocess
import tempfile
from pathlib import Path

from lab.gobuild import KUBERNETES, go
from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.cpus import first_set, parse_mask
from tests.fixtures.trees import mask
from tests.machines.facts import KUBELET_VERSION, Facts, groups

PROGRAM = Path(__file__).with_suffix(".go")
SOURCE = f"cAdvisor and the CPU manager of Kubernetes {KUBELET_VERSION}"

_CACHE = re.compile(r"(/sys/devices/system/cpu/cpu\d+/cache/index\d+)/shared_cpu_(map|list)")
_NUMA_NODE = re.compile(r"(/sys/devices/system/node/node\d+)/cpu(map|list)")


def ask_kubelet(snapshot: Snapshot) -> Facts:
    """Return the kubelet's view as `kubelet_facts` has it.

    Needs root and Go. Raises CalledProcessError, with what it says, where cAdvisor cannot read the machine.
    """
    with tempfile.TemporaryDirectory() as folder:
        write_tree(snapshot, Path(folder))
        command = [go(), "run", str(PROGRAM), folder]
        finished = subprocess.run(command, cwd=KUBERNETES.folder, capture_output=True, text=True, check=True)
    seen = json.loads(finished.stdout)
    places = seen["places"]

    def by(level: str) -> dict[int, list[int]]:
        held: dict[int, list[int]] = {}
        for place in places:
            held.setdefault(place[level], []).append(place["cpu"])
        return dict(sorted(held.items()))

    return {
        "cores": groups(by("core").values()),
        "sockets": groups(by("socket").values()),
        "numa_nodes": {str(node): format_cpulist(cpus) for node, cpus in by("numa_node").items()},
        "uncore_caches": groups(by("uncore").values()),
        "memory_bytes": {
            str(node["id"]): node["memory_bytes"] for node in sorted(seen["numa_nodes"], key=_id)
        },
    }


def _id(node: dict[str, int]) -> int:
    return node["id"]


def write_tree(snapshot: Snapshot, root: Path) -> None:
    """Lay out what cAdvisor reads: a snapshot lacks the CPUs below NUMA nodes and the numbers of caches."""
    for path, text in snapshot.files.items():
        if not path.startswith("/sys/devices/system/"):
            continue
        _write(root, path, f"{text}\n")
        if cache := _CACHE.fullmatch(path):
            cpus = parse_mask(text) if cache[2] == "map" else parse_cpulist(text)
            _write(root, f"{cache[1]}/shared_cpu_map", mask(cpus, max(cpus, default=0) + 1))
            _write(root, f"{cache[1]}/id", f"{min(cpus, default=0)}\n")
        if node := _NUMA_NODE.fullmatch(path):
            for cpu in first_set({f"cpu{node[2]}": text}, (f"cpu{node[2]}",), "") or ():
                _file(root, f"{node[1]}/cpu{cpu}").symlink_to(f"../../cpu/cpu{cpu}")


def _write(root: Path, path: str, text: str) -> None:
    _file(root, path).write_text(text)


def _file(root: Path, path: str) -> Path:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    return file
