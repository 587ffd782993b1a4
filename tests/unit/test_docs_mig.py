"""docs/mig.md shows real answers: each command on the page is run, and its output compared."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace

import pytest

from lab.paths import REPOSITORY
from numaforge.cli import run
from numaforge.profile import load_profile
from numaforge.roles.mig.models import models
from numaforge.roles.mig.plan import as_planned, plan_mig
from numaforge.topology import to_document
from numaforge.topology.model import GpuProcess, NodeTopology
from tests.fixtures.machines import dgx_h100

PAGE = (REPOSITORY / "docs" / "mig.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```console\n\$ numaforge ([^\n]+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS = re.findall(r"\| `numaforge ([^`]+)` \|", PAGE)


POD = """\
apiVersion: v1
kind: Pod
metadata: {name: server}
spec:
  containers:
  - name: main
    image: server
    resources: {limits: {cpu: "8", memory: 32Gi, nvidia.com/mig-1g.10gb: 2}}
"""
KUBELET = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0,56,112,168"
topologyManagerPolicy: single-numa-node
"""


def uncut() -> NodeTopology:
    machine = dgx_h100()
    return replace(machine, gpus=tuple(replace(gpu, gpu_instances=()) for gpu in machine.gpus))


def at_work() -> NodeTopology:
    """Return the machine after the config inference, with a process in the first GPU instance of GPU 1."""
    gpus = [{"indices": [0, 1], "devices": {"3g": 1, "2g": 1, "1g": 2}}]
    cut = as_planned(uncut(), plan_mig(uncut(), load_profile({"mig": {"gpus": gpus}})).value)
    first, *others = cut.gpus[1].gpu_instances or ()
    busy = replace(cut.gpus[1], gpu_instances=(replace(first, pids=(4711,)), *others), pids=(4711,))
    processes = {4711: GpuProcess("python", "batch/train-0")}
    return replace(cut, gpus=(cut.gpus[0], busy, *cut.gpus[2:]), gpu_processes=processes)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with the files that the page names."""
    shutil.copy(REPOSITORY / "docs" / "mig-config.yaml", tmp_path)
    (tmp_path / "gpu-1.json").write_text(json.dumps(to_document(uncut())))
    (tmp_path / "gpu-2.json").write_text(json.dumps(to_document(at_work())))
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "kubelet.yaml").write_text(KUBELET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.mark.parametrize(("command", "expected"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_the_page_shows_the_real_answer(folder, capsys, command, expected):
    run(command.split())
    answer = "".join(f"{line.rstrip()}\n" for line in capsys.readouterr().out.splitlines())
    assert answer == expected


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_page_answers(folder, capsys, command):
    assert run(command.split()) in (0, 1)
    assert capsys.readouterr().out


def test_the_page_names_every_model():
    assert [model.key for model in models() if f"`{model.key}`" not in PAGE] == []


def keys(document: object) -> set[str]:
    """Return the keys of a document and of everything in it."""
    if isinstance(document, dict):
        return {*document, *(key for value in document.values() for key in keys(value))}
    if isinstance(document, list):
        return {key for value in document for key in keys(value)}
    return set()


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("mig ")])
def test_the_page_explains_every_field(folder, capsys, command):
    run([*command.split(), "-o", "json"])
    found = keys(json.loads(capsys.readouterr().out)) - {"schema"}
    assert [key for key in sorted(found) if f"`{key}`" not in PAGE] == []
