"""`numaforge generate cluster` and `verify` for the operators: what is written and said, how they exit."""

import json
from pathlib import Path
from typing import Any

import pytest

from numaforge.cli import run
from numaforge.lib.errors import ExitCode

HANDED = """\
extends: training
mig: {gpus: [{devices: {1g.10gb: 7}}], managed_by: gpu-operator}
"""
KUBECTL = """\
#!/bin/sh
cat > asked
cat live.json
"""
NOT_SERVED = """\
#!/bin/sh
cat > "asked-$$"
if grep -q ClusterPolicy "asked-$$"; then
    echo 'error: no matches for kind "ClusterPolicy" in version "nvidia.com/v1"' >&2
    exit 1
fi
echo '{"kind": "List", "items": []}'
"""
POLICY = {
    "apiVersion": "nvidia.com/v1",
    "kind": "ClusterPolicy",
    "metadata": {
        "name": "cluster-policy",
        "managedFields": [
            {
                "manager": "helm",
                "time": "2026-11-26T01:00:00Z",
                "fieldsV1": {"f:spec": {"f:migManager": {"f:enabled": {}}}},
            }
        ],
    },
    "spec": {"mig": {"strategy": "mixed"}, "migManager": {"enabled": False}},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "handed.yaml").write_text(HANDED)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def kubectl(folder: Path, text: str) -> tuple[str, str]:
    (folder / "kubectl").write_text(text)
    (folder / "kubectl").chmod(0o755)
    return "--kubectl", "./kubectl"


def test_system_with_nothing_to_write_gets_a_reason_and_no_folder(folder: Path, capsys: Any) -> None:
    systems = ("--for", "dra", "--for", "amd-gpu-operator", "--for", "gpu-operator")
    code = run(["generate", "cluster", "dgx-h100", "--profile", "training", *systems, "--to", "cluster"])
    assert code == ExitCode.YES
    said = capsys.readouterr().err
    assert "dra: nothing to write: no plan hands out anything by claims" in said
    assert "amd-gpu-operator: nothing to write: none of these nodes has a GPU of AMD's" in said
    assert {each.name for each in (folder / "cluster").iterdir()} == {"gpu-operator"}
    assert {each.name for each in (folder / "cluster/gpu-operator").iterdir()} == {"gpu-operator.values.yml"}


def test_live_policy_is_compared_with_what_the_chart_renders(folder: Path, capsys: Any) -> None:
    (folder / "live.json").write_text(json.dumps({"kind": "List", "items": [POLICY]}))
    machine = ("dgx-h100", "--profile", "handed.yaml", "--for", "gpu-operator")
    code = run(["cluster", "verify", *machine, *kubectl(folder, KUBECTL)])
    lines = capsys.readouterr().out.splitlines()
    assert code == ExitCode.NO
    found = "gpu-operator: ClusterPolicy cluster-policy: spec.migManager"
    assert f"{found}.enabled is false, and planned true (written by helm)" in lines
    assert f"{found}.config.default is all-disabled, and planned  (written by helm)" in lines
    assert "gpu-operator: ConfigMap numaforge-mig-parted is missing" in lines
    asked = json.loads((folder / "asked").read_text())["items"]
    assert {each["kind"] for each in asked} == {"ClusterPolicy", "ConfigMap"}


def test_cluster_without_the_operator_skips_all_its_objects(folder: Path, capsys: Any) -> None:
    machine = ("dgx-h100", "--profile", "handed.yaml", "--for", "gpu-operator")
    code = run(["cluster", "verify", *machine, *kubectl(folder, NOT_SERVED)])
    said = capsys.readouterr()
    assert code == ExitCode.YES, said
    assert "gpu-operator: the cluster does not serve nvidia.com/v1 ClusterPolicy" in said.err
    assert said.out.splitlines() == ["0 objects compared with 1 plan: as planned"]
