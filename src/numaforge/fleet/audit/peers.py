"""Each machine against its siblings: what most of a make have, and which machine differs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from numaforge.fleet.audit.facts import PEER_RULES, PeerRule, text_of
from numaforge.fleet.audit.makes import LEAST_SIBLINGS
from numaforge.fleet.audit.readings import Spread, Values
from numaforge.lib.ordering import first_of, grouped

_COUNTS = frozenset({"NA120", "NA140"})  # numbers of devices; other facts do not repeat them
_COMPLETE = frozenset({"NA131", "NA162"})  # what such a fact does not name is absent
_MOST_PLACES = 4


@dataclass(frozen=True)
class Unusual:
    """A value unlike the `usual` one of `siblings`, of the machine or a `place`; some `devices` deviate."""

    place: str
    value: str
    usual: str
    siblings: int
    devices: tuple[str, ...] = ()

    def __str__(self) -> str:
        of = f"{self.place}: " if self.place else ""
        at = f" ({first_of(self.devices, _MOST_PLACES)})" if self.devices else ""
        return f"{of}{self.value}{at}; {self.siblings} siblings have {self.usual}"


class _Usual(NamedTuple):
    """What most machines of a make have, and the number of these machines."""

    value: str | Spread
    machines: int


def unusual_of(make: Mapping[str, Mapping[str, Values]]) -> dict[str, dict[str, tuple[Unusual, ...]]]:
    """Return each machine's unusual values, by rule; a usual one is that of most of the make, at least 3."""
    unusual_facts: dict[str, dict[str, tuple[Unusual, ...]]] = {}
    for rule in PEER_RULES:
        values_of = {name: facts[rule.id] for name, facts in make.items() if rule.id in facts}
        unusual: dict[str, list[Unusual]] = {}
        for location in dict.fromkeys(location for values in values_of.values() for location in values):
            absent = "none" if rule.id in _COMPLETE else None
            found = {name: values.get(location, absent) for name, values in values_of.items()}
            value_of = {name: value for name, value in found.items() if value is not None}
            usual = _usual(rule, list(value_of.values()))
            if usual is not None:
                for name, value in value_of.items():
                    if difference := _compared(rule, location, value, usual):
                        unusual.setdefault(name, []).append(difference)
        for name, several in unusual.items():
            unusual_facts.setdefault(name, {})[rule.id] = tuple(several)
    return unusual_facts


def _usual(rule: PeerRule, values: Sequence[str | Spread]) -> _Usual | None:
    """Return the value of more than half of the machines, at least three; None without one."""
    texts = grouped((text_of(value), value) for value in values)
    groups: list[tuple[str, list[str | Spread]]] = []
    for text, alike in sorted(texts.items(), key=lambda each: -len(each[1])):
        group = next((members for first, members in groups if rule.alike(text, first)), None)
        if group is None:
            groups.append((text, [*alike]))
        else:
            group += alike
    _, largest = max(groups, key=lambda group: len(group[1]), default=("", []))
    usual = len(largest) >= LEAST_SIBLINGS and len(largest) * 2 > len(values)
    return _Usual(largest[0], len(largest)) if usual else None


def _compared(rule: PeerRule, location: str, value: str | Spread, usual: _Usual) -> Unusual | None:
    text, common = text_of(value), text_of(usual.value)
    if rule.alike(text, common):
        return None
    devices: tuple[str, ...] = ()
    if not isinstance(value, str) and not isinstance(usual.value, str):
        devices = tuple(_to_blame(value, usual.value))
        fewer_or_more = sum(map(len, value.values())) != sum(map(len, usual.value.values()))
        if fewer_or_more and rule.id not in _COUNTS and value.keys() <= usual.value.keys():
            return None
    return Unusual(location, text, common, usual.machines, devices)


def _to_blame(value: Spread, usual: Spread) -> Iterator[str]:
    """Yield the devices whose value is rarer among siblings; none where all devices are equal."""
    if len(value) == 1:
        return
    for text, places in value.items():
        if len(places) > len(usual.get(text, ())):
            yield from places
