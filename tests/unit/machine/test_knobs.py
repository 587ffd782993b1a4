"""The table of knobs: from its row follows everything that is done about a value of the kernel."""

from dataclasses import replace

import pytest

from numaforge.machine.knobs import KNOB_AT, KNOBS, Knob, Word
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.document import from_document, to_document
from numaforge.machine.topology.read import read_topology
from numaforge.planning.document import dumps, loads
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.planning.render import render_plan
from numaforge.roles.kernel_values.expected import expected
from numaforge.roles.kernel_values.paths import knob_values
from tests.fixtures.machines import lab_node

CPU = "/sys/devices/system/cpu"
THP = "/sys/kernel/mm/transparent_hugepage"

ROWS = [
    ("turbo", True, f"{CPU}/intel_pstate/no_turbo", "0"),
    ("turbo", True, f"{CPU}/cpufreq/boost", "1"),
    ("ksm", False, "/sys/kernel/mm/ksm/run", "0"),
    ("numa_balancing", False, "/proc/sys/kernel/numa_balancing", "0"),
    ("nmi_watchdog", False, "/proc/sys/kernel/nmi_watchdog", "0"),
    ("pcie_aspm", "performance", "/sys/module/pcie_aspm/parameters/policy", "performance"),
    ("transparent_hugepages.enabled", "never", f"{THP}/enabled", "never"),
    ("transparent_hugepages.defrag", "defer", f"{THP}/defrag", "defer"),
    ("transparent_hugepages.shmem_enabled", "advise", f"{THP}/shmem_enabled", "advise"),
    ("transparent_hugepages.khugepaged.defrag", True, f"{THP}/khugepaged/defrag", "1"),
    ("transparent_hugepages.khugepaged.pages_to_scan", 512, f"{THP}/khugepaged/pages_to_scan", "512"),
    (
        "transparent_hugepages.khugepaged.scan_sleep_millisecs",
        0,
        f"{THP}/khugepaged/scan_sleep_millisecs",
        "0",
    ),
]


def below_tuning(knob: Knob, word: Word) -> dict[str, object]:
    said: object = word
    for name in reversed(knob.key.split(".")):
        said = {name: said}
    return {"tuning": said}


def test_every_file_of_every_knob_has_a_test_case():
    assert {(key, path) for key, _, path, _ in ROWS} == {(knob.key, path) for path, knob in KNOB_AT.items()}


@pytest.mark.parametrize(("key", "word", "path", "text"), ROWS, ids=[f"{row[0]} {row[2]}" for row in ROWS])
def test_knob_is_planned_written_checked_and_read_back(key, word, path, text):
    knob = KNOB_AT[path]
    machine = replace(lab_node(), kernel_values={path: "odd"}, sysctls={knob.sysctl or "none": "odd"})
    plan = plan_node(machine, load_profile(below_tuning(knob, word)))
    assert [(row.path, row.value) for row in expected(plan)] == [(path, text)]
    subject = f"tuning.sysctls.{knob.sysctl}" if knob.sysctl else f"tuning.{key}"
    assert [each.value.split()[-1] for each in plan.decisions if each.subject == subject] == [text]
    assert loads(dumps(plan)).tuning == plan.tuning
    if knob.sysctl:
        assert f"{knob.sysctl} = {text}" in render_plan(plan)["/etc/sysctl.d/90-numaforge.conf"]
        return
    assert knob_values(plan.tuning) == {path: text}
    assert f"w {path} - - - - {text}\n" in render_plan(plan)["/etc/tmpfiles.d/numaforge-tuning.conf"]
    assert [row.what for row in expected(plan)] == [f"kernel_value:{key}"]
    assert knob.word_for(path, text) == word


@pytest.mark.parametrize("path", [path for path, knob in KNOB_AT.items() if not knob.sysctl])
def test_kernel_value_of_a_knob_is_read_and_survives_a_round_trip(path):
    files = {f"{CPU}/online": "0-1", path: "always [chosen] never\n"}
    machine = read_topology(Snapshot(files))
    assert machine.kernel_values == {path: "chosen"}
    assert from_document(to_document(machine)).kernel_values == machine.kernel_values


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: knob.key)
def test_knob_is_not_planned_on_a_kernel_without_its_file(knob):
    machine = replace(lab_node(), kernel_values={}, sysctls={"kernel.other": "1", "vm.other": "1"})
    plan = plan_node(machine, load_profile(below_tuning(knob, knob.example)))
    assert not [*expected(plan)]
    assert bool(plan.notices) is (knob.absent_is != knob.example)
