"""Ansible's inventories and names of host data: what to write in their place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FROM_ANSIBLE = "docs/from-ansible.md shows the same as inventory.py"
SUFFIXES = (".yaml", ".yml", ".ini", ".cfg", ".json", ".toml")
_MOST_BYTES = 2**16
_YAML_OR_INI = re.compile(r"---|\[[\w.:-]+\]\s*(#.*)?$|\w[\w.-]*:\s*(#.*)?$|\S+\s+ansible_\w+=")
_PREFIX = "ansible_"
_LOGIN = {
    "ansible_host": "ssh_hostname",
    "ansible_password": "ssh_password",
    "ansible_port": "ssh_port",
    "ansible_private_key_file": "ssh_key",
    "ansible_ssh_host": "ssh_hostname",
    "ansible_ssh_pass": "ssh_password",
    "ansible_ssh_password": "ssh_password",
    "ansible_ssh_port": "ssh_port",
    "ansible_ssh_private_key_file": "ssh_key",
    "ansible_ssh_user": "ssh_user",
    "ansible_user": "ssh_user",
}
_OPTIONS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
_CONNECTION = "ansible_connection"
_BY_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh", "ansible.builtin.paramiko_ssh")
_NOT_NEEDED = {
    "ansible_become": "a user other than root uses sudo",
    "ansible_become_method": "a user other than root uses sudo",
    "ansible_become_pass": "sudo must work without a password",
    "ansible_become_password": "sudo must work without a password",
    "ansible_become_user": "sudo makes the user root",
    "ansible_python_interpreter": "a host needs no Python",
}


def not_python(file: Path) -> str | None:
    """Return why a file is no inventory of pyinfra's; None for one in Python, or in no known format."""
    if file.suffix == ".py" or not file.is_file() or not _is_ansibles(file):
        return None
    return (
        f"{file}: an inventory is Python, and this is YAML, INI or JSON; "
        "docs/from-ansible.md shows one of Ansible as inventory.py"
    )


def _is_ansibles(file: Path) -> bool:
    """Whether a file is YAML, INI or JSON for Ansible, by its name or its first line."""
    if file.suffix in SUFFIXES:
        return True
    with file.open("rb") as opened:
        lines = opened.read(_MOST_BYTES).decode("utf-8", "replace").splitlines()
    first = next((line for line in lines if line.strip() and not line.lstrip().startswith(("#", ";"))), "")
    return bool(_YAML_OR_INI.match(first))


def lost_logins(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the replacement for each datum that changes which machine or user is reached.

    Ignores Ansible's data next to pyinfra's own, in an inventory for both.
    """
    logins = {}
    for name in data:
        if not name.startswith(_PREFIX) or data[name] in (None, ""):
            continue
        login = _LOGIN.get(name)
        if login and data.get(login) is None:
            logins[name] = f"write {login}"
        elif name in _OPTIONS:
            logins[name] = (
                "write its options into ~/.ssh/config, for this host: -J HOST is ProxyJump HOST, "
                "-o NAME=VALUE is NAME VALUE"
            )
        elif name == _CONNECTION and data[name] not in _BY_SSH:
            logins[name] = "name the host with its connector, as @local or @docker/NAME"
    return {name: f"is Ansible's, and not read; {remedy}" for name, remedy in logins.items()}


def unread(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield a notice for each other datum of Ansible's."""
    for name in data:
        if name.startswith(_PREFIX) and name not in (*_LOGIN, *_OPTIONS, _CONNECTION):
            why = f"{_NOT_NEEDED[name]}; " if name in _NOT_NEEDED else ""
            yield f"host data {name}: is Ansible's, and not read; {why}leave it out"
