"""The hooks of pre-commit and the action for GitHub: what they run, with numaforge as it is here.

tests/wheel/test_pipelines.py has them install it.
"""

import json
import os
import shlex
import sys
from pathlib import Path

import pytest
from pre_commit.clientlib import load_manifest

from lab.paths import REPOSITORY
from tests.fixtures.pipelines import ALL_INPUTS, BAD, GOOD, STEPS, run, run_action, write_files

HOOKS = {hook["id"]: hook for hook in load_manifest(REPOSITORY / ".pre-commit-hooks.yaml")}
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files(tmp_path)
    return tmp_path


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("name", "good", "bad"), [*zip(HOOKS, GOOD, BAD.items(), strict=True)], ids=list(HOOKS)
)
def test_hook_names_only_the_bad_files(folder, name, good, bad):
    hook, (bad_file, (_, message)) = HOOKS[name], bad
    words = [*shlex.split(hook["entry"]), *hook["args"]]
    assert run([*words, good], folder, ENVIRONMENT)[0] == 0
    code, output = run([*words, bad_file, good], folder, ENVIRONMENT)
    assert code == 1, output
    assert message in output


def test_the_action_annotates_each_bad_file_and_writes_sarif(folder):
    code, output = run_action(STEPS[-1:], REPOSITORY, folder, ENVIRONMENT, ALL_INPUTS)
    assert code == 1, output
    lines = output.splitlines()
    assert [line for line in lines if line.endswith(": ok")] == [f"{name}: ok" for name in GOOD]
    for name, (_, message) in BAD.items():
        (annotation,) = [line for line in lines if line.startswith(f"::error file={name}::")]
        assert message in annotation
    logs = [json.loads(file.read_text()) for file in sorted((folder / "sarif").iterdir())]
    assert [len(log["runs"][0]["results"]) for log in logs] == [1, 0]


def test_action_passes_good_files_and_refuses_empty_input(folder):
    inputs = {"profiles": "profiles/good.yaml"}
    assert run_action(STEPS[-1:], REPOSITORY, folder, ENVIRONMENT, inputs)[0] == 0
    assert run_action(STEPS[-1:], REPOSITORY, folder, ENVIRONMENT, {}) == (
        2,
        "::error::no file to check: give profiles, kubelet or mig\n",
    )
