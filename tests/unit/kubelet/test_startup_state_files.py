"""State files: what a restart with them says, and which of them a change invalidates."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.kubelet.checkpoints import (
    CheckpointError,
    CpuState,
    check_cpu_state,
    restore_cpu_state,
    restore_memory_state,
    state_files_to_remove,
)
from numaforge.kubelet_minors.versions import KubeletVersion
from numaforge.lib.cpulist import format_cpulist
from tests.fixtures.tables import cases

LATEST = KubeletVersion.parse("1.36.3")
OLDEST = KubeletVersion.parse("1.30.14")
# Written by a kubelet.
WRITTEN = (
    '{"policyName":"static","defaultCpuSet":"0,2-8,10-15",'
    '"entries":{"p1":{"c0":"1,9"}},"checksum":4201395767}'
)

STATIC: dict[str, Any] = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0,8"}
MEMORY: dict[str, Any] = {
    "memoryManagerPolicy": "Static",
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
}


def files(old: dict[str, Any] | None, new: dict[str, Any], **changes: bool) -> set[str]:
    return {removal.path.rpartition("/")[2] for removal in state_files_to_remove(old, new, **changes)}


@cases(
    "old, new, expected",
    {
        "nothing changes": (STATIC, STATIC, set()),
        "none to static": ({}, STATIC, {"cpu_manager_state"}),
        "static to none": (STATIC, {}, {"cpu_manager_state"}),
        "the same reserved CPUs written otherwise": (STATIC, {**STATIC, "reservedSystemCPUs": "8,0"}, set()),
        "other reserved CPUs": (STATIC, {**STATIC, "reservedSystemCPUs": "0-1,8-9"}, {"cpu_manager_state"}),
        "strict turned on": (
            STATIC,
            {**STATIC, "cpuManagerPolicyOptions": {"strict-cpu-reservation": "true"}},
            {"cpu_manager_state"},
        ),
        "another option with named reserved CPUs": (
            STATIC,
            {**STATIC, "cpuManagerPolicyOptions": {"full-pcpus-only": "true"}},
            set(),
        ),
        "another number of reserved CPUs": (
            {"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "1"}},
            {"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "2"}},
            {"cpu_manager_state"},
        ),
        "a setting that no state depends on": ({"maxPods": 1}, {"maxPods": 2}, set()),
        "another topology policy": (STATIC, {**STATIC, "topologyManagerPolicy": "restricted"}, set()),
        "memory None to Static": ({}, MEMORY, {"memory_manager_state"}),
        "reservedMemory moved": (
            MEMORY,
            {**MEMORY, "reservedMemory": [{"numaNode": 1, "limits": {"memory": "1Gi"}}]},
            {"memory_manager_state"},
        ),
        "nobody knows who wrote the files": (None, STATIC, {"cpu_manager_state", "memory_manager_state"}),
    },
)
def test_configuration_change_invalidates_its_state_files(old, new, expected):
    assert files(old, new) == expected


@cases(
    "change",
    {"a hugepage pool changed": "hugepages_changed", "a NUMA node has other memory": "memory_changed"},
)
def test_memory_changes_invalidate_the_memory_state(change):
    both = {**STATIC, **MEMORY}
    assert files(both, both, **{change: True}) == {"memory_manager_state"}


def test_every_removal_names_its_reason_and_path():
    (removal,) = state_files_to_remove({}, STATIC, root_dir="/data/kubelet")
    assert removal.path == "/data/kubelet/cpu_manager_state"
    assert '"none" to "static"' in removal.reason


@pytest.mark.parametrize("version", [OLDEST, LATEST], ids=str)
def test_state_file_written_by_a_kubelet_is_restored(version):
    state = restore_cpu_state(WRITTEN, "static", version, "/s")
    assert format_cpulist(state.default) == "0,2-8,10-15"
    assert state.assignments == {"p1": {"c0": frozenset({1, 9})}}


NO_TEXT = "json: cannot unmarshal object into Go struct field CPUManagerCheckpointV1"


@cases(
    "version, text, reason",
    {
        "tampered with, before 1.36": (OLDEST, WRITTEN.replace('"1,9"', '"1"'), "checkpoint is corrupted"),
        "tampered with, since 1.36 the oldest format has the last word": (
            LATEST,
            WRITTEN.replace('"1,9"', '"1"'),
            f"{NO_TEXT}.entries of type string",
        ),
        "empty": (LATEST, "", "unexpected end of JSON input"),
        "cut off": (LATEST, '{"policyName":"static"', "unexpected end of JSON input"),
        "YAML": (
            LATEST,
            "{policyName: static}",
            "invalid character 'p' looking for beginning of object key string",
        ),
        "not a CPU list": (
            LATEST,
            '{"policyName":"static","defaultCpuSet":"0-3,"}',
            'could not parse default cpu set "0-3,": strconv.Atoi: parsing "": invalid syntax',
        ),
        "two wrong types, of which the first in the file counts": (
            LATEST,
            '{"policyName":{},"defaultCpuSet":1}',
            f"{NO_TEXT}.policyName of type string",
        ),
        "a field in other capitals": (
            LATEST,
            '{"PolicyName":"none"}',
            'configured policy "static" differs from state checkpoint policy "none"',
        ),
    },
)
def test_unrestorable_state_file_is_refused_with_the_kubelet_text(version, text, reason):
    with pytest.raises(CheckpointError) as refusal:
        restore_cpu_state(text, "static", version, "/s/cpu_manager_state")
    assert str(refusal.value) == (
        f"could not restore state from checkpoint: {reason}, please drain this node and delete the CPU "
        "manager "
        'checkpoint file "/s/cpu_manager_state" before restarting Kubelet'
    )


def test_pod_without_containers_holds_no_cpus():
    text = '{"policyName":"static","defaultCpuSet":"0-3","entries":{"p":null}}'
    assert restore_cpu_state(text, "static", LATEST, "/s").assignments == {"p": {}}


def test_memory_state_without_a_checksum_is_corrupt_before_1_36():
    text = '{"policyName":"Static","machineState":{}}'
    with pytest.raises(CheckpointError, match="checkpoint is corrupted"):
        restore_memory_state(text, "Static", KubeletVersion(35), "/s")
    assert restore_memory_state(text, "Static", KubeletVersion(36), "/s").machine == {}


cpu_sets = st.frozensets(st.integers(0, 15), max_size=16)


@given(cpu_sets, cpu_sets)
def test_fresh_state_always_fits_its_reservation(online, reserved):
    reserved &= online
    assert check_cpu_state(CpuState(online, {}), online, reserved, strict=False) is None
    assert check_cpu_state(CpuState(online - reserved, {}), online, reserved, strict=True) is None


@given(cpu_sets)
def test_cpu_state_without_a_checksum_is_accepted(cpus):
    text = json.dumps({"policyName": "static", "defaultCpuSet": format_cpulist(cpus)})
    assert restore_cpu_state(text, "static", LATEST, "/s").default == cpus
