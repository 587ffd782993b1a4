"""A file of the kernel that is not as planned is seen by verification, watch, audit and need()."""

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from numaforge.change.goal import Goal
from numaforge.change.parts import PARTS
from numaforge.findings.engine import Seen
from numaforge.fleet.audit.kernel_files import DRIFT
from numaforge.lib import shell
from numaforge.lib.cpulist import format_cpulist
from numaforge.machine.snapshot import catalogue
from numaforge.machine.snapshot.capture import parse_output, script
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.read import read_topology
from numaforge.node.part import NodeState
from numaforge.planning.document import dumps
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile
from numaforge.planning.render import render_plan
from numaforge.roles.expectation import Comparison, Expected
from numaforge.roles.expected import EXPECTED, all_expected
from numaforge.roles.interrupts.expected import affinity_lines
from numaforge.roles.kernel_values.paths import ONLINE
from numaforge.roles.promise import kernel_value
from numaforge.verification.live import Live
from numaforge.verification.table import all_promises
from tests.fixtures.tables import tables
from tests.fixtures.watched_folder import WatchedFolder
from tests.machines.files import stored

CASES = tables(__file__)

CPU = "/sys/devices/system/cpu"
PROFILE = CASES["profile"]
KINDS = {
    "kernel_cmdline", "governor", "energy_preference", "idle_state", "kernel_value", "sysctl", "swap",
    "offline_cpus", "hugepages", "daemons", "cpu_mask", "interrupts", "packet_steering",
}  # fmt: skip


def snapshot(files: Mapping[str, str]) -> Snapshot:
    """Return the snapshot of a DGX H100 with other files, and with frequency scaling and sleep states."""
    machine = stored("nvidia-dgx-h100").snapshot()
    scaling: dict[str, str] = {}
    for cpu in range(224):
        preferences = f"{CPU}/cpu{cpu}/cpufreq/energy_performance"
        scaling[f"{preferences}_preference"] = "power"
        scaling[f"{preferences}_available_preferences"] = "performance power"
        for number, (name, latency) in enumerate((("POLL", 0), ("C1", 2), ("C6", 170))):
            state = f"{CPU}/cpu{cpu}/cpuidle/state{number}"
            scaling |= {f"{state}/name": name, f"{state}/latency": str(latency)}
    return replace(machine, files={**machine.files, **scaling, **files})


@cache
def planned() -> NodePlan:
    return plan_node(read_topology(snapshot({})), load_profile(PROFILE), "1.36.0")


@cache
def rows() -> dict[str, Expected]:
    """Return the rows by their names in a verification."""
    return {
        name: row
        for _, promise in all_promises()
        if promise.name == "kernel_value"
        for name, row in promise.table(planned()).items()
    }


def last_file(row: Expected, number: int) -> str:
    """Return the last file of a row, as the kernel numbers it."""
    return row.paths()[-1].replace("rx-*", "rx-0").replace("*", str(number))


def as_planned(row: Expected) -> str:
    match row.comparison:
        case Comparison.LINES:
            return "Filename Type"
        case Comparison.HAS:
            return f"quiet {row.value}"
        case _:
            return row.text


def altered(row: Expected) -> str:
    match row.comparison:
        case Comparison.LINES:
            return "Filename Type\n/dev/sda2 partition"
        case Comparison.HAS:
            return "quiet"
        case Comparison.WITHIN:
            return "0-223"
        case Comparison.MASK:
            return "ff"
        case _:
            return "7"


def texts(*changed: str) -> dict[str, str]:
    """Return each file of the kernel as it is planned, by path, with the last one of these rows altered."""
    found: dict[str, str] = {}
    for number, (name, row) in enumerate(rows().items()):
        found |= dict.fromkeys(row.paths(), as_planned(row))
        found[last_file(row, number)] = altered(row) if name in changed else as_planned(row)
    return {path: text for path, text in found.items() if "*" not in path}


EVERY_ROW = pytest.mark.parametrize("name", rows())


def test_plan_has_expected_values_of_every_kind() -> None:
    assert {row.what.partition(":")[0] for row in all_expected(planned())} == KINDS


# ---- verification ----


def failures(found: Mapping[str, str]) -> dict[str, str]:
    node, reasons = SimpleNamespace(live=Live(found)), dict[str, str]()
    promises = [promise for _, promise in all_promises() if promise.name == "kernel_value"]
    for promise in promises:
        for name, row in promise.table(planned()).items():
            try:
                promise.holds(node, name, row)
            except pytest.fail.Exception as failure:
                reasons[name] = str(failure)
    return reasons


def test_verification_passes_as_planned() -> None:
    assert failures(texts()) == {}


@EVERY_ROW
def test_verification_names_each_drifted_value(name: str) -> None:
    ((failed, reason),) = failures(texts(name)).items()
    assert failed == name
    assert "planned " in reason
    assert len(reason) < 200


