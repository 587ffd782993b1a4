"""The pages for those who come from other tools name keys of a profile that exist."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.paths import REPOSITORY
from numaforge.planning.json_schema import json_schema

PAGES = {
    name: (REPOSITORY / "docs" / name).read_text(encoding="utf-8")
    for name in ("from-ansible.md", "from-openshift.md")
}
SCHEMA = json_schema("profile")


def sections(value: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the sections that stand somewhere in what a key accepts."""
    if "$ref" in value:
        yield SCHEMA["$defs"][value["$ref"].rpartition("/")[2]]
    for below in (*value.get("anyOf", ()), value.get("items", {})):
        if below:
            yield from sections(below)


def exists(path: str) -> bool:
    """Say whether a profile has a key of this dotted path; names in mappings are free."""
    found: list[Mapping[str, Any]] = [SCHEMA]
    for name in path.split("."):
        values = [section["properties"][name] for section in found if name in section["properties"]]
        if not values:
            return False
        found = [section for value in values for section in sections(value)]
        if not found:
            return True
    return True


def keys(text: str) -> list[str]:
    """Return what reads as a key of a profile: a path in backquotes that begins with a section."""
    paths = re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)(?::[^`]*)?`", text)
    return [path for path in paths if path.split(".")[0] in SCHEMA["properties"]]


@pytest.mark.parametrize("name", PAGES)
def test_every_key_of_a_profile_that_is_named_exists(name: str) -> None:
    named = keys(re.sub(r"^\| `(hugepages|cpu|numa|net)\.[^|]*\|", "|", PAGES[name], flags=re.MULTILINE))
    assert len(named) > 10
    assert [path for path in named if not exists(path)] == []


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("kubelet.cpu_manager_policy", True),
        ("kubelet.cpu_manager", False),
        ("cpus.reserved.cpulist", True),
        ("cpus.reserved.cpu_list", False),
        ("rdma.gpudirect.acs", True),
    ],
)
def test_a_key_that_does_not_exist_is_found_out(path: str, there: bool) -> None:
    assert exists(path) == there


LISTED = {
    "_meta": {
        "hostvars": {
            "gpu-01": {"ansible_host": "10.0.0.7", "ansible_port": 2222, "ansible_user": "ubuntu", "rack": 3},
            "gpu-02": {"ansible_ssh_common_args": "-J bastion", "ansible_ssh_private_key_file": "~/.ssh/gpu"},
        }
    },
    "all": {"children": ["ungrouped", "gpu_nodes"]},
    "gpu_nodes": {"children": ["old", "new"]},
    "new": {"hosts": ["gpu-01", "gpu-02"]},
    "old": {"hosts": ["gpu-03"]},
}
"""What `ansible-inventory --list` prints."""


def test_an_inventory_of_ansibles_keeps_how_its_hosts_are_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (snippet,) = re.findall("```python\n(.+?)```", PAGES["from-ansible.md"], re.DOTALL)
    program = tmp_path / "ansible-inventory"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(LISTED)}\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    read: dict[str, Any] = {}
    exec(snippet, read)  # noqa: S102 (the page's own)
    assert read["gpu_nodes"] == [
        ("gpu-03", {}),
        ("gpu-01", {"ssh_hostname": "10.0.0.7", "ssh_port": 2222, "ssh_user": "ubuntu"}),
        ("gpu-02", {"ansible_ssh_common_args": "-J bastion", "ssh_key": "~/.ssh/gpu"}),
    ]
