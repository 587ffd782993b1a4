"""What a node's kubelet is shown in a rehearsal, and what its answer means."""

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from numaforge.change.goal import Goal
from numaforge.commands.machine import machine_of
from numaforge.lib.cpulist import parse_cpulist
from numaforge.lib.errors import HostUnreachableError
from numaforge.lib.framing import Answer
from numaforge.machine.topology.memory_mode import memory_of_gpus
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.roles.kubelet.rehearsal import (
    Ask,
    Rehearsal,
    Rehearsed,
    Verdict,
    from_document,
    present_rehearsal,
    read_rehearsed,
    refusal,
    rehearsal,
    rehearse,
    to_document,
    without_cluster,
)
from tests.fixtures.kubelet_goal import PROFILE, STATIC, found, target
from tests.fixtures.machines import kubeadm_kubelet
from tests.fixtures.tables import cases

CPU_STATE = "/var/lib/kubelet/cpu_manager_state"
LAST = 'E1129 00:00:00.000000       1 run.go:72] "command failed" err="a rule of its own"'
STARTED = {"outcome": "started", "took": "273", "cpu": "2500000"}
ENDED = {"outcome": "ended", "took": "90", "cpu": "500000", "output": LAST}


def answer(lines: Mapping[str, str], **state: str) -> Answer:
    """Return what the script prints."""
    said = [f"{kind} {_encoded(text) if kind == 'output' else text}" for kind, text in lines.items()]
    said += [f"state {name} {_encoded(text)}" for name, text in state.items()]
    return Answer({"": tuple(said)})


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def shown(on: Goal, **changes: str | None) -> Rehearsal:
    planned = rehearsal(on, found(on, **changes))
    assert isinstance(planned, Rehearsal)
    return planned


def with_policy(policy: str, profile: Mapping[str, Any] = PROFILE) -> Goal:
    return target({**profile, "maintenance": {"rehearsal": policy}}, "kubelet")


def test_rehearsed_kubelet_sees_planned_files_and_no_cluster() -> None:
    on = target(PROFILE, "kubelet")
    planned = shown(on)
    assert on.plan.kubelet is not None
    assert planned.files.keys() == {on.plan.kubelet.drop_in}
    assert planned.program == "/usr/bin/kubelet"
    assert planned.endpoint == "/run/containerd/containerd.sock"
    assert not [each for each in planned.arguments if "kubeconfig" in each]
    assert f"--config-dir={on.plan.kubelet.config_dir}" in planned.arguments
    assert planned.arguments[0] == "--anonymous-auth=false"


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        pytest.param(("--kubeconfig", "/etc/k.conf", "--v=2"), ("--v=2",), id="a-login-in-two-words"),
        pytest.param(("--address", "10.0.0.1", "--v=2"), ("--v=2",), id="an-address-of-the-network"),
        pytest.param(("--anonymous-auth", "--v=2"), ("--v=2",), id="a-switch-has-no-second-word"),
        pytest.param(("--v=2", "--max-pods"), ("--v=2", "--max-pods"), id="a-value-that-lacks-stays-last"),
    ],
)
def test_kubelet_flags_come_last_without_cluster_flags(flags: tuple[str, ...], kept: tuple[str, ...]) -> None:
    alone = without_cluster(())
    assert without_cluster(flags) == (*alone, *kept)
    assert "--address=127.0.0.1" in alone


def test_rehearsal_sees_state_files_as_the_transaction_leaves_them() -> None:
    earlier = {CPU_STATE: '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'}
    assert shown(target(PROFILE, "kubelet"), **earlier).removed == (CPU_STATE,)


def test_rehearsal_sees_planned_huge_page_pools() -> None:
    on = target(PROFILE, "kubelet")
    pool = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"
    planned = rehearsal(on, found(on, {pool: 0}))
    assert isinstance(planned, Rehearsal)
    assert planned.faces[pool] == "16\n"
    assert planned.faces["/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"] == "64\n"


def test_rehearsal_sees_the_remaining_cpus_and_planned_kernel_values() -> None:
    on = target(PROFILE, "kubelet")
    tuning = replace(on.plan.tuning, sysctls={"vm.overcommit_memory": "2", "vm.swappiness": "1"})
    offline = replace(tuning.offline, cpus=parse_cpulist("15"))
    plan = replace(on.plan, tuning=replace(tuning, offline=offline, swap_off=True))
    planned = shown(replace(on, plan=plan, machine=replace(on.machine, swap_bytes=4096)))
    faces = planned.faces
    assert planned.offline == (15,)
    assert planned.figures == {("/proc/meminfo", "SwapTotal"): 0}
    assert "offline 15" in planned.script
    assert faces["/sys/devices/system/cpu/online"] == "0-14\n"
    assert faces["/proc/sys/vm/overcommit_memory"] == "2\n"
    assert "/proc/sys/vm/swappiness" not in faces
    assert faces["/proc/swaps"].count("\n") == 1


def test_rehearsal_sees_the_memory_that_a_reboot_removes_from_numa_nodes() -> None:
    """The driver takes the GPUs' memory of a GB200."""
    profile = {**PROFILE, "gpu_memory": "driver", "maintenance": {"reboot": "allowed"}}
    machine = replace(machine_of("gb200", None), kubelet=kubeadm_kubelet())
    assert machine.memory_bytes is not None
    taken = sum(memory_of_gpus(machine).values())
    on = Goal(plan_node(machine, load_profile(profile)), machine, frozenset({"kubelet"}))
    assert shown(on).figures == {
        ("/proc/meminfo", "MemTotal"): (machine.memory_bytes - taken) // 1024,
        **{(f"/sys/devices/system/node/node{node}/meminfo", "MemTotal"): 0 for node in (2, 10, 18, 26)},
    }


