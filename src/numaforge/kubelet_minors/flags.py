"""The kubelet's command line: which flags exist, how they parse, and how they override the configuration.

Sources: cmd/kubelet/app/options/options.go and globalflags.go, k8s.io/component-base/cli/flag,
pkg/util/flag, and github.com/spf13/pflag for the errors.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, NamedTuple

from numaforge.kubelet_minors.tables import FLAGS, LIBRARY_FLAGS, state_at
from numaforge.kubelet_minors.values.cpusets import CpuSetError, atoi
from numaforge.kubelet_minors.values.durations import DurationError, parse_duration
from numaforge.kubelet_minors.values.gocsv import read_record
from numaforge.kubelet_minors.values.gotext import quoted
from numaforge.kubelet_minors.values.labels import label_value_complaints, qualified_name_complaints
from numaforge.kubelet_minors.values.numbers import parse_bool, parse_int, parse_uint
from numaforge.kubelet_minors.values.pages import in_pages
from numaforge.kubelet_minors.versions import LATEST_MINOR, KubeletVersion
from numaforge.lib.kubelet_paths import KUBECONFIG
from numaforge.lib.quantity import Quantity, QuantityError

_SHORTHANDS = "hv"
_TAINT_EFFECTS = frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"})
_LEADING_ZEROS = re.compile(r"(?<![0-9a-fA-F])0+(?=[0-9]+(?:\.|$))")


class FlagError(ValueError):
    """The command line cannot be parsed; the message is the kubelet's, `flag` the argument at fault."""

    def __init__(self, message: str, flag: str) -> None:
        super().__init__(message)
        self.flag = flag


class FlagValueError(FlagError):
    """A flag that is known has a value that it cannot have."""


@dataclass
class Flags:
    """A parsed command line: configuration fields by dotted name, and the other flags by name.

    `names` maps a field to the flag that set it; feature gates have one entry each: `featureGates.NodeSwap`.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    outside_config: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    @property
    def gates(self) -> Mapping[str, bool]:
        """Feature gates given as flags."""
        gates: Mapping[str, bool] = self.settings.get("featureGates", {})
        return gates


def parse_flags(arguments: Sequence[str], version: KubeletVersion) -> Flags:
    """Parse the arguments after the program's name.

    Raises FlagError with the kubelet's message.
    """
    flags = Flags()
    commands = []
    for flag in _arguments(arguments, version.rules_minor):
        if flag.name is None:
            commands.append(flag.argument)
        elif flag.kind is None:
            raise FlagError(_unknown(flag), flag.argument)
        elif flag.value is None:
            raise FlagError(
                f"failed to parse kubelet flag: flag needs an argument: {_needs(flag)}", flag.argument
            )
        else:
            _set(flags, flag.name, flag.kind, flag.target, flag.value)
    if commands:
        raise FlagError(f"unknown command {commands[0]}", commands[0])
    return flags


def flag_value(arguments: Sequence[str], name: str) -> str | None:
    """Return the last value that a command line gives a flag, None for no value or an empty one.

    A command line that the kubelet rejects is read up to the error.
    """
    value = None
    with suppress(FlagError):
        for flag in _arguments(arguments, LATEST_MINOR):
            if flag.name == name:
                value = flag.value
    return value or None


class _Argument(NamedTuple):
    """An argument: a flag as `written` and by `name`, or a word that is not a flag (`name` is None).

    `kind` is how the value parses, None for an unknown flag; `target` is the field that it sets. `value` is
    None where the flag's value is missing.
    """

    argument: str
    written: str = ""
    name: str | None = None
    kind: str | None = None
    target: str = ""
    value: str | None = None


def _arguments(arguments: Sequence[str], minor: int) -> Iterator[_Argument]:
    """Yield the flags and other words of a command line, as pflag splits it.

    Raises FlagError for `---` and `--=`.
    """
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            yield from map(_Argument, rest)
            return
        if not argument.startswith("-") or argument == "-":
            yield _Argument(argument)
            continue
        if argument.startswith(("---", "--=")):
            raise FlagError(f"failed to parse kubelet flag: bad flag syntax: {argument}", argument)
        if not argument.startswith("--"):
            yield from _shorthands(argument, rest, minor)
            continue
        written, separator, text = argument.removeprefix("--").partition("=")
        name = written.replace("_", "-")
        kind, target = _meaning(name, minor)
        value: str | None = text
        if not separator and kind == "bool":
            value = "true"
        elif not separator and kind is not None:
            value = rest.pop(0) if rest else None
        yield _Argument(argument, written, name, kind, target, value)


def override(config: Mapping[str, Any], flags: Flags) -> dict[str, Any]:
    """Return the configuration overridden by the flags; feature gates merge, other fields are replaced."""
    overridden = dict(config)
    for dotted, value in flags.settings.items():
        if dotted == "featureGates":
            value = {**(config.get("featureGates") or {}), **value}
        *parents, name = dotted.split(".")
        holder = overridden
        for parent in parents:
            holder[parent] = dict(holder.get(parent) or {})
            holder = holder[parent]
        holder[name] = value
    return overridden


def _shorthands(argument: str, rest: list[str], minor: int) -> Iterator[_Argument]:
    """Split `-v4`, `-v=4`, `-hv4` into letters; the last one may have a value."""
    letters = argument[1:]
    while letters:
        written, letters = f"-{letters}", letters[1:]
        name = written[1]
        kind, target = _meaning(name, minor) if name in _SHORTHANDS else (None, "")
        if kind is not None and letters[:1] == "=" and len(letters) > 1:
            value: str | None = letters[1:]
        elif kind == "bool":
            yield _Argument(written, name, name, kind, target, "true")
            continue
        else:
            value = letters or (rest.pop(0) if rest and kind else None)
        yield _Argument(written, name, name, kind, target, value)
        return


def _meaning(name: str, minor: int) -> tuple[str | None, str]:
    """Return how a flag's value parses, None for an unknown flag, and the field that it sets."""
    history = LIBRARY_FLAGS.get(name) or FLAGS.get(name)
    kind, _, target = ((history and state_at(history, minor)) or "").partition(" ")
    return kind or None, target


