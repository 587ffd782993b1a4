"""The hooks of pre-commit and the action for GitHub: what they run, run as they run it."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pre_commit.clientlib import load_manifest

from lab.paths import REPOSITORY

HOOKS = {hook["id"]: hook for hook in load_manifest(REPOSITORY / ".pre-commit-hooks.yaml")}
ACTION = yaml.safe_load((REPOSITORY / "action.yml").read_text())
GOOD = {
    "profiles/good.yaml": "extends: training\n",
    "kubelet-good.yaml": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n",
    "mig-good.yaml": "version: v1\nmig-configs:\n  all:\n    - devices: all\n      mig-enabled: true\n"
    "      mig-devices: {1g.10gb: 7}\n",
}
BAD = {
    "profiles/bad.yaml": ("extends: trainin\n", "did you mean 'training'?"),
    "kubelet-bad.yaml": (f"{GOOD['kubelet-good.yaml']}cpuManagerPolicy: static\n", "NF212"),
    "mig-bad.yaml": (GOOD["mig-good.yaml"].replace("7}", "8}"), "do not fit"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "profiles").mkdir()
    for name, text in {**GOOD, **{name: text for name, (text, _) in BAD.items()}}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run(folder: Path, command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("name", "good", "bad"), [*zip(HOOKS, GOOD, BAD.items(), strict=True)], ids=list(HOOKS)
)
def test_a_hook_names_the_bad_files_and_no_other(folder, name, good, bad):
    hook, (bad_file, (_, message)) = HOOKS[name], bad
    words = [*shlex.split(hook["entry"]), *hook["args"]]
    assert run(folder, [*words, good]).returncode == 0
    refused = run(folder, [*words, bad_file, good])
    assert refused.returncode == 1, refused.stdout
    assert message in refused.stdout


def action(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the action's last step with its defaults and these inputs."""
    step = ACTION["runs"]["steps"][-1]
    values = {name: declared["default"] for name, declared in ACTION["inputs"].items()} | inputs
    environment = {
        variable: values[text.removeprefix("${{ inputs.").removesuffix(" }}")]
        for variable, text in step["env"].items()
    }
    places = {"GITHUB_ACTION_PATH": str(REPOSITORY), "RUNNER_TEMP": str(folder)}
    return run(folder, ["sh", "-e", "-c", step["run"]], **environment, **places)


def test_the_action_annotates_each_bad_file_and_writes_sarif(folder):
    done = action(
        folder, profiles="profiles/*.yaml", kubelet="kubelet-*.yaml", mig="mig-*.yaml", sarif="sarif"
    )
    assert done.returncode == 1, done.stdout
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.endswith(": ok")] == [f"{name}: ok" for name in GOOD]
    for name, (_, message) in BAD.items():
        (annotation,) = [line for line in lines if line.startswith(f"::error file={name}::")]
        assert message in annotation
    logs = [json.loads(file.read_text()) for file in sorted((folder / "sarif").iterdir())]
    assert [len(log["runs"][0]["results"]) for log in logs] == [1, 0]


def test_the_action_passes_good_files_and_refuses_to_check_nothing(folder):
    assert action(folder, profiles="profiles/good.yaml").returncode == 0
    nothing = action(folder)
    assert (nothing.returncode, nothing.stdout) == (
        2,
        "::error::no file to check: give profiles, kubelet or mig\n",
    )
