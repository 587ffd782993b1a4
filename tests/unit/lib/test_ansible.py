"""Inventories of Ansible: which files are, what their variables become, and what is refused or noticed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from numaforge.lib.ansible import is_inventory, lost_logins, read_inventory, translated, unread
from numaforge.lib.errors import HostError

SCRIPT = """#!/bin/sh
echo '{"_meta": {"hostvars": {"gpu-01": {"ansible_host": "10.0.0.7"}}}, "gpu": {"hosts": ["gpu-01"]}}'
"""
KINDS = {
    "a folder": ("fleet/hosts.yml", "gpu:\n  hosts:\n    gpu-01: {ansible_host: 10.0.0.7}\n", 0o644),
    "a program in Python": (
        "cloud.py",
        f"#!{sys.executable}\nprint('''{SCRIPT.splitlines()[1][6:-1]}''')",
        0o755,
    ),
    "INI without a suffix": ("hosts", "# ours\n[gpu]\ngpu-01 ansible_host=10.0.0.7\n", 0o644),
    "INI": ("hosts.ini", "[gpu]\ngpu-01 ansible_host=10.0.0.7\n", 0o644),
    "YAML": ("hosts.yaml", "gpu:\n  hosts:\n    gpu-01: {ansible_host: 10.0.0.7}\n", 0o644),
    "JSON": ("hosts.json", '{"gpu": {"hosts": {"gpu-01": {"ansible_host": "10.0.0.7"}}}}', 0o644),
    "a program": ("cloud", SCRIPT, 0o755),
}


@pytest.mark.variants(3)
@pytest.mark.parametrize(("name", "text", "mode"), KINDS.values(), ids=list(KINDS))
def test_ansible_inventory_reads_each_kind(tmp_path, name, text, mode):
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    inventory = file
    if file.parent != tmp_path:
        (file.parent / "group_vars").mkdir()
        (file.parent / "group_vars/gpu.yml").write_text("numaforge_profile: training\n")
        inventory = file.parent
    assert is_inventory(inventory)
    read = read_inventory(str(inventory))
    of_group = {"numaforge_profile": "training"} if inventory != file else {}
    assert read.hosts == {"gpu-01": {**of_group, "ssh_hostname": "10.0.0.7"}}
    assert read.groups["gpu"] == ["gpu-01"]


@pytest.mark.parametrize(
    ("name", "text", "mode"),
    [
        ("inventory.py", 'nodes = ["gpu-01"]\n', 0o644),
        ("inventory.py", 'nodes = ["gpu-01"]\n', 0o755),
        ("fleet/inventory.py", 'nodes = ["gpu-01"]\n', 0o644),
        ("inventory", '"""Ours."""\nnodes = ["gpu-01"]\n', 0o644),
    ],
    ids=["Python", "Python with a mode of programs", "a folder of pyinfra", "Python without a suffix"],
)
def test_python_inventory_is_not_read_as_ansible(tmp_path, name, text, mode):
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    assert not is_inventory(file if file.parent == tmp_path else file.parent)


def test_unreadable_inventory_is_reported_in_ansibles_words(tmp_path):
    file = tmp_path / "hosts.yml"
    file.write_text("gpu: [\n")
    with pytest.raises(HostError, match=r"cannot read it:\n.*YAML parsing failed"):
        read_inventory(str(file))


def test_missing_ansible_inventory_names_both_remedies(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(HostError, match=r"not installed here\n.*install ansible-core, or .* inventory\.py"):
        read_inventory(str(tmp_path / "hosts.yml"))


def test_groups_have_the_hosts_of_their_children():
    read = translated(
        {
            "_meta": {"hostvars": {"a": {"ansible_port": 2222}}},
            "all": {"children": ["ungrouped", "gpu"]},
            "gpu": {"hosts": ["c"], "children": ["old", "new"]},
            "new": {"hosts": ["a", "b"]},
            "old": {"hosts": ["b"]},
            "ungrouped": {"hosts": ["d"]},
        }
    )
    assert list(read.hosts) == ["d", "c", "b", "a"]
    assert read.hosts["a"] == {"ssh_port": 2222}
    assert read.groups == {"gpu": ["c", "b", "a"], "new": ["a", "b"], "old": ["b"], "ungrouped": ["d"]}


VARIABLES = {
    "a port in text": ({"ansible_port": "2222"}, {"ssh_port": 2222}),
    "of two names the first": ({"ansible_ssh_user": "old", "ansible_user": "new"}, {"ssh_user": "new"}),
    "a text that is no template": ({"ansible_host": {"__ansible_unsafe": "gpu"}}, {"ssh_hostname": "gpu"}),
    "keys of hosts": ({"ansible_host_key_checking": False}, {"ssh_strict_host_key_checking": "no"}),
    "ours": ({"numaforge_profile": "training"}, {"numaforge_profile": "training"}),
    "the role's": ({"numaforge_apply_command": "numaforge"}, {}),
    "a playbook's": ({"ssh_user": "x", "kube_version": "1.36"}, {}),
    "without a value": ({"ansible_user": None, "ansible_ssh_common_args": ""}, {}),
    "as numaforge does anyway": (
        {
            "ansible_become": True,
            "ansible_become_method": "sudo",
            "ansible_become_user": "root",
            "ansible_connection": "ssh",
            "ansible_python_interpreter": "/usr/bin/python3",
        },
        {},
    ),
}


@pytest.mark.parametrize(("variables", "data"), VARIABLES.values(), ids=list(VARIABLES))
def test_ansible_variables_become_host_data(variables, data):
    read = translated({"_meta": {"hostvars": {"gpu-01": variables}}, "gpu": {"hosts": ["gpu-01"]}})
    assert read.hosts == {"gpu-01": data}


UNREADABLE = {
    "a template": ({"ansible_host": "{{ ip }}"}, "is a template, which ansible-inventory does not evaluate"),
    "encrypted": ({"ansible_password": {"__ansible_vault": "$ANSIBLE_VAULT;1.1"}}, "is encrypted; write its"),
    "options of ssh": ({"ansible_ssh_common_args": "-J bastion"}, "-J HOST is ProxyJump HOST"),
    "no SSH": ({"ansible_connection": "local"}, "name the host with its connector in an inventory.py"),
}


@pytest.mark.parametrize(("variables", "message"), UNREADABLE.values(), ids=list(UNREADABLE))
def test_unreadable_login_is_refused(variables, message):
    read = translated({"_meta": {"hostvars": {"gpu-01": variables}}, "gpu": {"hosts": ["gpu-01"]}})
    refused = lost_logins(read.hosts["gpu-01"])
    assert list(refused) == list(variables)
    assert message in json.dumps(refused)


def test_unsupported_ansible_variables_are_noticed():
    variables = {"ansible_become_user": "admin", "ansible_become_pass": "x", "ansible_shell_type": "fish"}
    read = translated({"_meta": {"hostvars": {"gpu-01": variables}}, "gpu": {"hosts": ["gpu-01"]}})
    assert list(unread(read.hosts["gpu-01"])) == [
        "host data ansible_become_user: is Ansible's, and not read; sudo makes the user root",
        "host data ansible_become_pass: is Ansible's, and not read; sudo must work without a password",
        "host data ansible_shell_type: is Ansible's, and not read",
    ]


def test_pyinfra_accepts_an_ansible_inventory(tmp_path):
    (tmp_path / "config.py").write_text("from numaforge.run.pyinfra_cli import adapt\n\nadapt()\n")
    (tmp_path / "hosts.ini").write_text("[gpu]\ngpu-01 ansible_user={{me}}\n")
    pyinfra = Path(sys.executable).with_name("pyinfra")
    done = subprocess.run(
        [pyinfra, "hosts.ini", "debug-inventory"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "gpu-01" in done.stdout + done.stderr
    assert "host data ansible_user: is a template" in done.stdout + done.stderr
