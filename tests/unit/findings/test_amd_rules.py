"""What the rules about AMD's GPUs find, and on which machines they do not apply."""

from dataclasses import replace
from typing import Any

import pytest

from numaforge.findings.engine import Verdict
from numaforge.findings.gpus.amd import RULES
from numaforge.machine.topology.model import NodeTopology, RasErrors
from tests.fixtures.judged import found, with_verdict
from tests.fixtures.machines import dgx_h100, mi210, mi300x, mi300x_cpx_kfd


def changed(machine: NodeTopology, first: int = 8, **fields: Any) -> NodeTopology:
    """Change fields of the first GPUs; `partition` are changes of its own."""
    partition = fields.pop("partition", {})
    gpus = [
        replace(gpu, **fields, partition=gpu.partition and replace(gpu.partition, **partition))
        if number < first
        else gpu
        for number, gpu in enumerate(machine.gpus)
    ]
    return replace(machine, gpus=tuple(gpus))


CPX = changed(mi300x_cpx_kfd(), partition={"named": "amdgpu_xcp_"}, ras=(RasErrors("umc", 0, 3),))
FIRST = [CPX.gpus[0].pci_address]
ALL = [gpu.pci_address for gpu in CPX.gpus]


FINDINGS = {
    "a-sound-machine": (CPX, {}),
    "a-silent-GPU": (changed(CPX, 1, partition={"compute": None}), {"NG801": FIRST}),
    "modes-of-a-hive": (changed(CPX, 1, partition={"compute": "QPX", "count": 4}), {"NG802": FIRST}),
    "partitions-are-missing": (changed(CPX, 1, partition={"count": None}), {"NG803": FIRST}),
    "other-names": (changed(CPX, partition={"named": "amdgpu_xcp."}), {"NG804": ALL}),
    "no-NUMA-node": (changed(CPX, 1, numa_node=None), {"NG805": FIRST}),
    "errors": (changed(CPX, 1, ras=(RasErrors("umc", 2, 0), RasErrors("gfx", 0, 9))), {"NG806": FIRST}),
}


@pytest.mark.parametrize(("machine", "findings"), FINDINGS.values(), ids=FINDINGS)
def test_each_machine_gives_its_expected_findings(
    machine: NodeTopology, findings: dict[str, list[str]]
) -> None:
    assert found(RULES, machine) == findings


@pytest.mark.parametrize(
    ("machine", "rules"),
    [
        pytest.param(dgx_h100(), {rule.id for rule in RULES}, id="another-vendor"),
        pytest.param(mi210(), {"NG801", "NG802", "NG803", "NG804"}, id="cannot-be-partitioned"),
        pytest.param(mi300x(), {"NG804"}, id="whole-GPUs"),
        pytest.param(changed(CPX, driver="vfio-pci"), {rule.id for rule in RULES}, id="given-to-guests"),
    ],
)
def test_amd_rules_apply_only_to_matching_gpus(machine: NodeTopology, rules: set[str]) -> None:
    assert with_verdict(RULES, machine, Verdict.NOT_APPLICABLE) == rules


def test_missing_snapshot_data_is_unknown() -> None:
    assert with_verdict(RULES, mi300x_cpx_kfd(), Verdict.UNKNOWN) == {"NG804", "NG806"}
    assert with_verdict(RULES, mi300x(), Verdict.UNKNOWN) == {"NG803", "NG806"}
