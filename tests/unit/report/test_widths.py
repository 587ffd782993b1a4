"""Every table and every sentence fits a terminal of 80 columns, and a command to copy stands on one line."""

import json
import re
from pathlib import Path

import click
import pytest

from numaforge.findings import Severity
from numaforge.lib.errors import ExitCode
from numaforge.machine.topology.document import to_document
from numaforge.machine.topology.saved import ready_machines
from numaforge.preflight import Check
from numaforge.report import verification
from numaforge.report.doctor import doctor_lines
from numaforge.report.fleet import HostSummary, fleet_lines
from numaforge.report.rehearsal import rehearsal_lines
from numaforge.report.rollout import outlook_tables, situation_tables
from numaforge.report.terminal import Screen
from numaforge.roles.kubelet.rehearsal import Rehearsed, Verdict
from numaforge.rollout.launch import HostNeeds, Survey
from numaforge.rollout.options import RolloutOptions
from numaforge.rollout.orders import NamedRollout, NodeStatus, RolloutStatus
from numaforge.rollout.outlook import NodeOutlook
from numaforge.rollout.record import Phase, Record
from numaforge.verification.suite import CaseResult
from tests.fixtures import machines
from tests.fixtures.terminal import on_a_terminal, printed

LONGEST_NAME = "gpu-worker-01.rack-0042.row-0007.cluster-one.dc-eu.example-1.com"
"""As many letters as Linux lets a host's name have."""
assert len(LONGEST_NAME) == 64
WORST = {
    "8 GPUs and 10 NICs": machines.hgx_a100,
    "64 partitions": machines.mi300x_cpx,
    "34 NUMA nodes": machines.gb200_nvl72_tray,
    "512 CPUs": machines.big_512,
    "2 CPUs": machines.two_cpu_vm,
}
OF_A_MACHINE = [
    "topology MACHINE",
    "topology MACHINE --matrix",
    "topology MACHINE --ascii",
    "topology MACHINE --ascii --all",
    "plan MACHINE --profile training",
    "plan MACHINE --profile training --why",
    "plan MACHINE --profile inference-mig --why",
    "plan MACHINE --profile best-effort-mixed",
    "audit MACHINE",
    "audit MACHINE -v",
    "audit --only gpus MACHINE -v",
    "audit --only gpudirect MACHINE",
    "audit --only gpudirect MACHINE -v",
    "audit --only host MACHINE -v",
    "admit POD --machine MACHINE --profile training",
    "fit POD --machine MACHINE --profile training",
    "fit --shapes SHAPES --machine MACHINE",
    "diff MACHINE dgx-h100 --identifiers",
    "diff MACHINE gb200 --profile training",
    "kubelet check KUBELET --machine MACHINE -v",
    "mig check MIG --machine MACHINE",
    "mig plan MACHINE --profile inference-mig",
    "device-plugin check PLUGIN MACHINE",
    "rdma check RDMA --machine MACHINE",
    "cluster explain POD --machine MACHINE --profile training",
]
OF_A_FLEET = [
    "audit FLEET",
    "audit FLEET -v",
    "audit --only gpus FLEET",
    "topology FLEET",
    "plan FLEET --profile training",
    "cluster explain POD --machine FLEET --profile training",
    "cluster explain POD --machine FLEET --profile training -v",
]
ALONE = [
    "mig explain h100-80gb",
    "mig explain a100-40gb 1g.5gb",
    "mig explain rtx-pro-6000-96gb 1g.24gb+me.all",
    "doctor",
    "doctor ABSENT",
]
FILES = {
    "POD": """\
        metadata: {name: one-of-a-training-job-with-a-long-name-0, namespace: team-with-a-long-name}
        spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 3, cpu: 8, memory: 8Gi}}}]}""",
    "SHAPES": "[{name: a-quarter-of-a-machine, cpu: 16, memory: 64Gi, nvidia.com/gpu: 2, count: 4}]",
    "KUBELET": """\
        {apiVersion: kubelet.config.k8s.io/v1beta1, kind: KubeletConfiguration, cpuManagerPolicy: static,
         memoryManagerPolicy: Static, kubeReserved: {memory: 1Gi}, featureGates: {AnUnknownGate: true}}""",
    "MIG": """\
        {version: v1, mig-configs: {a-configuration-with-quite-a-long-name-of-team-one: [
         {devices: [0, 1], mig-enabled: true, mig-devices: {1g.10gb: 2, 2g.20gb: 1, 3g.40gb: 1}},
         {devices: [2, 3], mig-enabled: true, mig-devices: {3g.40gb: 3}}]}}""",
    "PLUGIN": "{version: v1, sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}, flogs: {}}",
    "RDMA": """{"configList": [{"resourceName": "rail0", "rdmaHcamax": 63, "devices": ["mlx5_0"]}]}""",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("a")
    for name, text in FILES.items():
        (folder / name.lower()).write_text(text)
    fleet = folder / "fleet"
    fleet.mkdir()
    for number, build in enumerate([*WORST.values()] * 2):
        name = f"gpu-{number:02}.{LONGEST_NAME[7:]}"
        (fleet / f"{number}.json").write_text(json.dumps({**to_document(build()), "hostname": name}))
    return {**{name: str(folder / name.lower()) for name in FILES}, "FLEET": str(fleet), "ABSENT": "absent"}


def too_wide(words: str, files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the lines of a command that are wider than 80 and could be broken; commands are not."""
    monkeypatch.setenv("COLUMNS", "80")
    code, lines = on_a_terminal([files.get(word, word) for word in words.split()])
    assert code in (ExitCode.YES, ExitCode.NO, ExitCode.BAD_INPUT)
    assert lines
    assert not [line for line in lines if line.replace("`- ", "").count("`") % 2], "a command is broken"
    return [line for line in lines if len(line) > 80 and " " in re.sub("`[^`]*`", "`", line).strip()]


@pytest.mark.parametrize("words", OF_A_MACHINE)
@pytest.mark.parametrize("name", WORST)
def test_output_for_the_widest_machines_fits(
    words: str, name: str, files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = tmp_path / "m.json"
    machine.write_text(json.dumps({**to_document(WORST[name]()), "hostname": LONGEST_NAME}))
    monkeypatch.chdir(tmp_path)
    assert not too_wide(words, {**files, "MACHINE": machine.name}, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("words", OF_A_MACHINE)
@pytest.mark.parametrize("machine", ready_machines())
def test_output_for_a_ready_machine_fits(
    words: str, machine: str, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not too_wide(words, {**files, "MACHINE": machine}, monkeypatch)


@pytest.mark.parametrize("words", [*OF_A_FLEET, *ALONE])
def test_output_for_a_fleet_fits(
    words: str, files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not too_wide(words, files, monkeypatch)


HOSTS = [f"gpu-worker-{number:02}{LONGEST_NAME[13:]}" for number in range(14)]
REASON = (
    "the drain did not end within 600 s: a PodDisruptionBudget of team-with-a-long-name allows no eviction "
    "of one-of-a-training-job-with-a-long-name-0, which has one replica; scale it, or evict it by hand"
)
NEEDS = [
    HostNeeds(host, host, True, True, ("cpuManagerPolicy: none -> static", REASON), {}, {}) for host in HOSTS
]
RECORD = Record("an-admin-with-a-long-name@bastion-01.example.com/4711", Phase.APPLYING, False)
RICH = {
    "rollout plan": lambda few, verbose: outlook_tables(
        [
            NodeOutlook(need, "rack-0042.row-0007", 3, (), (REASON,), {})
            for need in NEEDS[: 3 if few else None]
        ],
        Survey(tuple(NEEDS), (), {}, {HOSTS[0]: REASON}, Path("log")),
        RolloutOptions(),
        refused={HOSTS[1]: REASON},
        verbose=verbose,
    ),
    "rollout status": lambda few, verbose: situation_tables(
        RolloutStatus(
            (NamedRollout("a-roll-out-with-a-name", RECORD.runner, {}, REASON),),
            (),
            tuple(NodeStatus(host, RECORD, "", REASON, False, True) for host in HOSTS[: 3 if few else None]),
        ),
        verbose=verbose,
    ),
}
LINES = {
    "apply": fleet_lines(
        [HostSummary(host, state="refused", reason=REASON, drains=True, pending=(REASON,)) for host in HOSTS],
        Screen(),
    ),
    "verify": verification.lines(
        [
            CaseResult(f"test_governor[ssh://{host}-cpu5]", "failed", REASON, f"ssh://{host}")
            for host in HOSTS
        ],
        Screen(),
    ),
    "doctor": doctor_lines(
        {host: (Check("programs", REASON, Severity.ERROR, REASON),) for host in HOSTS}, Screen()
    ),
    "rehearse": rehearsal_lines(
        {host: Rehearsed(Verdict.REFUSED, REASON, differences=(REASON,)) for host in HOSTS}, {}, Screen()
    ),
}


@pytest.mark.parametrize("verbose", [False, True], ids=["", "-v"])
@pytest.mark.parametrize("few", [True, False], ids=["3 nodes", "14 nodes"])
@pytest.mark.parametrize("tables", RICH.values(), ids=RICH)
def test_rollout_tables_with_longest_names_and_reasons_fit(tables, few, verbose) -> None:
    text = printed(tables(few, verbose))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text, "nothing is cut"


@pytest.mark.parametrize("lines", LINES.values(), ids=LINES)
def test_host_lines_with_longest_names_and_reasons_fit(lines) -> None:
    assert max(len(click.unstyle(line)) for line in lines) <= 80
