"""What a host needs for its kubelet to be as planned, huge pages included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from numaforge.bundle import FileState
from numaforge.errors import HostError
from numaforge.kernel_paths import hugepage_counts, hugepage_totals, pool_pages
from numaforge.planning.files import HUGEPAGES_TMPFILES_PATH
from numaforge.planning.node import plan_node
from numaforge.profile import load_profile
from numaforge.render import hugepage_files, kubelet_files
from numaforge.roles.kubelet.facts import KubeletFiles, KubeletUnit
from numaforge.roles.kubelet.target import Need, Target
from numaforge.rollout.fence import Fingerprint
from numaforge.topology.model import NodeTopology
from tests.fixtures.machines import KUBEADM_CONFIG, kubeadm_kubelet, lab_node

PROFILE: dict[str, Any] = {
    "name": "t",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "memory": {"system_reserved": "512Mi"},
    "hugepages": [{"size": "2Mi", "count_per_numa_node": 16}],
    "kubelet": {"cpu_manager_policy": "static"},
}
STATIC = {**PROFILE, "kubelet": {"cpu_manager_policy": "static", "memory_manager_policy": "Static"}}
MEMORY_STATE = "/var/lib/kubelet/memory_manager_state"
STATIC_STATE = {MEMORY_STATE: '{"policyName":"Static","machineState":{},"entries":{},"checksum":0}'}
RUNNING = KubeletUnit("active", "running", ("curl",))
STOPPED = KubeletUnit("inactive", "dead", ("curl",))
OTHER_DROP_IN = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 30\n"
NO_SYSTEMD = KubeletUnit(None, None, ("curl",))


def target(profile: Mapping[str, Any] = PROFILE) -> Target:
    """Return the plan of a host that is as planned already, but for what a test finds there."""
    machine = replace(lab_node(), kubelet=kubeadm_kubelet())
    plan = plan_node(machine, load_profile(dict(profile)))
    assert plan.kubelet is not None
    return Target(plan, plan.kubelet, replace(machine, kubelet=_provisioned(machine, plan)))


def _provisioned(machine: NodeTopology, plan: Any) -> Any:
    return replace(
        machine.kubelet,
        config_dir=plan.kubelet.config_dir,
        flags=(*machine.kubelet.flags, f"--config-dir={plan.kubelet.config_dir}"),  # type: ignore[union-attr]
        exec_start=plan.kubelet.exec_start,
    )


def found(on: Target, pools: Mapping[str, int] | None = None, **changes: str | None) -> KubeletFiles:
    """Return the host's files as planned and its pools, with `changes`: None for a file that is not there."""
    files = [*kubelet_files(on.plan, KUBEADM_CONFIG), *hugepage_files(on.plan)[0]]
    states = {file.path: FileState(file.text, file.mode, file.owner, file.group) for file in files}
    states[on.kubelet.config_file] = FileState(KUBEADM_CONFIG, "0644", "root", "root")
    for path, text in changes.items():
        states.pop(path, None)
        if text is not None:
            states[path] = FileState(text, "0644", "root", "root")
    drop_in = on.kubelet.drop_in
    assert drop_in is not None
    return KubeletFiles(states, (drop_in,), None, None, {**hugepage_counts(on.plan), **(pools or {})})


def needed(on: Target, files: KubeletFiles, unit: KubeletUnit = RUNNING) -> Need:
    need = on.need(files, lambda: unit)
    assert need is not None
    return need


def not_asked() -> KubeletUnit:
    pytest.fail("systemd was asked, and nothing changes")


POOL = pool_pages(1, "2Mi")


def test_a_host_that_is_as_planned_needs_nothing_and_is_not_asked_about_its_unit() -> None:
    on = target()
    assert on.need(found(on), not_asked) is None


def test_the_question_names_every_planned_pool_and_the_file_that_fills_them_at_boot() -> None:
    question = target().question
    assert POOL in question.pools
    assert HUGEPAGES_TMPFILES_PATH in question.paths


def test_only_the_pools_that_differ_are_filled() -> None:
    on = target()
    need = needed(on, found(on, {POOL: 3}))
    assert need.transaction is not None
    assert need.transaction.pools == {POOL: 16}
    assert need.moves == (f"{POOL}: 3 -> 16",)
    assert need.changed == ()


def test_pools_restart_the_kubelet_although_no_setting_changes() -> None:
    on = target()
    need = needed(on, found(on, {POOL: 3}))
    assert need.restarts
    assert need.sentences == ("the kubelet restarts, because this changes: hugepages",)


def test_pools_stand_beside_the_settings_that_change() -> None:
    on = target()
    assert on.kubelet.drop_in is not None
    need = needed(on, found(on, {POOL: 3}, **{on.kubelet.drop_in: OTHER_DROP_IN}))
    assert need.sentences[-1].endswith(", systemReserved, topologyManagerPolicy, hugepages")