@cases(
    "change, why",
    {
        "inside-another-program": ({"distribution": "k3s"}, "k3s runs the kubelet inside"),
        "a-runtime-that-is-not-known": (
            {"flags": ("--container-runtime-endpoint=unix:///run/cri-dockerd.sock",)},
            "neither containerd nor CRI-O",
        ),
        "a-path-of-two-words": (
            {"flags": ("--container-runtime-endpoint=unix:///run/my containerd.sock",)},
            "has a blank in its name",
        ),
    },
)
def test_impossible_rehearsal_gives_a_reason(change: Mapping[str, Any], why: str) -> None:
    on = target(PROFILE, "kubelet")
    assert on.machine.kubelet is not None
    machine = replace(on.machine, kubelet=replace(on.machine.kubelet, **change))
    assert why in str(rehearsal(replace(on, machine=machine), found(on)))


@cases(
    "lines, verdict, words",
    {
        "started": (STARTED, Verdict.STARTS, ""),
        "its-last-words-whole": (ENDED, Verdict.REFUSED, "a rule of its own"),
        "words-of-no-log": ({**ENDED, "output": "Killed"}, Verdict.REFUSED, "Killed"),
        "not-there": ({"cannot": "SELinux is enforcing"}, Verdict.UNKNOWN, "SELinux is enforcing"),
        "too-late": ({"outcome": "late", "took": "6000"}, Verdict.UNKNOWN, "after 60 s the kubelet had"),
        "killed": ({}, Verdict.UNKNOWN, "the unit of the rehearsal was ended"),
    },
)
def test_rehearsal_answer_becomes_a_verdict(lines: Mapping[str, str], verdict: Verdict, words: str) -> None:
    read = read_rehearsed(answer(lines))
    assert (read.verdict, read.words[: len(words)]) == (verdict, words)
    assert from_document(json.loads(json.dumps(to_document(read)))) == read


def test_kubelet_without_configuration_is_not_rehearsed() -> None:
    on = target(PROFILE, "kubelet")
    assert on.plan.kubelet is not None
    path = on.plan.kubelet.config_file
    assert rehearsal(on, found(on, **{path: None})) == f"{path}, which the kubelet reads, is not there yet"


def test_truncated_answer_is_refused() -> None:
    with pytest.raises(HostUnreachableError):
        read_rehearsed("numaforge answers 1\noutcome started\n")


def only_planned(on: Goal, planned: Mapping[str, str], present: Mapping[str, str]) -> Ask:
    """Return a node that answers differently for the planned and for the present configuration."""
    assert on.plan.kubelet is not None
    writes = f"file {on.plan.kubelet.drop_in} "
    return lambda script, _seconds: answer(planned if writes in script else present)


def test_failure_shared_by_the_present_config_leaves_the_plan_unknown() -> None:
    on = target(PROFILE, "kubelet")
    said = rehearse(on, found(on), only_planned(on, ENDED, ENDED))
    assert said.verdict is Verdict.UNKNOWN
    assert said.words == "the present configuration does not start there, either: a rule of its own"
    present = present_rehearsal(on, shown(on))
    assert (present.files, present.faces, present.figures, present.removed) == ({}, {}, {}, ())


def test_plan_refused_only_by_the_kubelet_is_refused_and_reportable() -> None:
    on = target(PROFILE, "kubelet")
    said = rehearse(on, found(on), only_planned(on, ENDED, STARTED))
    assert said.differences == ("`kubelet check` says that it starts",)
    assert refusal(on, said).startswith("the kubelet refuses the plan in its rehearsal: a rule of its own; ")
    assert "report it with the snapshot" in refusal(on, said)


@cases("policy, refused", {"required": ("required", True), "when-possible": ("when-possible", False)})
def test_unknown_outcome_is_refused_only_if_a_rehearsal_is_required(policy: str, refused: bool) -> None:
    unknown = Rehearsed(Verdict.UNKNOWN, "systemd does not run")
    assert ("maintenance.rehearsal: required" in refusal(with_policy(policy), unknown)) is refused


def test_kubelets_own_numbers_are_compared_with_the_plan() -> None:
    on = target(STATIC, "kubelet")
    nodes = on.machine.numa_nodes
    tables = {
        str(node.id): {
            "numberOfAssignments": 0,
            "memoryMap": {
                "memory": {
                    "total": node.memory_bytes,
                    "systemReserved": 0,
                    "allocatable": 0 if node.id == 0 else (node.memory_bytes or 0) - 16 * 2 * 2**20,
                }
            },
            "cells": [],
        }
        for node in nodes
    }
    cpus = json.dumps({"policyName": "static", "defaultCpuSet": "0-14", "entries": {}})
    memory = json.dumps({"policyName": "Static", "machineState": tables, "entries": {}})
    files = {"cpu_manager_state": cpus, "memory_manager_state": memory}
    said = rehearse(on, found(on), lambda _script, _seconds: answer(STARTED, **files))
    assert said.verdict is Verdict.STARTS
    assert said.shared_cpus == "0-14" or "cpu_manager_state reads" in said.differences[0]
    assert len(said.differences) == 2
    assert all("please report it with the snapshot" in line for line in said.lines[1:])
