"""The role of docs/add-a-role.md is planned, applied, verified and undone, in a copy of the repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.paths import REPOSITORY
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox, free_port
from tests.ssh.standin_systemd import standin_systemd

PAGE = (REPOSITORY / "docs" / "add-a-role.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+) (\S+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
FILES = {path: text for kind, path, text in BLOCKS if kind != "diff"}
CHANGES = {path: text for kind, path, text in BLOCKS if kind == "diff"}
COPIED = ("src", "roles", "deploys", "templates", "profiles", "schemas")
PROFILE: dict[str, Any] = {
    "name": "sandbox",
    "banner": {"text": "training until Friday"},
    "watch": {"enabled": True},
}
METRICS = "/var/lib/node_exporter/textfile_collector/numaforge.prom"
DRIFT = 'numaforge_plan_drift{node="sandbox",what="banner"}'
SHOWN = "/run/motd"
UNIT = "/usr/lib/systemd/system/kubelet.service"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of the repository with the files and the changes of the page."""
    copy = tmp_path / "repository"
    for folder in COPIED:
        shutil.copytree(REPOSITORY / folder, copy / folder, symlinks=True)  # with what is compiled
    shutil.copy(REPOSITORY / "config.py", copy)
    for path, text in FILES.items():
        file = copy / path
        assert not file.exists()
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    for path, change in CHANGES.items():
        file = copy / path
        file.write_text(changed(file.read_text(), change))
    return copy


def changed(text: str, change: str) -> str:
    """Return a text with a change in the form of `diff -u`, whose hunks begin with a line of the text."""
    for hunk in change.split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] == " ")
        assert f"\n{before}" in text, before
        after = "".join(line[1:] for line in lines)
        text = text.replace(f"\n{before}", f"\n{after}", 1)
    return text


@pytest.fixture
def node(start_sandbox: StartSandbox) -> Sandbox:
    sandbox = start_sandbox(
        {**machine(), **standin_systemd(free_port()), UNIT: "[Service]\nExecStart=/usr/local/bin/kubelet\n"}
    )
    sandbox.run(f"mkdir -p /run/services /run/systemd/system; echo hello > {SHOWN}")
    return sandbox


def run(repository: Path, node: Sandbox, profile: dict[str, Any], program: str, *arguments: str) -> str:
    """Run a program of the copy against the node, and return what it says with its exit code."""
    inventory = repository / "inventory.py"
    inventory.write_text(f"nodes = {[('node', {**node.data(), 'numaforge_profile': profile})]!r}\n")
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / program),
            *(each.format(inventory=inventory) for each in arguments),
        ],
        cwd=repository,
        env={
            **os.environ,
            "HOME": str(repository),
            "PYTHONPATH": str(repository / "src"),
            "PYINFRA_PROGRESS": "off",
            "COLUMNS": "1000",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    return f"{done.stdout}{done.stderr}\nended with {done.returncode}"


@pytest.mark.long
def test_documented_role_is_planned_applied_verified_and_undone(repository: Path, node: Sandbox) -> None:
    deploy = ("pyinfra", "-y", "-v", "{inventory}", "deploys/banner.py")

    dry = run(repository, node, PROFILE, "pyinfra", "--dry", "-v", "{inventory}", "deploys/banner.py")
    assert re.search(rf"{SHOWN} +hello -> training until Friday", dry), dry
    assert node.path(SHOWN).read_text() == "hello\n"

    node.path("/run/no-banner").touch()
    refused = run(repository, node, PROFILE, *deploy)
    assert "the login shell shows no banner" in refused, refused
    assert node.path(SHOWN).read_text() == "hello\n"
    assert not node.path("/etc/numaforge/banner").exists()

    node.path("/run/no-banner").unlink()
    retried = {**PROFILE, "banner": {"text": "training"}}
    applied = run(repository, node, retried, *deploy)
    assert "ended with 0" in applied, applied
    assert node.path(SHOWN).read_text() == "training\n"
    assert node.path("/etc/numaforge/banner").read_text().endswith("\ntraining\n")
    assert "the node is already as planned" in run(repository, node, retried, *deploy)

    verified = run(repository, node, retried, "numaforge", "verify", "-v", "{inventory}")
    assert f"{DRIFT} 0\n" in node.path(METRICS).read_text()
    node.path(SHOWN).write_text("hello\n")
    node.run("sh /var/lib/numaforge/lib/watch.sh watch /etc/numaforge/watch.conf")
    assert f"{DRIFT} 1\n" in node.path(METRICS).read_text()
    drifted = run(repository, node, retried, "numaforge", "verify", "-v", "{inventory}")
    assert "kernel value banner:" not in verified, verified
    assert "kernel value banner:" in drifted, drifted

    gone = run(repository, node, {"name": "sandbox"}, *deploy)
    assert "ended with 0" in gone, gone
    assert not node.path("/etc/numaforge/banner").exists()
    assert not node.path(METRICS).exists()
