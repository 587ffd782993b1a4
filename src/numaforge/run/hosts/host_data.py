"""Host data in an inventory: a table of every datum, checked before any host is asked."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints
from weakref import WeakKeyDictionary

from pyinfra.api import Host, State
from pyinfra.api.arguments import AllArguments, all_argument_meta, auth_argument_meta

from numaforge.lib import ansible
from numaforge.lib.errors import HostError, NumaforgeError
from numaforge.report.hostnames import in_short, is_host_name
from numaforge.run.hosts.failures import print_error, say_error, tell_refused
from numaforge.run.hosts.patches import fail_alone, stay_away
from numaforge.run.hosts.processes import hosts_of
from numaforge.ssh import without_openssh

OURS = "numaforge_"
"""The prefix of data that only numaforge reads: any such name that is not in the table is a mistake."""


class Datum(NamedTuple):
    """One key of host data, a row of host_data.json.

    `is_accepted` checks a value against what `accepted` describes; it may raise NumaforgeError with details.
    `default` applies where the inventory sets no value. `neutral` is passed to pyinfra for a refused host, so
    that it can continue with the others.
    """

    name: str
    accepted: str
    meaning: str
    is_accepted: Callable[[Any], bool]
    default: object
    neutral: object


def _is_whole_number(least: int, most: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_file(value: object) -> bool:
    return isinstance(value, str) and Path(value).expanduser().is_file()


def _is_rollout(value: object) -> bool:
    from numaforge.rollout.options import read_options  # once a host has them

    return isinstance(value, Mapping) and read_options(value) is not None


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "text": _is_text,
    "truth": lambda value: isinstance(value, bool),
    "mapping": lambda value: isinstance(value, Mapping),
    "file": _is_file,
    "image": lambda value: isinstance(value, Mapping) or _is_file(value),
    "profile": lambda value: _is_text(value) or (isinstance(value, (Path, Mapping)) and bool(value)),
    "rollout": _is_rollout,
    "seconds": lambda value: type(value) in (int, float) and 0 <= value <= 3600,
}


def _datum(row: Mapping[str, Any]) -> Datum:
    """Return the datum of a row, whose values are of a `kind`, in a `range` or one of `choices`."""
    match row:
        case {"range": [least, most]}:
            accepted, is_accepted = f"a whole number from {least} to {most}", _is_whole_number(least, most)
        case {"choices": [*most, last]}:
            accepted, is_accepted = f"{', '.join(most)} or {last}", row["choices"].__contains__
        case _:
            accepted, is_accepted = row["accepted"], _KINDS[row["kind"]]
    return Datum(row["name"], accepted, row["meaning"], is_accepted, row.get("default"), row.get("neutral"))


TABLE = tuple(map(_datum, json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))))
_BY_NAME = {datum.name: datum for datum in TABLE}
_IN_A_RUN = ("numaforge_topology", "numaforge_plan")  # kept by the role topology
_SHOWN = 60
_CLOSE = 0.87  # admins have their own data, such as hostname, which is not a misspelt ssh_hostname
_MANY = (list, tuple, set)
_NO = ("no", "false", "off", "0", "n", "f", "never")
_refused: WeakKeyDictionary[Host, HostError] = WeakKeyDictionary()


def datum(host: Host, name: str) -> Any:
    """Return a host's datum, or its default; raises HostError for a value that is not accepted."""
    value = host.data.get(name)
    if value is None:
        return _BY_NAME[name].default
    if mistakes := mistakes_in({name: value}):
        raise _error(mistakes)
    return value


