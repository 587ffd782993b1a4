"""The `check` command: what it reads, what it prints, and with which code it exits."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from numaforge.commands.kubelet import check
from numaforge.lib.errors import NumaforgeError
from numaforge.machine.topology.model import KubeletInstall, NodeTopology
from numaforge.machine.topology.saved import ready_machine
from numaforge.planning.document import dumps
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from tests.fixtures import machines
from tests.fixtures.tables import cases

HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
SOUND = f"{HEADER}cpuManagerPolicy: static\nreservedSystemCPUs: '0,4'\n"
BROKEN = f"{HEADER}cpuManagerPolicy: static\nmaxPodz: 3\n"


def machine(kubelet: KubeletInstall | None = None) -> NodeTopology:
    return machines.machine(cores_per_numa_node=4, numa_memory_bytes=2**34, kubelet=kubelet)


@pytest.fixture
def topology(save_machine) -> str:
    return save_machine(machine())


def config(folder: Path, text: str) -> str:
    file = folder / "config.yaml"
    file.write_text(text)
    return str(file)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(check, arguments, standalone_mode=False, catch_exceptions=False)


def test_sound_configuration_starts(tmp_path, topology):
    result = run(config(tmp_path, SOUND), "--machine", topology, "--kubelet-version", "1.36")
    assert result.return_value == 0
    assert "kubelet 1.36 starts" in result.output


def test_refused_configuration_exits_1_with_the_kubelets_message(tmp_path, topology):
    result = run(config(tmp_path, BROKEN), "--machine", topology, "--kubelet-version", "1.36")
    assert result.return_value == 1
    assert "unable to determine reserved CPU resources for static policy" in result.output


def test_errors_come_before_warnings(tmp_path, topology):
    output = run(config(tmp_path, BROKEN), "--machine", topology, "--kubelet-version", "1.36").output
    assert output.index("NF212") < output.index("NF501")


def test_json_names_file_and_line(tmp_path, topology):
    file = config(tmp_path, BROKEN)
    result = run(file, "--machine", topology, "--kubelet-version", "1.36", "-o", "json")
    document = json.loads(result.output)
    assert document["schema"] == 1
    assert document["starts"] is False
    misspelt = next(each for each in document["findings"] if each["id"] == "NF501")
    assert (misspelt["file"], misspelt["line"]) == (file, 4)


def test_sarif_points_at_the_line_and_describes_the_rules(tmp_path, topology):
    file = config(tmp_path, BROKEN)
    log = json.loads(run(file, "--machine", topology, "--kubelet-version", "1.36", "-o", "sarif").output)
    assert log["version"] == "2.1.0"
    (sarif,) = log["runs"]
    rules = sarif["tool"]["driver"]["rules"]
    for result in sarif["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    misspelt = next(each for each in sarif["results"] if each["ruleId"] == "NF501")
    location: dict[str, Any] = misspelt["locations"][0]["physicalLocation"]
    assert location == {"artifactLocation": {"uri": file}, "region": {"startLine": 4}}


def test_drop_ins_flags_and_state_files_are_checked(tmp_path, topology):
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "10-a.conf").write_text(f"{HEADER}reservedSystemCPUs: '1,5'\n")
    (tmp_path / "cpu_manager_state").write_text('{"policyName":"none","defaultCpuSet":""}')
    machine_options = ("--machine", topology, "--kubelet-version", "1.36", "--state-dir", str(tmp_path))
    others = ("--drop-in", str(tmp_path / "conf.d"), "--flag=--max-pods=9", "-o", "json")
    result = run(config(tmp_path, BROKEN), *machine_options, *others)
    document = json.loads(result.output)
    assert document["effective"]["maxPods"] == 9
    assert document["reserved_cpus"] == "1,5"
    assert f'"{tmp_path}/cpu_manager_state"' in document["error"]


def test_without_a_file_the_snapshots_kubelet_is_checked(save_machine):
    installed = KubeletInstall(
        version="1.33.4",
        unit="kubelet.service",
        config_file="/var/lib/kubelet/config.yaml",
        config_dir=None,
        flags=("--cpu-manager-policy=static",),
        config_text=HEADER,
    )
    result = run("--machine", save_machine(machine(installed)))
    assert result.return_value == 1
    assert "kubelet 1.33.4 does not start" in result.output


def test_kubelet_version_is_required(tmp_path, topology):
    with pytest.raises(NumaforgeError, match="no kubelet version is known"):
        run(config(tmp_path, SOUND), "--machine", topology)


UNSET = KubeletInstall(
    "1.36.3", "kubelet.service", "/etc/k.yaml", None, (), "/usr/bin/kubelet --config=/etc/k.yaml", HEADER
)
PINNED = """\
name: pinned
cpus: {reserved: {cores: 1}}
kubelet: {cpu_manager_policy: static, topology_manager_policy: restricted}
memory: {kube_reserved: 1Gi}
"""


def test_configuration_planned_by_a_profile_is_checked(tmp_path, save_machine):
    (tmp_path / "pinned.yaml").write_text(PINNED)
    there = save_machine(machine(UNSET))
    asked = ["--machine", there, "-o", "json"]
    as_it_is = json.loads(run(*asked).stdout)
    planned = json.loads(run(*asked, "--profile", str(tmp_path / "pinned.yaml")).stdout)
    assert as_it_is["effective"].get("topologyManagerPolicy", "none") == "none"
    assert planned["starts"]
    assert planned["effective"]["topologyManagerPolicy"] == "restricted"


def test_state_files_that_a_profile_removes_do_not_count_against_it(tmp_path, save_machine):
    (tmp_path / "pinned.yaml").write_text(PINNED)
    state = '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
    (tmp_path / "cpu_manager_state").write_text(state)
    there = save_machine(machine(UNSET))
    asked = ["--machine", there, "--state-dir", str(tmp_path), "--profile", str(tmp_path / "pinned.yaml")]
    assert run(*asked).return_value == 0


def with_another_kubelet(there: NodeTopology) -> NodeTopology:
    assert there.kubelet
    return replace(there, kubelet=replace(there.kubelet, version="1.34.2"))


def with_another_gpu(there: NodeTopology) -> NodeTopology:
    first, *others = there.gpus
    return replace(there, gpus=(replace(first, uuid="GPU-new"), *others))


@cases(
    "changed, said",
    {
        "another minor": (
            with_another_kubelet,
            "it is for kubelet 1.36.3, and 1.34.2 is installed: judged by 1.36.3",
        ),
        "a GPU in the place of another": (
            with_another_gpu,
            "it cuts GPUs that are not there now (0000:1b:00.0)",
        ),
        "GPUs that are gone": (
            lambda there: replace(there, gpus=there.gpus[:6]),
            "it cuts GPUs that are not there now (0000:d1:00.0, 0000:df:00.0)",
        ),
        "the machine as it was": (lambda there: there, ""),
    },
)
def test_outdated_plan_of_a_changed_machine_is_named(tmp_path, save_machine, changed, said):
    there = ready_machine("dgx-h100")
    plan = tmp_path / "plan.json"
    plan.write_text(dumps(plan_node(there, load_profile("inference-mig"))))
    result = run("--plan", str(plan), "--machine", save_machine(changed(there)))
    assert result.stderr == (f"{plan}: {said}; plan again\n" if said else "")
    assert result.stdout.endswith("kubelet 1.36.3 starts\n")
