"""One question to both sides, and how it is made smaller while they still disagree."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from tests.oracle.machines import KINDS, Shape, described

API = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
_ROUNDS = 40

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A configuration and, for a start, a machine with devices and pods.

    `settings` is written as YAML; `tail` is text behind it.
    """

    settings: Settings
    tail: str = ""
    drop_ins: Mapping[str, Settings] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    state: Mapping[str, str] = field(default_factory=dict)
    machine: Shape | None = None
    devices: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    operations: tuple[Mapping[str, Any], ...] = ()

    @property
    def text(self) -> str:
        return _yaml(self.settings) + self.tail

    @property
    def drop_in_texts(self) -> dict[str, str]:
        return {name: _yaml(settings) for name, settings in self.drop_ins.items()}

    def question(self) -> dict[str, Any]:
        """Return the case in the oracle's form."""
        return {
            "config": self.text,
            "drop_ins": self.drop_in_texts,
            "flags": self.flags,
            "state": self.state,
            "machine": described(self.machine) if self.machine else None,
            "devices": self.devices,
            "operations": self.operations,
        }

    def smaller(self) -> Iterator[Case]:
        """Yield the cases that lack one part of this one."""
        for settings in _with_less(self.settings):
            yield replace(self, settings=settings)
        for name, settings in self.drop_ins.items():
            others = {other: kept for other, kept in self.drop_ins.items() if other != name}
            yield replace(self, drop_ins=others)
            for less in _with_less(settings):
                yield replace(self, drop_ins={**self.drop_ins, name: less})
        for place in range(len(self.flags)):
            yield replace(self, flags=self.flags[:place] + self.flags[place + 1 :])
        for name in self.state:
            yield replace(self, state={other: text for other, text in self.state.items() if other != name})
        for place in reversed(range(len(self.operations))):
            yield replace(self, operations=self.operations[:place] + self.operations[place + 1 :])
        if self.tail:
            yield replace(self, tail="")
        if self.machine and not self.operations:
            yield replace(self, machine=None)
        if self.machine and self.machine != KINDS["small"]:
            yield replace(self, machine=KINDS["small"])

    def __str__(self) -> str:
        parts = [f"--- configuration\n{self.text}"]
        parts += [f"--- drop-in {name}\n{text}" for name, text in self.drop_in_texts.items()]
        if self.flags:
            parts.append(f"--- flags\n{json.dumps(self.flags)}\n")
        parts += [f"--- state file {name}\n{text}\n" for name, text in self.state.items()]
        if self.machine:
            parts.append(f"--- machine\n{self.machine}\n")
        if self.devices:
            parts.append(f"--- devices\n{json.dumps(self.devices)}\n")
        parts += [f"--- operation\n{json.dumps(operation)}\n" for operation in self.operations]
        return "".join(parts)


def shrink(case: Case, disagreements: Callable[[Sequence[Case]], Sequence[str | None]]) -> Case:
    """Return the smallest case found that both sides still answer differently."""
    for _ in range(_ROUNDS):
        candidates = list(case.smaller())
        found = disagreements(candidates)
        still = [candidate for candidate, said in zip(candidates, found, strict=True) if said]
        if not still:
            return case
        case = still[0]
    return case


def _yaml(settings: Settings) -> str:
    text: str = yaml.safe_dump(dict(settings), sort_keys=False, default_flow_style=False, width=1000)
    return text


def _with_less(settings: Settings) -> Iterator[Settings]:
    for name, value in settings.items():
        if name in API:
            continue
        yield {other: kept for other, kept in settings.items() if other != name}
        if isinstance(value, dict) and len(value) > 1:
            for key in value:
                yield {**settings, name: {other: kept for other, kept in value.items() if other != key}}
        if isinstance(value, list) and len(value) > 1:
            for place in range(len(value)):
                yield {**settings, name: value[:place] + value[place + 1 :]}
