"""A complete configuration, and the validation errors in it."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from numaforge.kubelet.config.gates import enabled
from numaforge.kubelet_minors.values.durations import Duration, parse_duration
from numaforge.kubelet_minors.versions import KubeletVersion

SECOND = 10**9


class InvalidSetting(NamedTuple):
    """One validation error: the finding's rule, the field (dotted), the kubelet's message, and a remedy."""

    rule: str
    path: str
    text: str
    remedy: str


class CompleteConfig:
    """A complete configuration with typed access; an unset field reads as Go's zero value."""

    def __init__(
        self, settings: Mapping[str, Any], version: KubeletVersion, gates: Mapping[str, bool], cgroup: int
    ) -> None:
        self.settings = settings
        self.version = version
        self.gates = gates
        self.cgroup_version = cgroup

    @property
    def minor(self) -> int:
        return self.version.rules_minor

    def gate(self, name: str) -> bool:
        return enabled(self.version, self.gates, name)

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


Refusals = Iterator[InvalidSetting]


def invalid(rule: str, path: str, text: str, remedy: str) -> InvalidSetting:
    return InvalidSetting(rule, path, f"invalid configuration: {text}", remedy)