def flag_called(name: str, minor: int) -> tuple[str, str] | None:
    """Return the flag that a field's name spells (`reservedCpus`), and the field that it sets, or ""."""
    spelt = name.replace("-", "").lower()
    flag = next((flag for flag in FLAGS if flag.replace("-", "") == spelt), "")
    kind, field_set = _meaning(flag, minor)
    return (f"--{flag}", field_set) if kind else None


def _unknown(flag: _Argument) -> str:
    if flag.argument.startswith("--"):
        return f"failed to parse kubelet flag: unknown flag: --{flag.written}"
    return f"failed to parse kubelet flag: unknown shorthand flag: '{flag.written[:1]}' in {flag.argument}"


def _needs(flag: _Argument) -> str:
    return f"--{flag.written}" if flag.argument.startswith("--") else f"'{flag.written}' in {flag.argument}"


def _set(flags: Flags, name: str, kind: str, target: str, value: str) -> None:
    if kind in ("reserved-memory", "ip") and not value:
        # An empty value keeps the file's.
        return
    previous = flags.settings.get(target) if target else flags.outside_config.get(name)
    try:
        parsed = _PARSERS[kind](value, previous)
    except (ValueError, CpuSetError) as error:
        shown = "-v, --v" if name == "v" else f"--{name}"
        raise FlagValueError(
            f"failed to parse kubelet flag: invalid argument {quoted(value)} for {quoted(shown)} flag: "
            f"{error}",
            f"--{name}",
        ) from error
    if not target:
        flags.outside_config[name] = parsed
        return
    flags.settings[target] = parsed
    targets = [f"{target}.{gate}" for gate in parsed] if target == "featureGates" else [target]
    flags.names.update(dict.fromkeys(targets, f"--{name}"))


def _library_duration(value: str, _previous: Any) -> str:
    # cAdvisor's flags use Go's own flag package, whose error gives no reason.
    try:
        return str(parse_duration(value))
    except DurationError as error:
        raise ValueError("parse error") from error


def _list(value: str, previous: Any) -> list[str]:
    # pflag reads lists as CSV, so that quotes protect a comma.
    return [*(previous or []), *(read_record(value) if value else [])]


def _pairs(parts: Iterable[str], separator: str, expected: str | None) -> Iterator[tuple[str, str]]:
    """Yield keys and values. Raises ValueError for a part without the separator, where a form is expected."""
    for part in filter(None, parts):
        key, separated, value = part.partition(separator)
        if expected and not separated:
            raise ValueError(f"malformed pair, expect {expected}")
        yield key.strip(), value.strip()


def _pair(value: str, previous: Any) -> dict[str, str]:
    if "=" not in value:
        raise ValueError("malformed pair, expect string=string")
    return {**(previous or {}), **dict(_pairs([value], "=", None))}


def _key_values(value: str, separator: str, expected: str | None, previous: Any) -> dict[str, str]:
    return {**(previous or {}), **dict(_pairs(value.split(","), separator, expected))}


def _headers(value: str, previous: Any) -> dict[str, list[str]]:
    headers = dict(previous or {})
    for key, header in _pairs(value.split(","), ":", "string:string"):
        headers[key] = [*headers.get(key, []), header]
    return headers


def _gates(value: str, previous: Any) -> dict[str, bool]:
    gates = dict(previous or {})
    for name, text in _pairs(value.split(","), "=", "string=bool"):
        try:
            gates[name] = parse_bool(text)
        except ValueError as error:
            raise ValueError(f"invalid value of {name}: {text}, err: {error}") from error
    return gates


def _modules(value: str, previous: Any) -> list[dict[str, Any]]:
    modules = list(previous or [])
    for part in filter(None, value.split(",")):
        pattern, _, verbosity = part.partition("=")
        if not pattern or not verbosity or "=" in verbosity:
            raise ValueError(f"{quoted(part)} does not have the pattern=N format")
        try:
            modules.append({"filePattern": pattern, "verbosity": parse_uint(verbosity, 10, 31)})
        except ValueError as error:
            raise ValueError(f"parsing verbosity in {quoted(part)}: {error}") from error
    return modules


