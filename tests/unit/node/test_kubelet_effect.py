"""What a change of the kubelet's files means for it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from numaforge.kubelet.findings import require_start
from numaforge.lib.errors import KubeletConfigError
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.as_planned import machine_as_planned
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.roles.kubelet.effect import Effect, effect
from tests.fixtures.machines import KUBEADM_CONFIG, kubeadm_kubelet, lab_node
from tests.fixtures.role_files import kubelet_files

PROFILE: dict[str, Any] = {
    "name": "t",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "memory": {"system_reserved": "512Mi"},
    "kubelet": {"cpu_manager_policy": "static", "memory_manager_policy": "Static"},
}
CPU_STATE = "/var/lib/kubelet/cpu_manager_state"
MEMORY_STATE = "/var/lib/kubelet/memory_manager_state"
NEW_STATES = {
    "cpu_manager_state": json.dumps({"policyName": "none", "defaultCpuSet": "", "checksum": 1353318690}),
    "memory_manager_state": json.dumps({"policyName": "None", "checksum": 0}),
}


def node(**changes: Any) -> NodeTopology:
    return replace(lab_node(), kubelet=replace(kubeadm_kubelet(), **changes))


def change(
    machine: NodeTopology,
    profile: dict[str, Any] = PROFILE,
    planned_on: NodeTopology | None = None,
    **states: str,
) -> Effect:
    plan = plan_node(planned_on or machine, load_profile(profile))
    config_text = machine.kubelet.config_text
    wanted = kubelet_files(plan, config_text)
    after = machine_as_planned(machine, plan)
    return effect(plan, machine, after, wanted, config_text, machine.kubelet.drop_ins, states)


def provisioned(profile: dict[str, Any] = PROFILE) -> NodeTopology:
    """Return the node as it is after a run."""
    machine = node()
    plan = plan_node(machine, load_profile(profile))
    drop_in = next(file for file in kubelet_files(plan, KUBEADM_CONFIG) if file.path == plan.kubelet.drop_in)
    return node(
        config_dir=plan.kubelet.config_dir,
        drop_ins={drop_in.path: drop_in.text},
        flags=(*machine.kubelet.flags, f"--config-dir={plan.kubelet.config_dir}"),
        config_dir_added=True,
    )


def test_first_run_restarts_the_kubelet_for_its_settings() -> None:
    expected = change(node())
    assert expected.after.starts, expected.after.error
    assert expected.needs_restart
    assert {"cpuManagerPolicy", "reservedSystemCPUs", "reservedMemory"} <= {*expected.changed_settings}


def test_second_run_needs_no_restart() -> None:
    assert not change(provisioned()).needs_restart


def test_setting_equal_to_its_default_restarts_nothing() -> None:
    machine = node(config_text=KUBEADM_CONFIG + "maxPods: 110\n")
    lean = {"name": "t", "cpus": {"reserved": {"cores_per_numa_node": 1}}}
    before = change(machine, lean)
    assert "maxPods" not in before.changed_settings


def test_state_of_another_policy_is_removed_with_a_reason() -> None:
    expected = change(node(), **NEW_STATES)
    assert expected.removals == {
        CPU_STATE: 'cpuManagerPolicy changes from "none" to "static", and the file names the old one',
        MEMORY_STATE: 'memoryManagerPolicy changes from "None" to "Static", and the file names the old one',
    }


def test_missing_state_file_becomes_invalid_when_the_old_policy_writes_it() -> None:
    expected = change(node())
    assert expected.removals == {}
    assert expected.invalid == (CPU_STATE, MEMORY_STATE)


def test_valid_state_is_kept() -> None:
    more = {**PROFILE, "kubelet": {**PROFILE["kubelet"], "topology_manager_policy": "restricted"}}
    expected = change(provisioned(), more)
    assert "topologyManagerPolicy" in expected.changed_settings
    assert (expected.removals, expected.invalid) == ({}, ())


def test_state_unfit_for_this_machine_is_removed_without_setting_changes() -> None:
    expected = change(provisioned(), **NEW_STATES)
    assert expected.changed_settings == ()
    assert {*expected.removals} == {CPU_STATE, MEMORY_STATE}
    assert expected.needs_restart


def test_hugepage_change_restarts_a_kubelet_without_memory_manager() -> None:
    pools = [{"size": "2Mi", "count_per_numa_node": 16}]
    lean = {**PROFILE, "kubelet": {"cpu_manager_policy": "static"}}
    expected = change(provisioned(lean), {**lean, "hugepages": pools})
    assert expected.changed_settings == ()
    assert expected.needs_restart


def test_config_rejected_by_the_kubelet_is_refused_in_its_words() -> None:
    broken = node(config_text=KUBEADM_CONFIG + "maxPods: -1\n")
    with pytest.raises(KubeletConfigError, match=r"would not start.*maxPods"):
        require_start(change(broken, planned_on=node()).after)


def test_swap_that_the_plan_turns_off_does_not_block_kubelet() -> None:
    swapping = replace(node(), swap_bytes=2**30)
    assert change(swapping, {**PROFILE, "tuning": {"swap": "off"}}).after.starts
    assert not change(swapping, PROFILE, planned_on=node()).after.starts


def test_kubelet_before_1_30_is_judged_by_its_merged_file() -> None:
    old = node(version="1.29.6")
    expected = change(old)
    assert expected.after.starts, expected.after.error
    assert expected.after.effective["cpuManagerPolicy"] == "static"
