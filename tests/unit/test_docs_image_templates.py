"""The templates of docs/examples/image: their commands are ours, and what they name is there.

That the builders' own programs accept them is tested in tests/lab/test_builders.py. bake.sh is run by `make
image`, mkosi by tests/lab/test_mkosi.py: no test starts a CI job, packer or Kubernetes' image-builder.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from lab.paths import REPOSITORY
from numaforge.cli import numaforge
from numaforge.image.wish import KEY, read_image
from numaforge.planning.profiles import load_profile

FOLDER = REPOSITORY / "docs/examples/image"
TEMPLATES = sorted(path for path in FOLDER.rglob("*") if path.is_file())
MKOSI = {FOLDER / "mkosi" / name for name in ("mkosi.sync", "mkosi.finalize")}
SHELL = {*FOLDER.glob("*.sh"), *MKOSI}
CI = {"github.yaml": ("jobs", "image"), "gitlab.yaml": ("node-image",)}
PYINFRA = {"bake.sh", "mkosi.finalize", "node.pkr.hcl", "main.yml"}
"""Who calls pyinfra; CI calls it by bake.sh."""


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def calls(path: Path) -> Iterator[list[str]]:
    """Yield the words of each call of pyinfra: those of a line of shell, or the list that Ansible has."""
    text = text_of(path)
    if path.name == "main.yml":
        yield from (task["ansible.builtin.command"]["argv"] for task in yaml.safe_load(text))
        return
    for found in re.findall(r"\b(pyinfra -y [^\n]*)", text):
        yield re.sub("[\"']|>&2.*", "", found).split()


def words_of_ci(document: object) -> Iterator[str]:
    if isinstance(document, dict):
        for each in document.values():
            yield from words_of_ci(each)
    elif isinstance(document, list):
        for each in document:
            yield from words_of_ci(each)
    else:
        yield str(document)


def test_example_image_file_is_valid() -> None:
    wish = read_image(str(FOLDER / "image.yaml"))
    assert wish.sysprep
    assert wish.boot.profile is not None
    load_profile(wish.boot.profile)


def test_cloud_init_writes_a_valid_profile_to_the_expected_path(tmp_path: Path) -> None:
    text = text_of(FOLDER / "user-data.yaml")
    assert text.startswith("#cloud-config\n")
    (written,) = yaml.safe_load(text)["write_files"]
    assert written["path"] == "/etc/numaforge/profile.yaml"
    file = tmp_path / "profile.yaml"
    file.write_text(written["content"])
    assert load_profile(file).name == "inference-pool"


@pytest.mark.parametrize("name", sorted(PYINFRA))
def test_templates_call_pyinfra_with_bake_deploy_and_data(name: str) -> None:
    (path,) = FOLDER.rglob(name)
    (words,) = calls(path)
    assert "-y" in words
    assert any(word.startswith(f"{KEY}=") for word in words)
    deploy = next(word for word in words if word.endswith("bake.py") or word == "$DEPLOY")
    assert (REPOSITORY / "deploys" / Path(deploy.replace("$DEPLOY", "bake.py")).name).exists()


def test_pyinfra_knows_every_option() -> None:
    shown = [sys.executable, "-m", "pyinfra", "--help"]  # importing it patches this process
    said = subprocess.run(shown, capture_output=True, text=True, check=True).stdout
    known = {*re.findall(r"(?<![\w-])--?[a-z][a-z-]*", said)}
    used = {word for path in TEMPLATES for words in calls(path) for word in words if word.startswith("-")}
    assert used
    assert used - known == set()


def test_numaforge_knows_every_command_and_option() -> None:
    pattern = re.compile(r"numaforge ([a-z]+)((?: --[a-z-]+)+) ")
    called = [found for path in SHELL for found in pattern.findall(text_of(path))]
    assert {name for name, _ in called} == {"verify", "boot"}
    for name, options in called:
        command = numaforge.get_command(click.Context(numaforge), name)
        assert command is not None
        assert {*options.split()} - {each for option in command.params for each in option.opts} == set()


@pytest.mark.parametrize("name", CI)
def test_ci_job_calls_the_scripts_listed_for_copying(name: str) -> None:
    document = yaml.safe_load(text_of(FOLDER / name))
    for key in CI[name]:
        document = document[key]
    said = "\n".join(words_of_ci(document))
    assert {*re.findall(r"\bsh (\S+\.sh)", said)} == {"bake.sh", "boot.sh"}
    assert "report.xml" in said
    variables = {*re.findall(r"^#   ([A-Z]+)=", text_of(FOLDER / "bake.sh"), re.MULTILINE)}
    assert {*(document.get("env") or document["variables"])} <= variables
    assert "linux-image" in said, "what is booted has a kernel"


def test_image_builder_gets_every_variable_of_the_role() -> None:
    role = text_of(FOLDER / "image-builder/numaforge/tasks/main.yml")
    given = json.loads(text_of(FOLDER / "image-builder/vars.json"))
    assert given["node_custom_roles_post"] == "numaforge"
    ours = {*re.findall(r"{{ (numaforge_\w+) }}", role)}
    assert {word.partition("=")[0] for word in given["ansible_user_vars"].split()} == ours


def test_scripts_run_as_programs_are_executable() -> None:
    assert all(text_of(path).startswith("#!/bin/sh\n") for path in SHELL)
    assert all(os.access(path, os.X_OK) for path in MKOSI), "mkosi takes no script that is not executable"
