"""Host data in an inventory: a table of every datum, checked before any host is asked."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from numaforge.rollout.names import ANSWER_SECONDS, PLACE, RETRY_FAILED
from numaforge.rollout.same_machine import PIN
from numaforge.run.hosts.failures import print_error, say_error, tell_refused
from numaforge.run.hosts.overview import DIFF, REPORT
from numaforge.run.hosts.patches import fail_alone, stay_away
from numaforge.run.hosts.processes import hosts_of
from numaforge.ssh import without_openssh

OURS = "numaforge_"
"""The prefix of data that only numaforge reads: any such name that is not in the table is a mistake."""


class Datum(NamedTuple):
    """One key of host data.

    `is_accepted` checks a value against what `accepted` describes; it may raise NumaforgeError with details.
    `default` applies where the inventory sets no value. `neutral` is passed to pyinfra for a refused host, so
    that it can continue with the others.
    """

    name: str
    accepted: str
    meaning: str
    is_accepted: Callable[[Any], bool]
    default: object = None
    neutral: object = None


def _is_whole_number(least: int, most: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _seconds(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= 3600  # type: ignore[operator]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _truth(value: object) -> bool:
    return isinstance(value, bool)


def _mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _file(value: object) -> bool:
    return isinstance(value, str) and Path(value).expanduser().is_file()


def _rollout(value: object) -> bool:
    from numaforge.rollout.options import read_options  # once a host has them

    return _mapping(value) and read_options(value) is not None  # type: ignore[arg-type]


def _profile(value: object) -> bool:
    return _is_text(value) or (isinstance(value, (Path, Mapping)) and bool(value))


TABLE = (
    Datum(
        "numaforge_profile",
        "the name of a ready profile, the path of a YAML file, or a mapping",
        "The host's profile. Every deploy needs it.",
        _profile,
    ),
    Datum(
        PLACE,
        "a mapping of the settings of docs/rollout.md",
        "How a cluster's node is taken out of service.",
        _rollout,
    ),
    Datum(
        PIN,
        "the name of a Node, or its provider ID",
        "The Node that the host is, where its address does not show it: docs/rollout.md.",
        _is_text,
    ),
    Datum(f"{PLACE}_options", "a mapping", "The same, as set by `numaforge rollout`.", _rollout),
    Datum(
        f"{PLACE}_run", "a mapping", "The role of a run in a roll-out; set by `numaforge rollout`.", _mapping
    ),
    Datum(
        "numaforge_measure",
        "a mapping",
        "What is measured, or kept of it; set by `numaforge measure`.",
        _mapping,
        default={},
    ),
    Datum(
        "numaforge_image",
        "a mapping, or the YAML file of one",
        "What an image contains: deploys/bake.py, docs/image.md.",
        lambda value: _mapping(value) or _file(value),
    ),
    Datum(
        "kubelet_start_seconds",
        "a whole number from 1 to 3600",
        "How long one start of the kubelet may take.",
        _is_whole_number(1, 3600),
        default=120,
    ),
    Datum(
        "kubelet_stable_seconds",
        "a whole number from 0 to 3600",
        "How long the kubelet must then stay healthy.",
        _is_whole_number(0, 3600),
        default=10,
    ),
    Datum(
        "numaforge_confirm_seconds",
        "a whole number from 30 to 1800",
        "How long a changed host waits to be reached over a new connection before it rolls back by itself.",
        _is_whole_number(30, 1800),
        default=300,
    ),
    Datum(
        RETRY_FAILED,
        "true or false",
        "Try a plan again that was rolled back on the host; set by `numaforge apply --retry-failed`.",
        _truth,
        default=False,
    ),
    Datum(
        ANSWER_SECONDS,
        "a whole number from 1 to 3600",
        "How long a host may take to report what it is: all hosts of an inventory are asked at once.",
        _is_whole_number(1, 3600),
        default=600,
    ),
    Datum("out", "a folder", "Where `deploys/detect.py` saves its files.", _is_text, default="numaforge-out"),
    Datum(
        DIFF,
        "names of hosts with commas between, or all",
        "Hosts whose changes are shown as diffs.",
        _is_text,
    ),
    Datum(
        REPORT, "a file in a folder that exists", "Where every host's result is written as JSON.", _is_text
    ),
    Datum(
        "ssh_hostname", "a name or an address", "The host's address. Unset: its name.", _is_text, neutral=""
    ),
    Datum(
        "ssh_port",
        "a whole number from 1 to 65535",
        "The port. Unset: that of ssh_config, or 22.",
        _is_whole_number(1, 65535),
        neutral=0,
    ),
    Datum(
        "ssh_user",
        "a user's name",
        "The user to log in as. Unset: that of ssh_config, or yours.",
        _is_text,
        neutral="",
    ),
    Datum("ssh_password", "text", "The user's password; a key is better.", _is_text, neutral=""),
    Datum(
        "ssh_key",
        "the file of a private key",
        "The key to log in with. Unset: those of ssh_config and of an agent.",
        _file,
        neutral="",
    ),
    Datum(
        "ssh_key_password", "text", "The key's passphrase; an agent asks for it once.", _is_text, neutral=""
    ),
    Datum("ssh_config_file", "a file", "The SSH configuration. Unset: ~/.ssh/config.", _file, neutral=""),
    Datum("ssh_known_hosts_file", "a path", "The file with the keys of hosts.", _is_text, neutral=""),
    Datum(
        "ssh_strict_host_key_checking",
        "yes, no, off, ask or accept-new",
        "What to do with a host whose key is unknown.",
        lambda value: value in ("yes", "no", "off", "ask", "accept-new"),
        neutral="yes",
    ),
    Datum("ssh_allow_agent", "True or False", "Whether to try an agent's keys.", _truth, neutral=False),
    Datum("ssh_look_for_keys", "True or False", "Whether to try the keys in ~/.ssh.", _truth, neutral=False),
    Datum("ssh_forward_agent", "True or False", "Whether the host may use the agent.", _truth, neutral=False),
    Datum(
        "ssh_paramiko_connect_kwargs",
        "a mapping",
        "Further arguments of paramiko's connect.",
        _mapping,
        neutral={},
    ),
    Datum(
        "ssh_connect_retries",
        "a whole number from 0 to 100",
        "How often to retry a connection.",
        _is_whole_number(0, 100),
        default=0,
        neutral=0,
    ),
    Datum(
        "ssh_connect_retry_min_delay",
        "seconds, as 0.1",
        "The shortest pause between retries.",
        _seconds,
        default=0.1,
        neutral=0.1,
    ),
    Datum(
        "ssh_connect_retry_max_delay",
        "seconds, as 0.5",
        "The longest pause between retries.",
        _seconds,
        default=0.5,
        neutral=0.5,
    ),
    Datum(
        "ssh_file_transfer_protocol",
        "sftp or scp",
        "How pyinfra's operations send files.",
        lambda value: value in ("sftp", "scp"),
        default="sftp",
        neutral="sftp",
    ),
)
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
    near = {name: get_close_matches(name, known_names, n=1) for name in unknown}
    mistakes |= {
        name: f"is not read; {f'did you mean {close[0]}?' if close else f'known are {_our_names()}'}"
        for name, close in near.items()
    }
    mistakes |= ansible.lost_logins(data)
    return {name: message for name, message in mistakes.items() if message}


def not_known(name: str) -> str:
    """Return that a datum of SSH, or Ansible's, is not read, and what may be meant; "" for any other."""
    if lost := ansible.lost_logins({name: True}).get(name):
        return lost
    if not name.startswith("ssh_") or name in _BY_NAME:
        return ""
    known_names = [datum for datum in _BY_NAME if datum.startswith("ssh_")]
    close = get_close_matches(name, known_names, n=1)
    return f"is not read; {f'did you mean {close[0]}?' if close else 'known are ' + ', '.join(known_names)}"


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
    """Return pyinfra's boolean arguments."""
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
    """Return the datum whose spelling a name resembles or begins; "" for none.

    A word such as `env` or `port` is an admin's own, and so is an ambiguous name.
    """
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
    """Return our datum of a name without prefix: `profile` for numaforge_profile, where that is not set.

    The datum must accept the value; one that accepts any text is no evidence.
    """
    by_suffix = {datum.name.removeprefix(OURS): datum for datum in TABLE if datum.name.startswith(OURS)}
    close = get_close_matches(name, by_suffix, n=1, cutoff=_CLOSE)
    near = by_suffix[close[0]] if close else None
    if near is None or near.name in data or near.is_accepted is _is_text or _mistake(near, data[name]):
        return ""
    return near.name


def set_aside(hosts: Iterable[Host]) -> None:
    """Remove hosts with invalid data, and let pyinfra continue with the others.

    pyinfra would end the run for all hosts: it reads the data of every host before it connects to any.
    """
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


def _our_names() -> str:
    return ", ".join(name for name in _BY_NAME if name.startswith(OURS))
