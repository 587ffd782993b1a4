"""The action for GitHub and the hooks of pre-commit install numaforge from a clone.

The packages come from the index that pip is configured for.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from tests.fixtures.pipelines import ALL_INPUTS, BAD, GOOD, STEPS, run, run_action, write_files

pytestmark = pytest.mark.long

HOOKS = "\n".join(f"      - id: numaforge-{kind}" for kind in ("profile", "kubelet", "mig"))


def environment(home: Path) -> dict[str, str]:
    """Return what a runner's shell has: a Python without numaforge, pip's index, a home of its own."""
    pip = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "LANG"))}
    return {
        **pip,
        "PATH": f"{sys.base_prefix}/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "GIT_AUTHOR_NAME": "fleet",
        "GIT_AUTHOR_EMAIL": "fleet@example.com",
        "GIT_COMMITTER_NAME": "fleet",
        "GIT_COMMITTER_EMAIL": "fleet@example.com",
    }


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A clone of this repository's last commit."""
    if not (REPOSITORY / ".git").exists():
        pytest.skip("this tree is not a repository of git")
    source = tmp_path / "numaforge"
    subprocess.run(["git", "clone", "-q", str(REPOSITORY), str(source)], check=True)
    return source


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A repository with good and bad files."""
    fleet = tmp_path / "fleet"
    fleet.mkdir()
    write_files(fleet)
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "files"]):
        subprocess.run(["git", *command], cwd=fleet, env=environment(tmp_path), check=True)
    return fleet


def test_the_action_installs_numaforge_and_annotates_each_bad_file(source, fleet, tmp_path):
    code, output = run_action(STEPS, source, fleet, environment(tmp_path), ALL_INPUTS)
    assert code == 1, output
    assert [line for line in output.splitlines() if line.endswith(": ok")] == [f"{name}: ok" for name in GOOD]
    assert output.count("::error file=") == len(BAD)
    assert all(f"::error file={name}::" in output for name in BAD)
    good = {"profiles": "profiles/good.yaml", "kubelet": "kubelet-good.yaml", "mig": "mig-good.yaml"}
    code, output = run_action(STEPS[-1:], source, fleet, environment(tmp_path), good)
    assert code == 0, output


def test_the_hooks_are_installed_and_refuse_the_bad_files(source, fleet, tmp_path):
    pre_commit = str(Path(sys.executable).with_name("pre-commit"))
    code, output = run([pre_commit, "try-repo", str(source), "--all-files"], fleet, environment(tmp_path))
    assert code == 1, output
    assert output.count("exit code: 1") == len(BAD), output
    assert all(message in output for _, message in BAD.values()), output
    for name in BAD:
        subprocess.run(["git", "rm", "-q", name], cwd=fleet, check=True)
    revision = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=source, capture_output=True, text=True, check=True
    ).stdout.strip()
    config = f"repos:\n  - repo: {source}\n    rev: {revision}\n    hooks:\n{HOOKS}\n"
    (fleet / ".pre-commit-config.yaml").write_text(config)
    code, output = run([pre_commit, "run", "--all-files"], fleet, environment(tmp_path))
    assert code == 0, output
    assert output.count("Passed") == len(GOOD), output