def test_what_counts_is_what_the_host_has_now_and_not_what_was_detected() -> None:
    on = target()
    assert hugepage_totals(on.machine)[POOL] != 16
    assert on.need(found(on), not_asked) is None


def test_memory_state_of_other_pools_goes() -> None:
    on = target(STATIC)
    need = needed(on, found(on, {POOL: 3}, **STATIC_STATE))
    assert need.transaction is not None
    assert [*need.transaction.invalid_state] == [MEMORY_STATE]
    assert need.sentences[0].startswith(f"{MEMORY_STATE} is removed: a hugepage pool changed its size")


def test_the_file_for_the_boot_alone_restarts_nothing() -> None:
    on = target()
    need = needed(on, found(on, **{HUGEPAGES_TMPFILES_PATH: None}))
    assert need.transaction is not None
    assert [file.path for file in need.transaction.files] == [HUGEPAGES_TMPFILES_PATH]
    assert not need.restarts


def test_a_file_for_the_boot_that_nobody_plans_is_removed() -> None:
    on = target({name: value for name, value in PROFILE.items() if name != "hugepages"})
    need = needed(on, found(on, **{HUGEPAGES_TMPFILES_PATH: "# Written by numaforge\n"}))
    assert need.transaction is not None
    assert need.transaction.absent == (HUGEPAGES_TMPFILES_PATH,)


def test_a_change_begins_only_on_what_it_was_planned_on() -> None:
    on = target()
    fingerprint = Fingerprint("boot", 7, "T0 applied", {on.kubelet.config_file: "1f"}, on.kubelet.config_dir)
    need = needed(on, replace(found(on, {POOL: 3}), fingerprint=fingerprint))
    assert need.transaction is not None
    assert need.transaction.planned_on == fingerprint


def test_the_look_covers_every_file_that_the_decision_depends_on() -> None:
    on = target()
    question = on.question
    assert {on.kubelet.config_file, HUGEPAGES_TMPFILES_PATH, MEMORY_STATE} <= {*question.paths}
    assert {file.path for file in on.plan.files if file.role == "kubelet"} <= {*question.paths}
    assert question.drop_in_folder == on.kubelet.config_dir
    assert all(path in question.script.split("look ")[-1].split("\n")[0] for path in question.paths)


@pytest.mark.parametrize("unit", [STOPPED, NO_SYSTEMD], ids=["stopped", "no-systemd"])
def test_pools_of_a_kubelet_that_does_not_run_are_not_its_own(unit: KubeletUnit) -> None:
    on = target()
    assert on.need(found(on, {POOL: 3}, **{HUGEPAGES_TMPFILES_PATH: None}), lambda: unit) is None


def test_a_kubelet_that_does_not_run_is_configured_without_its_pools() -> None:
    on = target()
    assert on.kubelet.drop_in is not None
    changes = {HUGEPAGES_TMPFILES_PATH: None, on.kubelet.drop_in: OTHER_DROP_IN}
    need = needed(on, found(on, {POOL: 3}, **changes), STOPPED)
    assert need.transaction is not None
    assert [file.path for file in need.transaction.files] == [on.kubelet.drop_in]
    assert (need.transaction.pools, need.moves, need.restarts) == ({}, (), False)


def test_a_kubelet_that_starts_over_and_over_finds_its_settings_and_its_pools_together() -> None:
    on = target()
    crashing = replace(RUNNING, active_state="activating", sub_state="auto-restart")
    need = needed(on, found(on, {POOL: 3}, **{HUGEPAGES_TMPFILES_PATH: None}), crashing)
    assert need.transaction is not None
    assert (need.transaction.pools, need.restarts) == ({POOL: 16}, False)


def test_state_that_the_next_start_could_not_read_goes_where_no_kubelet_runs() -> None:
    on = target(STATIC)
    need = needed(on, found(on, {POOL: 3}, **STATIC_STATE), STOPPED)
    assert need.transaction is not None
    assert [*need.transaction.invalid_state] == [MEMORY_STATE]
    assert not need.restarts


def test_without_systemd_no_state_is_touched() -> None:
    on = target(STATIC)
    assert on.need(found(on, {POOL: 3}, **STATIC_STATE), lambda: NO_SYSTEMD) is None


def test_a_pool_that_the_kernel_does_not_have_is_refused() -> None:
    on = target()
    files = found(on)
    there = {path: pages for path, pages in files.pools.items() if path != POOL}
    with pytest.raises(HostError, match=f"{POOL}: this kernel has no such pool"):
        on.need(replace(files, pools=there), lambda: RUNNING)
