"""Content of an inventory that names no host: pyinfra takes its lists for groups, and ignores the rest."""

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pyinfra.api import Inventory
from pyinfra_cli.exceptions import CliError  # type: ignore[import-untyped]

from numaforge.lib import ansible
from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.lib.given import read_text
from numaforge.lib.mistakes import shown

EXAMPLE = 'write nodes = ["gpu-01", "gpu-02"]'
_MOST_MIB = 4
_CLOSE = 0.8
_passed_over: list[str] = []
no_host: list[str] = []
"""Why the inventory that was read names no host; `pyinfra_cli`, also a program, may be loaded twice."""
group_data_notices: list[str] = []
"""Notices about the inventory's group data."""


class InventoryError(CliError):  # type: ignore[misc]
    """An inventory that no run can be for; pyinfra prints it and exits with the code of bad input."""

    exit_code = ExitCode.BAD_INPUT


def of_ansible(inventory: str, override_data: Mapping[str, Any] | None, cwd: str | None) -> Inventory:
    """Read an inventory of Ansible, whose variables are the hosts' data."""
    try:
        read = ansible.read_inventory(inventory)
    except NumaforgeError as error:
        refused = InventoryError(str(error))
        raise refused from error
    groups: dict[str, Any] = {name: (hosts, {}) for name, hosts in read.groups.items()}
    made = Inventory(([*read.hosts.items()], {}), override_data=dict(override_data or {}), **groups)  # type: ignore[no-untyped-call]
    folders = dict.fromkeys(Path(folder).resolve() for folder in (cwd, Path(inventory).parent) if folder)
    group_data_notices[:] = [
        f"{_relative(file)}: not read with an inventory of Ansible; write its data into group_vars"
        for folder in folders
        for file in sorted(folder.glob("group_data/*.py"))
    ]
    return made


def refuse_no_text(inventory: str) -> None:
    """Refuse a file that is not text, or is too large; a pipe is read once."""
    file = Path(inventory)
    if file.exists() and not file.is_dir() and not file.is_fifo():
        try:
            read_text(file, most_mib=_MOST_MIB)
        except NumaforgeError as error:
            raise InventoryError(str(error)) from error


def why_no_host(inventory: str) -> str:
    """Return why the last inventory names no host."""
    if not Path(inventory).exists():
        from numaforge.machine.topology.saved import NO_HOST, ready_machines

        if inventory in ready_machines():
            return f"{inventory} {NO_HOST}; name an inventory or a host"
        return f"{inventory} is neither a file nor a name that resolves; name a file, a folder or a host"
    if ansible.is_inventory(Path(inventory)):
        return f"{inventory} names no host: ansible-inventory -i {inventory} --list shows what it has"
    return f"{inventory} names no host: {'; '.join(_passed_over) or 'it has no list'}; {EXAMPLE}"


def passed_over_group_data(inventory: str, cwd: str | None, made: Inventory) -> Iterator[str]:
    """Yield notices on files in the folders `group_data` that no host gets: pyinfra reads only Python there.

    A group without hosts may be another inventory's: it is reported if it resembles one without a file.
    """
    folders = {Path(folder).resolve() / "group_data" for folder in (cwd, Path(inventory).parent) if folder}
    files = [file for folder in sorted(folders) if folder.is_dir() for file in sorted(folder.iterdir())]
    groups_without_data = [
        group for group, hosts in made.groups.items() if hosts and not made.group_data.get(group)
    ]
    if not made.data:
        groups_without_data.append("all")
    for file in files:
        if file.suffix in ansible.SUFFIXES:
            yield f"{_relative(file)}: pyinfra reads group_data/*.py alone; write {file.stem}.py"
        elif file.suffix == ".py" and (suggestion := _misspelt(file.stem, made, groups_without_data)):
            yield f"{_relative(file)}: no host is in a group of that name; did you mean {suggestion}.py?"


def _misspelt(group: str, inventory: Inventory, groups_without_data: list[str]) -> str:
    if group == "all" or inventory.groups.get(group):
        return ""
    return next(iter(get_close_matches(group.lower(), groups_without_data, n=1, cutoff=_CLOSE)), "")


def _relative(file: Path) -> str:
    return str(file.relative_to(Path.cwd())) if file.is_relative_to(Path.cwd()) else str(file)


def noticing(is_group: Callable[[str, Any], bool]) -> Callable[[str, Any], bool]:
    """Wrap `is_group`: remember ignored names, and refuse odd hosts."""

    def notice(key: str, value: Any) -> bool:
        if isinstance(value, list | tuple | str | dict | set) and not key.startswith("__"):
            if not key.startswith("_") and (mistake := _odd_host(value)):
                raise InventoryError(f"{key}: {mistake}")
            if reason := _reason(key, value):
                _passed_over.append(f"{key} {reason}")
        return value != () and is_group(key, value)

    return notice


def _reason(name: str, value: object) -> str | None:
    if name.startswith("_"):
        return "begins with an underscore, so it is not a group" if isinstance(value, list | tuple) else None
    if isinstance(value, str):
        return f"is the text {shown(value)}, and no list"
    if not isinstance(value, list | tuple):
        return f"is {shown(value)}, and no list"
    if not value:
        return "is empty"
    odd = [entry for entry in value if not isinstance(entry, str | tuple)] if isinstance(value, list) else []
    return f"holds {shown(odd[0])}, which is not a host name" if odd else None


def _odd_host(value: object) -> str | None:
    """Return what pyinfra would read letter by letter, take the last of, or end with a traceback for."""
    if isinstance(value, tuple) and value:
        if len(value) != 2 or not isinstance(value[0], list) or not isinstance(value[1], dict):
            return (
                f"{shown(value)} is neither a list nor a pair of a list and its data; "
                'write ["gpu-01", "gpu-02"]'
            )
        value = value[0]
    data: dict[str, object] = {}
    for entry in value if isinstance(value, list) else ():
        if isinstance(entry, tuple) and not (
            len(entry) == 2 and isinstance(entry[0], str) and isinstance(entry[1], dict)
        ):
            return (
                f'{shown(entry)} is not a pair of a name and its data; write ("gpu-01", {{"ssh_port": 22}})'
            )
        name, its = entry if isinstance(entry, tuple) else (entry, {})
        if name == "":
            return "holds '', which is not a host name"
        if odd := [key for key in its if not isinstance(key, str)]:
            return f'{name} has data by {shown(odd[0])}, not a key; write ("gpu-01", {{"ssh_port": 22}})'
        if isinstance(name, str) and data.setdefault(name, its) != its:
            return f"names {name} twice, with other data"
    return None
