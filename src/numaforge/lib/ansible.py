"""Inventories of Ansible, as ansible-inventory reads them, and Ansible's names of host data."""

import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from numaforge.lib.errors import HostError

SUFFIXES = (".yaml", ".yml", ".ini", ".cfg", ".json", ".toml")
READ = "NUMAFORGE_ANSIBLE_INVENTORY"
"""The variable that names the file of an inventory that the command has read, for the runs that it starts."""
_MOST_BYTES = 2**16
_YAML_OR_INI = re.compile(
    r"---|\[[\w.:-]+\]\s*(#.*)?$|\w[\w.-]*:\s*(#.*)?$|\S+\s+ansible_\w+=|[A-Za-z0-9][\w.-]*$"
)
_FOLDERS = ("group_vars", "host_vars")
_PREFIX = "ansible_"
_OURS = ("numaforge_", "kubelet_start_seconds", "kubelet_stable_seconds")
_OF_THE_ROLE = "numaforge_apply_"
_NAMES = {"host": "hostname", "port": "port", "user": "user", "private_key_file": "key"}
_LOGIN = {  # of two names for the same, Ansible takes the first
    f"ansible_{kind}{name}": f"ssh_{ours}"
    for name, ours in (*_NAMES.items(), ("password", "password"))
    for kind in ("", "ssh_")
} | {"ansible_ssh_pass": "ssh_password"}
_OPTIONS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
_CHECKING = ("ansible_host_key_checking", "ansible_ssh_host_key_checking")
_CONNECTION = "ansible_connection"
_BY_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh", "ansible.builtin.paramiko_ssh")
_PASSWORDS = ("ansible_become_pass", "ansible_become_password")
_NOT_NEEDED = {
    "ansible_become": "a user other than root uses sudo",
    "ansible_become_method": "a user other than root uses sudo",
    **dict.fromkeys(_PASSWORDS, "sudo must work without a password"),
    "ansible_become_user": "sudo makes the user root",
    "ansible_python_interpreter": "a host needs no Python",
    **dict.fromkeys(("ansible_pipelining", "ansible_ssh_pipelining"), "a host is asked over one connection"),
}
_AS_HERE = {"ansible_become_method": "sudo", "ansible_become_user": "root"}
_TEMPLATE = re.compile(r"\{\{|\{%")
_SETTINGS = {
    "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1",  # else a file with a mistake is an empty inventory
    "ANSIBLE_INVENTORY_UNPARSED_FAILED": "1",
    "ANSIBLE_NOCOLOR": "1",
    "LC_ALL": "C.UTF-8",  # without UTF-8 it does not start
}


@dataclass(frozen=True)
class AnsibleInventory:
    """The hosts of an inventory with their data under our names, and the hosts of each group."""

    hosts: Mapping[str, Mapping[str, Any]]
    groups: Mapping[str, list[str]]


def is_inventory(file: Path) -> bool:
    """Return whether a file or folder is an inventory for Ansible, by its name, first line or content.

    A program is one if it is executable and not Python, or begins with `#!`.
    """
    if file.is_dir():
        own = (file / "inventory.py").exists()
        return not own and any((file / folder).is_dir() for folder in _FOLDERS)
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        text = opened.read(_MOST_BYTES).decode("utf-8", "replace")
    if os.access(file, os.X_OK) and (file.suffix != ".py" or text.startswith("#!")):
        return True
    if file.suffix == ".py" or file.suffix in SUFFIXES:
        return file.suffix != ".py"
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", ";")))
    return bool(_YAML_OR_INI.match(next(lines, "")))


def read_inventory(source: str) -> AnsibleInventory:
    """Read an inventory by ansible-inventory, or as the command that started this run has read it.

    Raises HostError where ansible-inventory is not installed, and where it cannot read the inventory.
    """
    read = Path(os.environ.get(READ, os.devnull))
    if read.is_file():
        return AnsibleInventory(**json.loads(read.read_text(encoding="utf-8")))
    return translated(_listed(source))


