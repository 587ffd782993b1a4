"""A complete configuration, the validation errors in it, and the checks of single fields."""

from collections.abc import Callable, Collection, Iterator
from typing import Any

from numaforge.kubelet.config.loading import Configuration
from numaforge.kubelet.findings import Fault, fault
from numaforge.kubelet_minors.values.durations import Duration, parse_duration
from numaforge.kubelet_minors.values.gotext import quoted

SECOND = 10**9


class CompleteConfig:
    """A complete configuration with typed access; an unset field reads as Go's zero value."""

    def __init__(self, configuration: Configuration, cgroup_version: int) -> None:
        self.settings = configuration.settings
        self.version = configuration.version
        self.minor = configuration.minor
        self.gates = configuration.gates
        self.gate = configuration.enabled
        self.cgroup_version = cgroup_version

    def number(self, name: str) -> int:
        value: int = self.settings.get(name) or 0
        return value

    def text(self, name: str) -> str:
        value: str = self.settings.get(name) or ""
        return value

    def flag(self, name: str) -> bool:
        return bool(self.settings.get(name))

    def items(self, name: str) -> list[Any]:
        value: list[Any] = self.settings.get(name) or []
        return value

    def duration(self, name: str) -> Duration:
        return parse_duration(self.settings.get(name) or "0s")


Refusals = Iterator[Fault]
Check = Callable[[CompleteConfig], Refusals]


def invalid(rule: str, name: str = "main", /, **values: object) -> Fault:
    """Return a fault whose evidence is the kubelet's whole message."""
    refused = fault(rule, name, **values)
    return refused._replace(evidence=f"invalid configuration: {refused.evidence}")


def refused_if(rule: str, name: str, is_refused: Callable[[CompleteConfig], object]) -> Check:
    def check(config: CompleteConfig) -> Refusals:
        if is_refused(config):
            yield invalid(rule, name)

    return check


def not_negative(field: str, flag: str) -> Check:
    def check(config: CompleteConfig) -> Refusals:
        if (value := config.number(field)) < 0:
            yield invalid("NF110", "not negative", field=field, flag=flag, value=value)

    return check


def between(field: str, flag: str, low: int, high: int) -> Check:
    def check(config: CompleteConfig) -> Refusals:
        if not low <= (value := config.number(field)) <= high:
            yield invalid("NF110", "between", field=field, flag=flag, value=value, low=low, high=high)

    return check


def one_of(field: str, accepted: Collection[str]) -> Check:
    def check(config: CompleteConfig) -> Refusals:
        if (value := config.text(field)) not in accepted:
            yield invalid("NF111", field, value=quoted(value))

    return check
