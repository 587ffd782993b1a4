"""`numaforge cluster explain`: what it reads, what it prints, how it exits."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from numaforge.cli import run
from numaforge.cluster.schedulers.dra import planned_classes
from numaforge.lib.errors import ExitCode
from numaforge.machine.topology.document import to_document
from numaforge.machine.topology.saved import ready_machine
from numaforge.planning.document import dumps
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from tests.fixtures.machines import kubeadm_kubelet
from tests.fixtures.tables import cases, tables
from tests.fixtures.workers import SOUND

CASES = tables(__file__)

FITS = """\
metadata: {name: fits, namespace: ml}
spec: {containers: [{name: main, resources: {limits: {cpu: 4, memory: 8Gi, nvidia.com/gpu: 1}}}]}
"""
ODD = FITS.replace("cpu: 4", "cpu: 5").replace("name: fits", "name: odd")
ALLOCATABLE = {"cpu": "216", "memory": "2000Gi", "pods": "110", "nvidia.com/gpu": "8"}


def limits(cpu: int, gpus: int) -> dict[str, Any]:
    asked = {"cpu": str(cpu), "memory": "8Gi", "nvidia.com/gpu": str(gpus)}
    return {"containers": [{"name": "main", "resources": {"limits": asked}}]}


def pod(name: str, spec: Mapping[str, Any], **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ml", "uid": f"uid-{name}"}
    return {"kind": "Pod", "metadata": metadata, "spec": dict(spec), "status": status}


def node(name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": "Node", "metadata": {"name": name}, "spec": spec, "status": {"allocatable": ALLOCATABLE}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "fits.yaml").write_text(FITS)
    (tmp_path / "odd.yaml").write_text(ODD)
    refused = pod(
        "refused",
        {**limits(5, 1), "nodeName": "dgx-01"},
        phase="Failed",
        reason="SMTAlignmentError",
        message="Pod was rejected: SMT Alignment Error",
    )
    there = pod("there", {**limits(48, 4), "nodeName": "dgx-01"}, phase="Running", startTime="1")
    waits = pod("waits", limits(4, 4), phase="Pending")
    listed = [node("dgx-01"), node("dgx-02", unschedulable=True), refused, there, waits]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": listed}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run(["cluster", "explain", *arguments])
    return code, capsys.readouterr().out


TRAINING = ("--profile", "training")


def test_fitting_pod_shows_its_node_and_resources(folder: Path, capsys: Any) -> None:
    code, text = said(capsys, "fits.yaml", "dgx-h100", "epyc-nps4", *TRAINING)
    assert code == ExitCode.YES
    lines = text.splitlines()
    assert lines[0] == "ml/fits  Pod  Guaranteed: 4 CPUs, 8 GiB memory, 1 nvidia.com/gpu"
    assert lines[1] == "fits on 1 of 2 nodes"
    assert "dgx-01   may send it                  admits" in lines
    assert "epyc-01  Insufficient nvidia.com/gpu  -" in lines
    assert max(map(len, lines)) <= 80


def test_reason_against_a_node_stays_on_one_line(folder: Path, capsys: Any) -> None:
    (folder / "mig.yaml").write_text(FITS.replace("nvidia.com/gpu", "nvidia.com/mig-1g.10gb"))
    _, text = said(capsys, "mig.yaml", "dgx-h100", *TRAINING)
    assert "dgx-01  Insufficient nvidia.com/mig-1g.10gb  -" in text.splitlines()


def test_pod_refused_by_its_kubelet_shows_reason_and_remedy(folder: Path, capsys: Any) -> None:
    code, text = said(capsys, "odd.yaml", "dgx-h100", *TRAINING)
    assert code == ExitCode.NO
    assert "dgx-01  may send it  SMTAlignmentError" in text
    assert "  in the pod: 6 CPUs instead of 5 in the container main; then on dgx-01" in text


def test_pod_of_another_scheduler_is_judged_by_the_default_filters(folder: Path, capsys: Any) -> None:
    (folder / "other.yaml").write_text(ODD.replace("spec: {", "spec: {schedulerName: other, "))
    code, printed = said(capsys, "other.yaml", "dgx-h100", *TRAINING)
    text = " ".join(printed.split())
    assert code == ExitCode.NO
    assert "The default filters may send it to dgx-01, where it fails with SMTAlignmentError" in text
    assert "The scheduler may send it" not in text
    assert "not judged: what other adds to the default filters" in text


def test_pod_for_other_labels_learns_those_of_the_node(folder: Path, capsys: Any) -> None:
    selector = "nodeSelector: {nvidia.com/gpu.product: Tesla-T4}"
    (folder / "t4.yaml").write_text(FITS.replace("spec: {", f"spec: {{{selector}, "))
    code, printed = said(capsys, "t4.yaml", "dgx-h100", *TRAINING)
    assert code == ExitCode.NO
    assert "nvidia.com/gpu.product is NVIDIA-H100-80GB-HBM3" in " ".join(printed.split())


@pytest.mark.parametrize(
    ("policy", "words", "code"),
    [
        ({"gang": {"minCount": 2}}, "2 have to start together", ExitCode.YES),
        ({"gang": {"minCount": 1}}, "one is enough to start", ExitCode.YES),
        ({"basic": {}}, "they start one by one, by the policy of their PodGroup", ExitCode.NO),
    ],
    ids=["a gang", "a gang of one", "no gang"],
)
def test_pods_of_a_group_start_by_its_policy(
    folder: Path, policy: Mapping[str, Any], words: str, code: ExitCode, capsys: Any
) -> None:
    group = {**GROUP, "apiVersion": "scheduling.k8s.io/v1beta1", "spec": {"schedulingPolicy": policy}}
    pods = [
        pod(f"p-{number}", {**limits(4, 4), "schedulingGroup": {"podGroupName": "g"}}) for number in "123"
    ]
    (folder / "group.yaml").write_text(json.dumps({"kind": "List", "items": [group, *pods]}))
    answered, printed = said(capsys, "group.yaml", "dgx-h100", *TRAINING)
    assert f"2 of 3 pods fit; {words}" in " ".join(printed.split())
    assert answered == code


def test_slices_of_a_pod_set_are_named_as_groups(folder: Path, capsys: Any) -> None:
    slices = {"slice-required-topology": "kubernetes.io/hostname", "slice-size": "2"}
    metadata = {"annotations": {f"kueue.x-k8s.io/podset-{key}": value for key, value in slices.items()}}
    job = {"parallelism": 4, "template": {"metadata": metadata, "spec": limits(4, 2)}}
    document = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": job}
    (folder / "job.yaml").write_text(json.dumps(document))
    code, printed = said(capsys, "job.yaml", "dgx-h100", *TRAINING)
    assert code == ExitCode.YES
    assert "in 2 groups, each within one value of kubernetes.io/hostname" in " ".join(printed.split())


def test_json_has_both_verdicts_for_every_node(folder: Path, capsys: Any) -> None:
    code, text = said(capsys, "odd.yaml", "dgx-h100", "epyc-nps4", *TRAINING, "-o", "json")
    assert code == ExitCode.NO
    [answer] = json.loads(text)["workloads"]
    assert (answer["fit"], answer["least"], answer["disagree"]) == (0, 1, ["dgx-01"])
    first, second = answer["nodes"]
    assert first["scheduler"] == {"sends": True, "reasons": []}
    assert first["kubelet"]["reason"] == "SMTAlignmentError"
    assert first["kubelet"]["containers"]["main"]["wants"][0] == {
        "resource": "nvidia.com/gpu",
        "preferred": ["0", "1"],
        "otherwise": None,
    }
    assert second["scheduler"]["reasons"] == ["Insufficient nvidia.com/gpu"]
    assert {"of": "node", "change": "without full-pcpus-only", "fit": 1, "nodes": ["dgx-01"]} in answer[
        "remedies"
    ]


def test_pod_of_a_cluster_is_judged_beside_running_pods(folder: Path, capsys: Any) -> None:
    code, text = said(capsys, "ml/waits", "dgx-h100", *TRAINING, "--cluster", "cluster.json")
    assert code == ExitCode.YES
    assert "  main gets: CPUs" in text
    assert "dgx-02  it is cordoned  -" in text.splitlines()


def test_failed_pod_shows_its_refusal_and_a_remedy(folder: Path, capsys: Any) -> None:
    code, text = said(capsys, "ml/refused", "dgx-h100", *TRAINING, "--cluster", "cluster.json")
    assert code == ExitCode.NO
    assert "failed on dgx-01: SMTAlignmentError: Pod was rejected: SMT Alignment Error" in text
    assert "6 CPUs instead of 5" in text


def test_running_pod_is_judged_without_itself(folder: Path, capsys: Any) -> None:
    code, text = said(capsys, "ml/there", "dgx-h100", *TRAINING, "--cluster", "cluster.json")
    assert code == ExitCode.YES
    assert "runs on dgx-01; judged as if it were to be placed again" in text


KUBECTL = """\
#!/bin/sh
echo "$@" >> asked
case "$*" in
    "get nodes,pods -A -o json "*) cat cluster.json ;;
    "get -f - -o json "*) cat group.json ;;
    *) exit 1 ;;