@cache
def read_once(source: str) -> str:
    """Read an inventory into a file of mode 0600 that goes with this process; raises HostError."""
    folder = Path(tempfile.mkdtemp(prefix="numaforge-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = folder / "inventory.json"
    file.touch(0o600)
    file.write_text(json.dumps(asdict(read_inventory(source))), encoding="utf-8")
    return str(file)


def _listed(source: str) -> Mapping[str, Any]:
    beside = Path(sys.executable).with_name("ansible-inventory")
    program = shutil.which("ansible-inventory") or (str(beside) if beside.is_file() else None)
    if program is None:
        raise HostError(
            "an inventory of Ansible is read by ansible-inventory, which is not installed here",
            where=source,
            remedy="install ansible-core, or write the hosts into an inventory.py: docs/from-ansible.md",
        )
    ended = subprocess.run(
        [program, "-i", source, "--list"],
        env={**os.environ, **_SETTINGS},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    try:
        document = json.loads(ended.stdout) if ended.returncode == 0 else None
    except ValueError:
        document = None
    if not isinstance(document, Mapping):
        reasons = [line for line in ended.stderr.splitlines() if line.startswith(("[WARNING]", "[ERROR]"))]
        last = ended.stderr.strip().splitlines()[-1:]
        message = "\n  ".join(["ansible-inventory cannot read it:", *(reasons or last)])
        raise HostError(message, where=source, remedy=f"try ansible-inventory -i {source} --list")
    return document


def translated(document: Mapping[str, Any]) -> AnsibleInventory:
    """Return what `ansible-inventory --list` prints: our variables, and Ansible's that say how to log in."""
    variables = document.get("_meta", {}).get("hostvars", {})
    members = {name: _members(name, document, ()) for name in document if name != "_meta"}
    names = dict.fromkeys([*members.pop("all", ()), *chain(*members.values())])
    return AnsibleInventory({name: _host_data(variables.get(name, {})) for name in names}, members)


def _members(group: str, document: Mapping[str, Any], parents: tuple[str, ...]) -> list[str]:
    """Return the hosts of a group and of its children, each once."""
    if group in parents:
        return []
    content = document.get(group, {})
    children = (_members(child, document, (*parents, group)) for child in content.get("children", ()))
    return list(dict.fromkeys(chain(content.get("hosts", ()), *children)))


def _host_data(variables: Mapping[str, Any]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for name, value in variables.items():
        if isinstance(value, Mapping) and value.keys() == {"__ansible_unsafe"}:
            value = value["__ansible_unsafe"]
        if name.startswith(_OF_THE_ROLE) or (name.startswith(_PREFIX) and value in (None, "")):
            continue
        if name.startswith(_OURS) or (name.startswith(_PREFIX) and not _is_as_here(name, value)):
            data[name] = value
    for name, ours in _LOGIN.items():
        if name in data and not _unreadable(data[name]):
            value = data.pop(name)
            is_port = ours == "ssh_port" and isinstance(value, str) and value.isdecimal()
            data.setdefault(ours, int(value) if is_port else value)
    for name in _CHECKING:
        if isinstance(data.get(name), bool):
            data["ssh_strict_host_key_checking"] = "yes" if data.pop(name) else "no"
    return data


def _is_as_here(name: str, value: object) -> bool:
    """Return whether a variable says what numaforge does anyway."""
    if name == _CONNECTION:
        return value in _BY_SSH
    return name in _NOT_NEEDED and name not in _PASSWORDS and value == _AS_HERE.get(name, value)


def _unreadable(value: object) -> str:
    """Return why ansible-inventory gives no value for a variable; "" where it does."""
    if isinstance(value, Mapping):
        return "is encrypted"
    if isinstance(value, str) and _TEMPLATE.search(value):
        return "is a template, which ansible-inventory does not evaluate"
    return ""


def lost_logins(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the replacement for each datum, beside pyinfra's, that changes which host or user is reached."""
    logins = {}
    for name in data:
        if not name.startswith(_PREFIX) or data[name] in (None, ""):
            continue
        login = _LOGIN.get(name)
        if login and data.get(login) is None:
            why = _unreadable(data[name])
            logins[name] = f"{why}; write its value" if why else f"is Ansible's, and not read; write {login}"
        elif name in _OPTIONS:
            logins[name] = (
                "is Ansible's, and not read; write its options into ~/.ssh/config, for this host: "
                "-J HOST is ProxyJump HOST, -o NAME=VALUE is NAME VALUE"
            )
        elif name == _CONNECTION and data[name] not in _BY_SSH:
            logins[name] = (
                "is Ansible's, and not read; name the host with its connector in an inventory.py, "
                "as @local or @docker/NAME"
            )
    return logins


def unread(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield a notice for each other datum of Ansible's."""
    for name in data:
        if name.startswith(_PREFIX) and name not in (*_LOGIN, *_OPTIONS, _CONNECTION):
            why = f"; {_NOT_NEEDED[name]}" if name in _NOT_NEEDED else ""
            yield f"host data {name}: is Ansible's, and not read{why}"
