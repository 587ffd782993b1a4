"""Record what is expected of a machine: `python -m tests.machines.record machine.json --help`.

What lstopo and the kubelet's own code say is recorded where it is given, else our own answer, which is to be
read by eye before it is committed.
"""

import argparse
import json
import lzma
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numaforge.machine.snapshot.capture import from_root
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.read import read_topology
from tests.machines import files
from tests.machines.facts import Facts, host_facts, kubelet_facts, plan_facts, topology_facts
from tests.machines.kubelet_view import SOURCE as KUBELET
from tests.machines.kubelet_view import ask_kubelet
from tests.machines.lstopo import read_lstopo

RECORDED = "recorded"
HEADER = ("machine", "kind", "origin", "licence")
SECTIONS = {"host": host_facts, "topology": topology_facts, "kubelet": kubelet_facts, "plans": plan_facts}


def main(arguments: Sequence[str] | None = None) -> int:
    """Store a snapshot and what is expected of it in this folder, and bring the README's table up to date."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.again:
        for machine in files.machine_files():
            earlier = machine.expected()
            record_expected(
                machine.name, machine.snapshot(), earlier, _told(given, machine.snapshot(), earlier)
            )
        return 0
    if given.snapshot is None:
        parser.error("name a snapshot, or --again")
    snapshot = (
        from_root(given.snapshot) if given.snapshot.is_dir() else files.MachineFile(given.snapshot).snapshot()
    )
    name = given.name or files.MachineFile(given.snapshot).name
    earlier = files.stored(name).expected()
    record(name, snapshot, _header(given, earlier), _told(given, snapshot, earlier))
    return 0


def record(name: str, snapshot: Snapshot, header: Mapping[str, str], told: Mapping[str, Facts]) -> None:
    """Write both files; `told` holds what others say, by section, each with its `source`."""
    record_expected(name, snapshot, header, told)
    stored = files.stored(name)
    stored.snapshot_file.write_bytes(
        lzma.compress(snapshot.to_json().encode(), preset=9 | lzma.PRESET_EXTREME)
    )
    (files.FOLDER / f"{name}.json").unlink(missing_ok=True)
    write_table()


def record_expected(
    name: str, snapshot: Snapshot, header: Mapping[str, str], told: Mapping[str, Facts]
) -> None:
    """Write what is expected of a machine; reasons that were written into `differs` stay."""
    stored = files.stored(name)
    own = {key: header[key] for key in HEADER}
    document = {**own, **_expectations(snapshot, told, stored.expected().get("differs", {}))}
    stored.expected_file.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    for fact, difference in document.get("differs", {}).items():
        print(f"{name}: {fact} differs: {difference['why'] or 'say why in ' + stored.expected_file.name}")


def write_table() -> None:
    """Write the README's table anew."""
    before, _, rest = files.README.read_text().partition(files.BEGIN)
    _, _, after = rest.partition(files.END)
    files.README.write_text(f"{before}{files.BEGIN}{files.table()}{files.END}{after}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.machines.record", description=main.__doc__)
    parser.add_argument(
        "snapshot",
        type=Path,
        nargs="?",
        help="what `numaforge capture` wrote, or the folder of a captured root",
    )
    parser.add_argument(
        "--again", action="store_true", help="record our own answers of every machine here again"
    )
    parser.add_argument("--name", help="the machine's name here (default: the file's)")
    parser.add_argument("--machine", help="what it is, in one line: maker, model, CPUs, what is special")
    parser.add_argument("--kind", choices=files.KINDS, help="default: real")
    parser.add_argument(
        "--origin", help="where it comes from: project, version and path, or the report's number"
    )
    parser.add_argument("--licence", help="SPDX id; default: Apache-2.0, as everything given to this project")
    parser.add_argument("--lstopo", type=Path, help="the output of `lstopo -v -` or `lstopo --of xml` there")
    parser.add_argument("--lstopo-source", help="where that output comes from")
    parser.add_argument("--kubelet", action="store_true", help=f"ask {KUBELET} (needs root and Go)")
    return parser


def _header(given: argparse.Namespace, earlier: Mapping[str, Any]) -> dict[str, Any]:
    fallback = {"kind": "real", "licence": "Apache-2.0"}
    header = {name: getattr(given, name) or earlier.get(name) or fallback.get(name) for name in HEADER}
    missing = [f"--{name}" for name, text in header.items() if text is None]
    if missing:
        sys.exit(f"say what this machine is: {' and '.join(missing)}")
    return header


def _told(given: argparse.Namespace, snapshot: Snapshot, earlier: Mapping[str, Any]) -> dict[str, Facts]:
    """Return what others say, by section, each with its `source`; what was asked earlier stays."""
    told = {
        section: earlier[section]
        for section in SECTIONS
        if earlier.get(section, {}).get("source", RECORDED) != RECORDED
    }
    if given.lstopo:
        told["topology"] = {
            "source": given.lstopo_source or "lstopo",
            **read_lstopo(given.lstopo.read_text()),
        }
        _leave_out_what_hwloc_adds(told["topology"], read_topology(snapshot))
    if given.kubelet:
        try:
            told["kubelet"] = {"source": KUBELET, **ask_kubelet(snapshot)}
        except subprocess.CalledProcessError as error:
            sys.exit(f"the kubelet's view: {error.stderr.strip().splitlines()[-1]}")
    return told


def _leave_out_what_hwloc_adds(told: Facts, ours: NodeTopology) -> None:
    """Drop hwloc's NUMA node of a machine without NUMA, and the CPUs that it finds near a memory-only one."""
    shown = {str(node.id): node for node in ours.numa_nodes}
    if not shown:
        told["numa_nodes"] = {}
    for number, node in told["numa_nodes"].items():
        if number in shown and not shown[number].cpus:
            node["cpus"] = ""


def _expectations(
    snapshot: Snapshot, told: Mapping[str, Facts], reasons: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    topology = read_topology(snapshot)
    expected: dict[str, Any] = {}
    differs: dict[str, Any] = {}
    for section, facts_of in SECTIONS.items():
        ours = facts_of(topology)
        theirs = told.get(section, {"source": RECORDED})
        expected[section] = {**theirs, **{name: fact for name, fact in ours.items() if name not in theirs}}
        for name, fact in ours.items():
            if expected[section][name] != fact:
                why = reasons.get(f"{section}.{name}", {}).get("why", "")
                differs[f"{section}.{name}"] = {"ours": fact, "why": why}
    return {**expected, **({"differs": differs} if differs else {})}


if __name__ == "__main__":
    sys.exit(main())