def _ip(value: str, _previous: Any) -> str:
    """Parse an address as ParseIPSloppy of k8s.io/utils/net does: leading zeros allowed, no zone."""
    plain = _LEADING_ZEROS.sub("", value) if "." in value else value
    try:
        is_ip = "%" not in value and value.isascii() and bool(ip_address(plain))
    except ValueError:
        is_ip = False
    if value and not is_ip:
        raise ValueError(f'"{value}" is not a valid IP address')
    return value


def _reserved_memory(value: str, previous: Any) -> list[dict[str, Any]]:
    reservations = list(previous or [])
    for reservation in value.split(";") if value else []:
        node, colon, limits = reservation.partition(":")
        if not colon or ":" in limits:
            raise ValueError(
                "the reserved memory has incorrect format, expected "
                f"numaNodeID:type=quantity[,type=quantity...], got {reservation}"
            )
        try:
            numa_node = atoi(node)
        except CpuSetError as error:
            text = f"failed to convert the NUMA node ID, expected integer, got {node}"
            raise ValueError(text) from error
        reservations.append({"numaNode": numa_node, "limits": _limits(limits)})
    return reservations


def _limits(text: str) -> dict[str, str]:
    limits = {}
    for limit in text.split(","):
        parts = limit.split("=")
        if len(parts) != 2:
            raise ValueError(f"the reserved limit has incorrect value, expected type=quantity, got {limit}")
        name, quantity = parts
        if name != "memory" and not in_pages(name):
            raise ValueError(f'memory type conversion error, unknown type: "{name}"')
        try:
            Quantity.parse(quantity)
        except QuantityError as error:
            raise ValueError(f"failed to parse the quantity: {quantity}") from error
        limits[name] = quantity
    return limits


def _taints(value: str, _previous: Any) -> list[dict[str, str]]:
    taints: list[dict[str, str]] = []
    for part in value.split(",") if value else []:
        taint = _taint(part.removesuffix("-"))
        if part.endswith("-"):
            # A trailing `-` removes a taint in kubectl; here it has no effect.
            continue
        if not taint["effect"]:
            raise ValueError(f"invalid taint spec: {part}")
        if any((earlier["key"], earlier["effect"]) == (taint["key"], taint["effect"]) for earlier in taints):
            shown = " ".join((taint["key"], taint["value"], taint["effect"]))
            raise ValueError(f"duplicated taints with the same key and effect: {{{shown} <nil>}}")
        taints.append(taint)
    return taints


def _taint(text: str) -> dict[str, str]:
    """Parse `key=value:effect`, `key:effect` or `key`, as parseTaint in pkg/util/taints does."""
    key_value, colon, effect = text.partition(":")
    if ":" in effect:
        raise ValueError(f"invalid taint spec: {text}")
    if colon and effect not in _TAINT_EFFECTS:
        raise ValueError(f"invalid taint effect: {effect}, unsupported taint effect")
    key, _, value = key_value.partition("=") if colon else (key_value, "", "")
    if "=" in value:
        raise ValueError(f"invalid taint spec: {text}")
    complaints = label_value_complaints(value) or qualified_name_complaints(key)
    if complaints:
        raise ValueError(f"invalid taint spec: {text}, {'; '.join(complaints)}")
    return {"key": key, "value": value, "effect": effect}


# Parsers by kind: of the value, and the same flag's earlier value, which repeatable flags extend.
_PARSERS: Mapping[str, Callable[[str, Any], Any]] = {
    "string": lambda value, _: value,
    "bool": lambda value, _: parse_bool(value),
    "int32": lambda value, _: parse_int(value, bits=32),
    "uint32": lambda value, _: parse_uint(value, 10, 31),
    "int64": lambda value, _: parse_int(value, bits=64),
    "duration": lambda value, _: str(parse_duration(value)),
    "quantity": lambda value, _: str(Quantity.parse(value)),
    "library-duration": _library_duration,
    "list": _list,
    "pairs": lambda value, before: _key_values(value, "=", "string=string", before),
    "pair": _pair,
    "less-than": lambda value, before: _key_values(value, "<", "string<string", before),
    "gates": _gates,
    "headers": _headers,
    "labels": lambda value, before: _key_values(value, "=", None, before),
    "ip": _ip,
    "modules": _modules,
    "reserved-memory": _reserved_memory,
    "taints": _taints,
}


def registered_name(flags: Sequence[str], hostname: str | None) -> str:
    """Return the name under which a kubelet registers: --hostname-override, else the hostname."""
    return (flag_value(flags, "hostname-override") or hostname or "").lower()


def kubeconfig_path(flags: Sequence[str]) -> str:
    """Return the file of a kubelet's login; it exists once the kubelet has joined a cluster."""
    return flag_value(flags, "kubeconfig") or KUBECONFIG
