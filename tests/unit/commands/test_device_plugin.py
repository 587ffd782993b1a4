"""`numaforge device-plugin` and `numaforge mig operator-config`: what they print, and how they exit."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from numaforge.cli import run
from numaforge.machine.topology.document import to_document
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.document import dumps
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.roles.mig.instance import MigGpu, MigInstance, MigPlan
from tests.fixtures.machines import dgx_h100, lab_node
from tests.fixtures.tables import cases

SEVEN = tuple(MigInstance("1g.10gb", 19, start, 1, (1,)) for start in range(7))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def saved(name: str, machine: NodeTopology, *, cut: bool = False) -> str:
    """Save a machine whose GPUs its last plan has cut, if so."""
    gpus = tuple(MigGpu(gpu.pci_address, gpu.uuid, "enabled", SEVEN) for gpu in machine.gpus) if cut else ()
    plan = replace(plan_node(machine, load_profile({"name": "serve"}), "1.36.2"), mig=MigPlan(gpus))
    Path(name).write_text(json.dumps(to_document(replace(machine, previous_plan=dumps(plan)))))
    return name


def answer(capsys, *arguments: str, code: int = 0) -> str:
    """Run a command that is to exit with `code`, and return what it printed."""
    assert run([*arguments]) == code
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return err if code == 2 else out


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("version: v1", 0, "the device plugin takes it"),
        ("resources: {gpus: [{pattern: a, name: b}]}", 0, "warning resources-ignored"),
        (
            "flags: {migStrategy: mixed}\nsharing: {mps: {resources: [{name: gpu, replicas: 2}]}}",
            1,
            "does not start",
        ),
        ("version: v2", 2, "unknown version: v2"),
    ],
    ids=["nothing wrong", "a warning alone is no refusal", "what ends the plugin", "no valid file"],
)
def test_file_is_checked_without_a_machine(folder, capsys, text, code, said):
    Path("plugin.yaml").write_text(text)
    assert said in answer(capsys, "device-plugin", "check", "plugin.yaml", code=code)


def test_check_with_a_machine_shows_what_the_node_advertises(folder, capsys):
    Path("plugin.yaml").write_text("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4}]}}")
    saved("gpu-1.json", dgx_h100())
    assert "32 nvidia.com/gpu" in answer(capsys, "device-plugin", "check", "plugin.yaml", "gpu-1.json")
    told = json.loads(answer(capsys, "device-plugin", "check", "plugin.yaml", "gpu-1.json", "-o", "json"))
    assert told == {"schema": 1, "starts": True, "advertised": {"nvidia.com/gpu": 32}, "findings": []}


def test_node_with_a_lost_gpu_advertises_nothing(folder, capsys):
    Path("plugin.yaml").write_text("flags: {migStrategy: none}")
    sound = dgx_h100()
    lost = replace(sound.gpus[2], index=2, uuid=None, name=None, unanswered="GPU is lost")
    saved("gpu-1.json", replace(sound, gpus=(*sound.gpus[:2], lost, *sound.gpus[3:])))
    command = ("device-plugin", "check", "plugin.yaml", "gpu-1.json")
    shown = answer(capsys, *command, code=1)
    assert "error gpu-lost" in shown
    assert "error getting device handle for index '2': GPU is lost" in shown
    assert "the device plugin does not start" in shown
    told = json.loads(answer(capsys, *command, "-o", "json", code=1))
    assert (told["starts"], told["advertised"]) == (False, {})


@cases(
    "given, advertised",
    {
        "without a word, as they are": ([], "8 nvidia.com/gpu"),
        "live, as they are": (["--live"], "8 nvidia.com/gpu"),
        "as a plan cuts them": (["--plan", "plan.json"], "56 nvidia.com/mig-1g.10gb"),
        "as a profile cuts them": (["--profile", "cut.yaml"], "56 nvidia.com/mig-1g.10gb"),
    },
)
def test_check_uses_the_current_or_planned_gpus(folder, capsys, given, advertised):
    Path("plugin.yaml").write_text("flags: {migStrategy: mixed}")
    Path("cut.yaml").write_text("name: cut\nmig: {strategy: mixed, gpus: [{devices: {1g.10gb: 7}}]}")
    Path("plan.json").write_text(answer(capsys, "plan", "dgx-h100", "--profile", "cut.yaml", "-o", "json"))
    said = answer(capsys, "device-plugin", "check", "plugin.yaml", "dgx-h100", *given)
    assert said.split("advertised:")[1].strip() == advertised


def test_live_without_a_machine_means_this_machine(folder, capsys):
    Path("plugin.yaml").write_text("version: v1")
    alone = json.loads(answer(capsys, "device-plugin", "check", "plugin.yaml", "-o", "json"))
    here = json.loads(answer(capsys, "device-plugin", "check", "plugin.yaml", "--live", "-o", "json"))
    assert (alone["advertised"], isinstance(here["advertised"], dict)) == (None, True)


def test_config_map_is_written_for_several_nodes(folder, capsys):
    Path("profile.yaml").write_text("name: serve\ndevice_plugin: {time_slicing: {gpu: 4}, config: shared}")
    nodes = [saved("gpu-1.json", dgx_h100()), saved("gpu-2.json", replace(dgx_h100(), hostname="gpu-2"))]
    out = answer(
        capsys, "device-plugin", "config", *nodes, "--profile", "profile.yaml", "--kubelet-version", "1.36.2"
    )
    manifest = yaml.safe_load(out)
    assert manifest["metadata"] == {
        "name": "numaforge-device-plugin",
        "namespace": "gpu-operator",
        "labels": {"app.kubernetes.io/managed-by": "numaforge"},
    }
    Path("shared.yaml").write_text(manifest["data"]["shared"])
    assert "32 nvidia.com/gpu" in answer(capsys, "device-plugin", "check", "shared.yaml", "gpu-1.json")


def test_plan_without_the_section_is_refused_with_its_host(folder, capsys):
    saved("gpu-1.json", dgx_h100())
    said = answer(capsys, "device-plugin", "config", "gpu-1.json", code=2)
    assert "has no section device_plugin" in said


def test_operator_config_map_passes_our_mig_parted_check(folder, capsys):
    saved("gpu-1.json", dgx_h100(), cut=True)
    out = answer(capsys, "mig", "operator-config", "gpu-1.json", "-o", "json")
    document = json.loads(out)
    [(_, labels)] = document["labels"].items()
    Path("config.yaml").write_text(document["config_map"]["data"]["config.yaml"])
    checked = json.loads(answer(capsys, "mig", "check", "config.yaml", "gpu-1.json", "-o", "json"))
    assert [(one["config"], one["fits"]) for one in checked["configs"]] == [
        (labels["nvidia.com/mig.config"], True)
    ]


def test_yaml_config_map_names_the_config_of_each_node(folder, capsys):
    saved("gpu-1.json", dgx_h100(), cut=True)
    first, *_ = (out := answer(capsys, "mig", "operator-config", "gpu-1.json")).splitlines()
    assert first.startswith("# dgx-01: nvidia.com/mig.config=serve-")
    assert yaml.safe_load(out)["kind"] == "ConfigMap"


def test_machine_without_gpus_is_refused_for_operator_config(folder, capsys):
    saved("cpu.json", replace(lab_node(), gpus=()))
    assert "has no settings for GPUs" in answer(capsys, "mig", "operator-config", "cpu.json", code=2)