def mistakes_in(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the mistakes in a host's data, by key; None counts as unset."""
    mistakes = {name: _mistake(_BY_NAME[name], value) for name, value in data.items() if name in _BY_NAME}
    known_names = (*_BY_NAME, *_IN_A_RUN)
    unknown = [name for name in data if name.startswith(OURS) and name not in known_names]
    mistakes |= {name: _not_read(name, known_names, OURS) for name in unknown}
    mistakes |= ansible.lost_logins(data)
    return {name: message for name, message in mistakes.items() if message}


def not_known(name: str) -> str:
    """Return that a datum of SSH, or Ansible's, is not read, and what may be meant; "" for any other."""
    if lost := ansible.lost_logins({name: True}).get(name):
        return lost
    if not name.startswith("ssh_") or name in _BY_NAME:
        return ""
    return _not_read(name, [datum for datum in _BY_NAME if datum.startswith("ssh_")], "ssh_")


def _not_read(name: str, known_names: Sequence[str], prefix: str) -> str:
    if close := get_close_matches(name, known_names, n=1):
        return f"is not read; did you mean {close[0]}?"
    return f"is not read; known are {', '.join(datum for datum in _BY_NAME if datum.startswith(prefix))}"


def notices(hosts: Iterable[Host]) -> list[str]:
    """Return a notice for each accepted oddity of an inventory, with its hosts.

    These are misspelt data and Ansible's, which pyinfra ignores; a word such as "no" for one of pyinfra's
    switches, which turns it on; and names of one address: the node accepts the maintenance of one of them,
    and the other fails.
    """
    hosts = [*hosts]
    hosts_of: dict[str, list[str]] = {}
    for host in hosts:
        data = host.data.dict()  # type: ignore[no-untyped-call]
        of_connector = tuple(host.connector_cls.data_meta)
        for sentence in (*_unread(data, of_connector), *ansible.unread(data), *_turned_on(data)):
            hosts_of.setdefault(sentence, []).append(host.name)
        if (why := without_openssh()) and "ssh_port" in host.connector_cls.data_meta:
            sentence = f"{why}: ssh_config is read without Include, Match and ProxyJump"
            hosts_of.setdefault(sentence, []).append(host.name)
    grouped = [*sorted(hosts_of.items()), *_at_one_address(hosts).items()]
    if not grouped:
        return []
    return [f"{in_short(names)}: {sentence}" for sentence, names in grouped]


def _unread(data: Mapping[str, Any], of_connector: tuple[str, ...]) -> Iterator[str]:
    for name in data.keys() - _read(of_connector):
        if name.startswith(OURS):
            continue  # it is refused
        if isinstance(data[name], _MANY) and not name.startswith("_"):
            continue  # the admin's own: no such datum is read
        if suggestion := _suggestion(name, of_connector) or _without_prefix(name, data):
            yield f"host data {name}: neither numaforge nor pyinfra reads it; did you mean {suggestion}?"


def _turned_on(data: Mapping[str, Any]) -> Iterator[str]:
    for name in data.keys() & all_argument_meta.keys():
        value = data[name]
        if isinstance(value, str) and value.strip().lower() in _NO and name in _switches():
            yield f"host data {name}: the text {value!r} turns it on, as any word does; write False"


@cache
def _switches() -> frozenset[str]:
    return frozenset(name for name, kind in get_type_hints(AllArguments).items() if kind is bool)


def _at_one_address(hosts: Iterable[Host]) -> dict[str, list[str]]:
    hosts_of: dict[tuple[object, ...], list[str]] = {}
    for host in hosts:
        if "ssh_port" in host.connector_cls.data_meta:
            data = (host.data.get(key) for key in ("ssh_port", "ssh_config_file"))
            hosts_of.setdefault((host.data.get("ssh_hostname") or host.name, *data), []).append(host.name)
    return {
        f"all have the address {address}: name a host once": names
        for (address, *_), names in hosts_of.items()
        if len(names) > 1
    }


@cache
def _read(of_connector: tuple[str, ...]) -> frozenset[str]:
    return frozenset((*_BY_NAME, *_IN_A_RUN, *all_argument_meta, *of_connector))


@cache
def _suggestion(name: str, of_connector: tuple[str, ...]) -> str:
    """Return the datum that a name misspells or begins, "" for none, as an admin's own `env` or `port`."""
    arguments = all_argument_meta if name.startswith("_") else auth_argument_meta  # `sudo` for `_sudo`
    known_names = [*arguments] if name.startswith("_") else [*_BY_NAME, *of_connector, *arguments]
    known_names = [known_name for known_name in known_names if "_" in known_name]
    if close := get_close_matches(name, known_names, n=1, cutoff=_CLOSE):
        return close[0]
    return next(
        (known_name for known_name in known_names if "_" in name.strip("_") and known_name.startswith(name)),
        "",
    )


def _without_prefix(name: str, data: Mapping[str, Any]) -> str:
    """Return our datum of a name without its prefix, if it accepts the value, and not just any text."""
    by_suffix = {datum.name.removeprefix(OURS): datum for datum in TABLE if datum.name.startswith(OURS)}
    close = get_close_matches(name, by_suffix, n=1, cutoff=_CLOSE)
    near = by_suffix[close[0]] if close else None
    if near is None or near.name in data or near.is_accepted is _is_text or _mistake(near, data[name]):
        return ""
    return near.name


def set_aside(hosts: Iterable[Host]) -> None:
    """Set hosts with invalid data aside: pyinfra reads all data first, and would end the run for all."""
    for host in hosts:
        data = host.data.dict()  # type: ignore[no-untyped-call]
        mistakes = {**mistakes_in(data), **_nothing_for_pyinfra(host, data)}
        if mistakes:
            _refused[host] = _error(mistakes)
        elif odd := _odd_name(host):
            _refused[host] = HostError(odd)
        for name in mistakes:
            if name in _BY_NAME and name.startswith("ssh_"):
                setattr(host.data, name, _BY_NAME[name].neutral)


def _nothing_for_pyinfra(host: Host, data: Mapping[str, Any]) -> dict[str, str]:
    """Return the connector's data that are None, by key: pyinfra refuses None."""
    return {
        name: f"None is not accepted; leave it out, or write {_BY_NAME[name].accepted}"
        for name in host.connector_cls.data_meta
        if name in _BY_NAME and name in data and data[name] is None
    }


def _odd_name(host: Host) -> str:
    """Return that SSH finds no host by a name, and what to write for `root@gpu-1:22`; "" for other names."""
    of_ssh = "ssh_port" in host.connector_cls.data_meta
    if not of_ssh or host.data.get("ssh_hostname") or is_host_name(host.name):
        return ""
    user, _, rest = host.name.rpartition("@")
    name, _, port = rest.partition(":")
    login = {"ssh_user": user or None, "ssh_port": int(port) if port.isascii() and port.isdigit() else None}
    data = {key: value for key, value in login.items() if value is not None}
    if data and is_host_name(name):
        return f"is not a host name; write ({json.dumps(name)}, {json.dumps(data)})"
    return (
        "is not a host name; write a name, an address or an alias of ~/.ssh/config, or give it ssh_hostname"
    )


def say_refused(state: State) -> None:
    """Print why each host was set aside, in a run that connects to none."""
    for host in hosts_of(state):
        if host in _refused:
            tell_refused(host, _refused[host])
            say_error(host, _refused[host])


def refuse(state: State) -> None:
    """Print why each host was set aside, and connect to none of them; let the others fail alone."""
    for host in hosts_of(state):
        if host in _refused:
            print_error(host, _refused[host])
            stay_away(host)
        else:
            fail_alone(host)


def _mistake(datum: Datum, value: object) -> str:
    if value is None:
        return ""
    try:
        good = datum.is_accepted(value)
    except NumaforgeError as error:
        return str(error)
    shown = f"{value!r}"
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN]}..."
    return "" if good else f"{shown} is not accepted; write {datum.accepted}"


def _error(mistakes: Mapping[str, str]) -> HostError:
    return HostError("\n".join(f"host data {name}: {message}" for name, message in mistakes.items()))
