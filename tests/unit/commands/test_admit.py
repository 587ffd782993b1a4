"""The `admit` and `fit` commands: what they read, what they print, how they exit."""

import json
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from numaforge.commands.admit import admit
from numaforge.commands.fit import fit
from numaforge.commands.plan import plan
from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.machine.topology.document import to_document
from tests.fixtures.machines import GIB, dgx_1v, dgx_h100, machine
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)

CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0,8"
topologyManagerPolicy: single-numa-node
"""


def pod(name: str, **limits: Any) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "x", "resources": {"limits": limits}}]},
    }
    return json.dumps(document)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    small = machine(packages=2, cores_per_numa_node=4, numa_memory_bytes=16 * GIB, hostname="small")
    (tmp_path / "small.json").write_text(json.dumps(to_document(small)))
    (tmp_path / "dgx.json").write_text(json.dumps(to_document(dgx_h100())))
    (tmp_path / "kubelet.yaml").write_text(CONFIG)
    (tmp_path / "devices.yaml").write_text("nvidia.com/gpu: [0, 0, 1, 1]\n")
    (tmp_path / "fits.yaml").write_text(pod("fits", cpu="4", memory="1Gi", **{"nvidia.com/gpu": "1"}))
    (tmp_path / "spans.yaml").write_text(pod("spans", cpu="2", memory="1Gi", **{"nvidia.com/gpu": "3"}))
    (tmp_path / "burstable.yaml").write_text(pod("burstable", cpu="2"))
    return tmp_path


def invoke(command: Any, files: Path, *arguments: str) -> Result:
    """Run a command; a word that is the name of one of the files stands for its path."""
    given = [str(files / each) if (files / each).is_file() else each for each in arguments]
    return CliRunner().invoke(command, given, standalone_mode=False, catch_exceptions=False)


def run(command: Any, files: Path, *arguments: str) -> Result:
    return alone(command, files, "--machine", "small.json", "--devices", "devices.yaml", *arguments)


def alone(command: Any, files: Path, *arguments: str) -> Result:
    """Run a command for what the machines show themselves, without what a file says of plugins."""
    return invoke(command, files, "--config", "kubelet.yaml", *arguments)


def test_admitted_pod_shows_its_assigned_resources(files: Path) -> None:
    result = run(admit, files, "fits.yaml")
    assert result.return_value == ExitCode.YES
    assert result.output.splitlines() == [
        "fits  admitted  Guaranteed",
        "  main: CPUs 1-2,9-10; nvidia.com/gpu 0",
    ]


def test_refused_pod_shows_the_reason(files: Path) -> None:
    result = run(admit, files, "fits.yaml", "spans.yaml")
    assert result.return_value == ExitCode.NO
    assert result.output.splitlines()[2:] == [
        "spans  refused, TopologyAffinityError  Guaranteed",
        "  Pod was rejected: Resources cannot be allocated with Topology locality",
        "  in the way: nvidia.com/gpu",
    ]


def test_pod_for_other_labels_learns_those_of_the_node(files: Path) -> None:
    (files / "arm.yaml").write_text(
        "spec: {nodeSelector: {kubernetes.io/arch: arm64}, containers: [{name: a}]}"
    )
    result = run(admit, files, "arm.yaml")
    assert result.return_value == ExitCode.NO
    assert "node affinity/selector. (kubernetes.io/arch is amd64)" in result.output


def test_non_guaranteed_pod_shows_the_line_to_change(files: Path) -> None:
    result = run(admit, files, "burstable.yaml")
    assert result.output.splitlines()[1:] == [
        "  main: shared CPUs",
        "  containers[0].resources.limits.memory: has no memory limit",
        "  -> containers[0].resources.limits.memory: <set it>",
    ]


def test_json_matches_the_text_answer(files: Path) -> None:
    document = json.loads(run(admit, files, "fits.yaml", "-o", "json").output)
    (admission,) = document["admissions"]
    assert admission["containers"]["main"] == {
        "cpus": "1-2,9-10",
        "devices": {"nvidia.com/gpu": ["0"]},
        "hint": {"numa_nodes": "0", "preferred": True},
    }


def test_remove_document_frees_room(files: Path) -> None:
    whole = pod("first", cpu="6", memory="1Gi"), pod("second", cpu="8", memory="1Gi")
    again = pod("third", cpu="6", memory="1Gi")
    (files / "replay.yaml").write_text("\n---\n".join([*whole, "remove: first", again]))
    result = run(admit, files, "replay.yaml")
    assert result.return_value == ExitCode.YES
    assert result.output.splitlines()[-1] == "  main: CPUs 1-3,9-11"


def test_deployment_is_admitted_with_its_replicas(files: Path) -> None:
    template = {"spec": json.loads(pod("x", cpu="2", memory="1Gi"))["spec"]}
    spec = {"replicas": 3, "template": template}
    (files / "web.yaml").write_text(
        json.dumps({"kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
    )
    answers = json.loads(run(admit, files, "web.yaml", "-o", "json").output)["admissions"]
    assert [answer["name"] for answer in answers] == ["web-0", "web-1", "web-2"]


def test_repeated_pod_name_is_an_error(files: Path) -> None:
    with pytest.raises(NumaforgeError, match="'fits' is admitted already"):
        run(admit, files, "fits.yaml", "fits.yaml")


def test_simulation_starts_from_the_state_files(files: Path) -> None:
    state = {"policyName": "static", "defaultCpuSet": "0,4-8,12-15", "entries": {"u": {"c": "1-3,9-11"}}}
    (files / "cpu_manager_state").write_text(json.dumps({**state, "checksum": 0}))
    (files / "wide.yaml").write_text(pod("wide", cpu="6", memory="1Gi"))
    result = run(admit, files, "wide.yaml", "--state-dir", str(files))
    assert result.output.splitlines()[-1] == "  main: CPUs 4-6,12-14"


def test_fit_counts_pods_and_names_the_exhausted_resource(files: Path) -> None:
    result = run(fit, files, "fits.yaml", "-o", "json")
    assert result.return_value == ExitCode.YES
    (node,) = json.loads(result.output)["nodes"]
    assert node["pods"] == 3
    assert {(p["policy"], p["scope"]): (p["pods"], p["runs_out"]) for p in node["policies"]} == {
        ("none", "container"): (3, ["cpu"]),
        ("best-effort", "container"): (3, ["cpu"]),
        ("best-effort", "pod"): (3, ["cpu"]),
        ("restricted", "container"): (3, ["cpu"]),
        ("restricted", "pod"): (3, ["cpu"]),
        ("single-numa-node", "container"): (3, ["cpu"]),
        ("single-numa-node", "pod"): (3, ["cpu"]),
    }
    assert node["left"]["devices"] == {"nvidia.com/gpu": 1}


def test_fit_exits_with_no_if_nothing_fits(files: Path) -> None:
    result = run(fit, files, "spans.yaml")
    assert result.return_value == ExitCode.NO
    assert "0 pods of spans" in result.output


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/xe"])
def test_machine_without_gpus_fits_no_gpu_pod(files: Path, resource: str) -> None:
    (files / "wants.yaml").write_text(pod("wants", cpu="1", memory="1Gi", **{resource: "1"}))
    result = alone(fit, files, "wants.yaml", "--machine", "small.json")
    assert result.return_value == ExitCode.NO
    said = alone(admit, files, "wants.yaml", "--machine", "small.json").output
    assert f"0/1 nodes are available: 1 Insufficient {resource}." in said


def test_fit_compares_nodes_and_counts_those_with_the_devices(files: Path) -> None:
    result = alone(fit, files, "fits.yaml", "--machine", "small.json", "--machine", "dgx.json")
    table = result.output.partition("Nodes compared\n")[2].splitlines()
    assert [line.split()[:3] for line in table[1:3]] == [
        ["dgx-01", "8", "nvidia.com/gpu"],
        ["small", "0", "nvidia.com/gpu"],
    ]
    assert table[-1] == "all 2 nodes together: 8 pods of fits, on 1 of them"


@cases("limits, words", CASES["admit_reports_when_the_scheduler_would_not_send_the_pod"])
def test_admit_reports_when_the_scheduler_would_not_send_the_pod(files: Path, limits, words) -> None:
    (files / "wants.yaml").write_text(pod("wants", **limits))
    result = alone(admit, files, "wants.yaml", "--machine", "small.json")
    assert result.return_value == ExitCode.NO
    assert f"  the scheduler would not send it here: {words}" in result.output.splitlines()


def test_scheduler_counts_what_earlier_pods_hold(files: Path) -> None:
    first, second = (files / name for name in ("first.yaml", "second.yaml"))
    first.write_text(pod("first", cpu="8", memory="1Gi"))
    second.write_text(pod("second", cpu="8", memory="1Gi"))
    result = alone(admit, files, str(first), str(second), "--machine", "small.json", "-o", "json")
    answers = json.loads(result.output)["admissions"]
    assert [answer["scheduler"]["insufficient"] for answer in answers] == [[], ["cpu"]]


def test_unknown_resource_is_named(files: Path) -> None:
    (files / "wants.yaml").write_text(pod("wants", cpu="1", memory="1Gi", **{"rdma/hca": "1"}))
    said = alone(admit, files, "wants.yaml", "--machine", "small.json").output
    assert "not known of this machine, so not counted: rdma/hca" in said


UNSET = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def on_dgx(command: Any, files: Path, asked: str, *arguments: str) -> Result:
    """Ask about a pod on a DGX H100 whose kubelet says nothing of CPUs and memory."""
    (files / "asked.yaml").write_text(asked)
    (files / "unset.yaml").write_text(UNSET)
    where = ("--machine", "dgx.json", "--config", "unset.yaml")
    return invoke(command, files, "asked.yaml", *where, *arguments)


SLICES = pod("slices", cpu="2", memory="1Gi", **{"nvidia.com/mig-1g.10gb": "2"})


@pytest.mark.parametrize("command", [admit, fit])
@pytest.mark.parametrize(("mig", "code"), [((), ExitCode.NO), (("--profile", "inference-mig"), ExitCode.YES)])
def test_pods_are_judged_by_the_mig_slices_of_a_profile(files: Path, command, mig, code) -> None:
    assert on_dgx(command, files, SLICES, *mig).return_value == code


@cases("sharing, said", CASES["pods_are_judged_by_the_gpu_sharing_of_a_profile"])
def test_pods_are_judged_by_the_gpu_sharing_of_a_profile(files: Path, sharing, said) -> None:
    (files / "shared.yaml").write_text(json.dumps({"name": "shared", "device_plugin": sharing}))
    asked = pod("slices", cpu="2", memory="1Gi", **{"nvidia.com/gpu": "2"})
    result = on_dgx(admit, files, asked, "--profile", str(files / "shared.yaml"))
    assert result.output.splitlines()[0] == said


def test_fit_varies_the_number_of_gpus_and_shows_one_slice(files: Path) -> None:
    result = on_dgx(fit, files, SLICES, "--profile", "inference-mig", "-o", "json")
    [node] = json.loads(result.output)["nodes"]
    assert [shape["devices"] for shape in node["largest"]] == [1]


@cases("limits, remarks", CASES["unaligned_rdma_device_is_reported"])
def test_unaligned_rdma_device_is_reported(files: Path, limits, remarks) -> None:
    (files / "rails.yaml").write_text("name: rails\nrdma: {device_plugin: {per: rail}}\n")
    asked = pod("rail", cpu="4", memory="1Gi", **limits)
    result = on_dgx(admit, files, asked, "--profile", str(files / "rails.yaml"), "-o", "json")
    (answer,) = json.loads(result.output)["admissions"]
    assert answer["admitted"]
    assert [remark["field"] for remark in answer["remarks"]] == remarks


# ---- as a profile or a plan makes the node ----

TRAIN = pod("train", cpu="28", memory="64Gi", **{"nvidia.com/gpu": "1"})


def answers(files: Path, command: Any, *arguments: str) -> Any:
    return json.loads(invoke(command, files, *arguments, "-o", "json").output)


@pytest.fixture
def dgx(files: Path) -> list[str]:
    """The arguments for a DGX H100 whose kubelet says nothing of CPUs and memory."""
    (files / "unset.yaml").write_text(UNSET)
    (files / "train.yaml").write_text(TRAIN)
    return ["train.yaml", "--machine", "dgx.json", "--config", "unset.yaml"]


@cases("given, policy, pods", CASES["node_is_filled_under_its_planned_settings"])
def test_node_is_filled_under_its_planned_settings(
    files: Path, dgx: list[str], given: list[str], policy: str, pods: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    planned = CliRunner().invoke(
        plan, ["dgx.json", "--profile", "training", "--kubelet-version", "1.36", "-o", "json"]
    )
    (files / "plan.json").write_text(planned.stdout)
    (node,) = answers(files, fit, *dgx, *given)["nodes"]
    assert (node["policy"], node["pods"]) == (policy, pods)


def test_plan_of_another_host_is_refused(
    files: Path, dgx: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    other = json.loads((files / "dgx.json").read_text()) | {"hostname": "other"}
    (files / "other.json").write_text(json.dumps(other))
    planned = CliRunner().invoke(
        plan, ["other.json", "--profile", "training", "--kubelet-version", "1.36", "-o", "json"]
    )
    (files / "plan.json").write_text(planned.stdout)
    with pytest.raises(NumaforgeError, match="is the plan of other, and the machine is dgx-01"):
        answers(files, fit, *dgx, "--plan", "plan.json")


def test_impossible_profile_is_refused_as_in_plan(files: Path, dgx: list[str]) -> None:
    with pytest.raises(NumaforgeError, match=r"cpus.reserved: the profile says"):
        answers(files, fit, *dgx[:-1], "kubelet.yaml", "--profile", "training")


@pytest.mark.parametrize("command", [admit, fit])
@pytest.mark.parametrize("other", ["--profile", "--plan"])
def test_live_excludes_profile_and_plan(files: Path, dgx: list[str], command: Any, other: str) -> None:
    with pytest.raises(UsageError, match="--live is the node as it is now: leave out --profile and --plan"):
        answers(files, command, *dgx, "--live", other, "training")


@pytest.mark.parametrize("command", [admit, fit])
def test_live_without_a_machine_means_this_machine(files: Path, command: Any) -> None:
    (files / "lean.yaml").write_text(f"{UNSET}failCgroupV1: false\n")
    (files / "small.yaml").write_text(pod("small", cpu="1m", memory="1Mi"))
    given = [str(files / "small.yaml"), "--config", str(files / "lean.yaml"), "--flag=--fail-swap-on=false"]
    answer = answers(files, command, *given, "--live")
    assert answer["pods"] if command is fit else answer["admissions"][0]["admitted"]
    with pytest.raises(UsageError, match="--machine names a machine; --live means this one"):
        answers(files, command, *given)


def test_profile_and_plan_are_mutually_exclusive(files: Path, dgx: list[str]) -> None:
    with pytest.raises(UsageError, match="give --profile or --plan, not both"):
        answers(files, admit, *dgx, "--profile", "training", "--plan", "plan.json")


def test_gpus_are_grouped_by_links_and_switches(files: Path) -> None:
    (files / "mesh.json").write_text(json.dumps(to_document(dgx_1v())))
    (files / "none.yaml").write_text(CONFIG.split("cpu")[0])
    (files / "two.yaml").write_text(pod("two", **{"nvidia.com/gpu": "2"}))
    (files / "four.yaml").write_text(pod("four", **{"nvidia.com/gpu": "4"}))
    mesh = ("--machine", "mesh.json", "--config", "none.yaml")
    shown = invoke(admit, files, *mesh, "two.yaml", "four.yaml").output
    assert [line.strip() for line in shown.splitlines() if "GPU" in line] == [
        "GPU0+GPU3: 2 NVLinks, the most that 2 GPUs of one NUMA node have",
        "below one PCIe switch: GPU0 with mlx5_0; GPU3 with mlx5_1",
        "GPU4-GPU7: 9 NVLinks, the most that 4 GPUs of one NUMA node have",
        "below one PCIe switch: GPU4 with mlx5_2; GPU5 with mlx5_2; GPU6 with mlx5_3; GPU7 with mlx5_3",
    ]
    near = answers(files, fit, *mesh, "two.yaml")
    [linked] = near["nodes"][0]["near"]["most_nvlinks_on_one_numa_node"]
    assert linked["nvlinks"] == 2
    assert ["GPU0", "GPU3"] in linked["sets"]
    shown = invoke(fit, files, *mesh, "two.yaml").output
    best = "2 GPUs of one NUMA node with the most NVLinks (2): GPU0+GPU3, GPU1+GPU2 and 4 others"
    assert best in " ".join(shown.split())


def test_missing_mig_device_lists_the_mig_profiles_of_unpartitioned_gpus(files: Path) -> None:
    (files / "mig.yaml").write_text(pod("mig", **{"nvidia.com/mig-1g.5gb": "1"}))
    (files / "none.yaml").write_text(CONFIG.split("cpu")[0])
    for command in (admit, fit):
        result = invoke(command, files, "--machine", "dgx.json", "--config", "none.yaml", "mig.yaml")
        assert "nvidia.com/mig-1g.10gb, nvidia.com/mig-1g.10gb.me" in result.output