esac
"""
GROUP = CASES["group"]


def test_cluster_is_only_read_for_nodes_pods_and_the_pods_group(folder: Path, capsys: Any) -> None:
    listed = json.loads((folder / "cluster.json").read_text())
    for number in range(2):
        waits = pod(f"g-{number}", limits(4, 1), phase="Pending")
        waits["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g"}
        listed["items"].append(waits)
    (folder / "cluster.json").write_text(json.dumps(listed))
    (folder / "group.json").write_text(json.dumps(GROUP))
    (folder / "kubectl").write_text(KUBECTL)
    (folder / "kubectl").chmod(0o755)
    code, text = said(capsys, "ml/g-1", "dgx-h100", *TRAINING, "--kubectl", "./kubectl", "--context", "here")
    assert code == ExitCode.NO
    assert "2 of 2 pods fit; 3 have to start together" in text
    assert "not judged: 3 pods have to start together, and 2 of them are known" in text
    asked = (folder / "asked").read_text().splitlines()
    assert [each.split()[0] for each in asked] == ["get", "get"]
    assert all(each.endswith("--request-timeout=60s --context=here") for each in asked)


CLAIMS = """\
extends: training
kubelet: {resource_engine: dra}
dra: {gpus: claims}
"""
CLAIMING = CASES["claiming"]


@pytest.fixture
def by_claims(folder: Path) -> tuple[str, ...]:
    (folder / "claims.yaml").write_text(CLAIMS)
    (folder / "claiming.yaml").write_text(CLAIMING)
    return "dgx-h100", "--profile", "claims.yaml"


def test_claim_is_judged_by_planned_devices(folder: Path, by_claims: tuple[str, ...], capsys: Any) -> None:
    code, text = said(capsys, "claiming.yaml", *by_claims)
    assert code == ExitCode.NO
    assert "dgx-01  cannot allocate all claims  -" in text.splitlines()
    assert "  gpu: gpu asks for 2 of gpu.nvidia.com; 8 match, 8 of them free" in text.splitlines()
    assert "1 instead of 2 in the request gpu of its claim gpu" in text
    code, text = said(capsys, "claiming.yaml", *by_claims, "-o", "json")
    [answer] = json.loads(text)["workloads"]
    assert answer["nodes"][0]["claims"][1] == {
        "claim": "gpu",
        "request": "nic",
        "class": "numaforge-rdma",
        "asked": 1,
        "match": 8,
        "free": 8,
        "unsure": 0,
        "capacity": {},
    }


def test_gpu_request_is_served_by_claims_if_the_plan_has_no_plugin(
    folder: Path, by_claims: tuple[str, ...], capsys: Any
) -> None:
    code, text = said(capsys, "fits.yaml", *by_claims)
    assert code == ExitCode.YES
    assert "extended resources: nvidia.com/gpu asks for 1 of gpu.nvidia.com; 8 match" in text


def test_claims_are_not_judged_when_no_plan_lists_driver_devices(folder: Path, capsys: Any) -> None:
    (folder / "claiming.yaml").write_text(CLAIMING)
    code, text = said(capsys, "claiming.yaml", "dgx-h100", *TRAINING)
    assert code == ExitCode.YES
    assert "not judged: whether its claims can be served" in text


SLICE = CASES["slice"]
NO_RULES = """\
#!/bin/sh
echo "$@" >> asked
case "$*" in
    "get nodes,pods -A -o json "*) cat cluster.json ;;
    *devicetaintrules*) echo "error: the server doesn't have a resource type" >&2; exit 1 ;;
    "get resourceslices.resource.k8s.io,"*) ANSWER ;;
    *) exit 1 ;;