# ---- audit ----


def as_files(found: Mapping[str, str]) -> dict[str, str]:
    """Return the files that a snapshot takes: of an interrupt its name, and its CPUs below /proc."""
    online = frozenset(cpu for cpu in range(224) if found.get(ONLINE.format(cpu)) != "0")
    files = {**found, f"{CPU}/online": format_cpulist(online)}
    for path, text in found.items():
        if "/msi_irqs/" in path:
            files |= {path: "msix", f"/proc/irq/{path.rpartition('/')[2]}/smp_affinity_list": text}
    return files


def drift(found: Mapping[str, str]) -> list[Seen]:
    """Return what the rules find in a snapshot with these files and the plan."""
    machine = read_topology(snapshot({**as_files(found), catalogue.PLAN: dumps(planned())}))
    return [seen for rule in DRIFT for seen in rule.look(machine, planned())]


def test_audit_of_node_as_planned_finds_nothing() -> None:
    assert drift(texts()) == []


@EVERY_ROW
def test_audit_reports_each_drifted_value(name: str) -> None:
    (seen,) = drift(texts(name))
    assert seen.unknown is None
    assert "planned " in (seen.evidence or "")


def test_snapshot_includes_every_file(tmp_path: Path) -> None:
    node, rendered = WatchedFolder(tmp_path), render_plan(planned())
    files = as_files(texts())
    for path, text in {**files, **rendered}.items():
        node.write(path, f"{text}\n")
    capture = script(str(tmp_path))
    done = subprocess.run(["sh", "-s"], input=capture, capture_output=True, text=True, check=True)
    taken = parse_output(done.stdout).files
    assert {path: taken.get(path, "").rstrip("\n") for path in files} == files


# ---- need() ----


def look_of_affinity(found: Mapping[str, str], folder: Path) -> list[str]:
    """Return what a node's look says of the interrupts, masks and queues of these files."""
    node = WatchedFolder(folder)
    for path, text in found.items():
        node.write_affinity(path, text)
    lines = [line.replace(" /", f" {folder}/") for line in affinity_lines(planned().interrupts)]
    affinity = shell.library("roles/interrupts/affinity").replace("/proc/irq", f"{folder}/proc/irq")
    done = subprocess.run(
        ["sh", "-s"],
        input=f"{affinity}\naffinity_differences << END\n{chr(10).join(lines)}\nEND\n",
        capture_output=True,
        text=True,
        check=True,
    )
    return [f"differs {line}" for line in done.stdout.splitlines()]


def needed(found: Mapping[str, str], folder: Path) -> list[str]:
    """Return the parts that a node needs whose units are enabled and whose slices have their CPUs."""
    plan, machine = planned(), read_topology(snapshot({}))
    masks = ("irq", "/queues/", "workqueue")
    affinity = {path: text for path, text in found.items() if any(name in path for name in masks)}
    slices = [f"allowed {name} {format_cpulist(cpus)}" for name, cpus in plan.system.slices.items()]
    state = NodeState(
        {},
        (),
        values=found,
        said={
            "kernel_cmdline": (f"cmdline {found['/proc/cmdline']}", "loader grub", "once yes"),
            "kernel_values": ("unit enabled",),
            "interrupts": ("unit enabled", *look_of_affinity(affinity, folder)),
            "system": tuple(slices),
        },
    )
    names = {role.folder for role, _ in EXPECTED}
    goal = Goal(plan, machine, frozenset({"kubelet", *(role.called for role, _ in EXPECTED)}))
    parts = [part for part in PARTS if part.role.folder in names]
    return [part.role.folder for part in parts if part.need(goal, state, [])]


def test_node_as_planned_needs_no_change(tmp_path: Path) -> None:
    assert needed(texts(), tmp_path) == []


@EVERY_ROW
def test_drifted_value_needs_only_its_role(name: str, tmp_path: Path) -> None:
    (role,) = [role.folder for role, expected in EXPECTED if name in kernel_value(expected).table(planned())]
    assert needed(texts(name), tmp_path) == [role]


# ---- watch ----


def watched(node: WatchedFolder, found: Mapping[str, str]) -> dict[str, str]:
    for path, text in found.items():
        node.write_affinity(path, text)
    assert node.run().stderr == ""
    return {what: value for what, value in node.drift().items() if what.partition(":")[0] in KINDS}


def test_watch_reports_every_expected_value(tmp_path: Path) -> None:
    node = WatchedFolder(tmp_path)
    node.install_plan(planned())
    names = {row.what for row in rows().values()}
    assert watched(node, texts()) == dict.fromkeys(names, "0")
    assert watched(node, texts(*rows())) == dict.fromkeys(names, "1")