esac
"""


@cases("answer, line", CASES["cluster_claims_are_read_when_a_pod_has_claims"])
def test_cluster_claims_are_read_when_a_pod_has_claims(
    folder: Path, capsys: Any, answer: str, line: str
) -> None:
    (folder / "claiming.yaml").write_text(CLAIMING)
    (folder / "claims.json").write_text(json.dumps({"kind": "List", "items": [*planned_classes(), SLICE]}))
    (folder / "kubectl").write_text(NO_RULES.replace("ANSWER", answer))
    (folder / "kubectl").chmod(0o755)
    _, text = said(capsys, "claiming.yaml", "dgx-h100", *TRAINING, "--kubectl", "./kubectl", "--live")
    assert line in text
    asked = (folder / "asked").read_text().splitlines()
    assert len(asked) == 3
    assert all(each.startswith("get ") for each in asked)


def test_plan_needs_the_snapshot_of_its_host_to_judge_the_kubelet(folder: Path, capsys: Any) -> None:
    machine = ready_machine("dgx-h100")
    (folder / "plan.json").write_text(dumps(plan_node(machine, load_profile("training"), "1.36.3")))
    (folder / "machine.json").write_text(json.dumps(to_document(machine)))
    code, text = said(capsys, "odd.yaml", "machine.json", "plan.json")
    assert (code, "dgx-01  may send it  SMTAlignmentError" in text) == (ExitCode.NO, True)
    code, text = said(capsys, "odd.yaml", "plan.json", "--cluster", "cluster.json")
    assert (code, "not known: a plan alone has no cores" in text) == (ExitCode.NO, True)


def test_node_has_the_name_its_kubelet_registers(folder: Path, capsys: Any) -> None:
    machine = ready_machine("dgx-h100")
    assert machine.kubelet
    kubelet = replace(machine.kubelet, flags=(*machine.kubelet.flags, "--hostname-override=gpu-a"))
    (folder / "machine.json").write_text(json.dumps(to_document(replace(machine, kubelet=kubelet))))
    code, text = said(capsys, "fits.yaml", "machine.json", *TRAINING)
    assert (code, "gpu-a  may send it  admits" in text) == (ExitCode.YES, True)


def test_machine_without_a_plan_has_the_devices_of_its_claim_drivers(folder: Path, capsys: Any) -> None:
    (folder / "gpus.yaml").write_text(
        "spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: 8}}}]}\n"
    )
    built = replace(ready_machine("dgx-h100"), kubelet=kubeadm_kubelet())
    for drivers, devices in ((("gpu.nvidia.com",), 8), (("dra.net",), 0)):
        machine = replace(built, userland=replace(SOUND, claim_drivers=drivers))
        (folder / "machine.json").write_text(json.dumps(to_document(machine)))
        code, text = said(capsys, "gpus.yaml", "machine.json")
        assert (code, "dgx-01  may send it  admits" in text) == (ExitCode.YES, True)
        assert text.count("gpu.nvidia.com/gpu-") == devices


def test_nodes_of_a_kind_share_a_row(folder: Path, capsys: Any) -> None:
    machine = ready_machine("dgx-h100")
    for number in range(1, 13):
        named = replace(machine, hostname=f"gpu-{number:02}")
        (folder / f"gpu-{number:02}.snapshot.json").write_text(json.dumps(to_document(named)))
    code, text = said(capsys, "fits.yaml", ".", *TRAINING)
    assert code == ExitCode.YES
    assert "gpu-[01-12]  may send it  admits" in text


@cases(
    "arguments, message",
    {
        "no machine": (("fits.yaml",), "name the nodes' machines"),
        "no such file": (("nope.yaml", "dgx-h100", *TRAINING), "cannot be read"),
        "neither file nor pod": (("pod", "dgx-h100"), "is neither a file nor NAMESPACE/NAME"),
        "no such pod": (("ml/none", "dgx-h100", *TRAINING, "--cluster", "cluster.json"), "has no such pod"),
        "no cluster": (("fits.yaml", "dgx-h100", "--cluster", "fits.yaml"), "not a complete JSON document"),
        "both": (("fits.yaml", "dgx-h100", "--cluster", "cluster.json", "--live"), "instead of asking"),
        "a limit of no inventory": (("fits.yaml", "dgx-h100", "--limit", "x"), "--limit needs an INVENTORY"),
        "no kubectl": (
            ("ml/waits", "dgx-h100", *TRAINING, "--kubectl", "no-such-kubectl"),
            "kubectl is not there",
        ),
    },
)
def test_bad_input_has_one_message(
    folder: Path, capsys: Any, arguments: tuple[str, ...], message: str
) -> None:
    assert run(["cluster", "explain", *arguments]) == ExitCode.BAD_INPUT
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
