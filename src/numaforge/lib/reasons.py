"""Decisions with their reasons, notices, and values that carry both."""

from dataclasses import dataclass
from typing import Generic, TypeVar

Decided = TypeVar("Decided")


@dataclass(frozen=True)
class Decision:
    """One decision: `subject` is a dotted path such as "kubelet.topologyManagerPolicy"."""

    subject: str
    value: str
    reason: str


@dataclass(frozen=True)
class Notice:
    """A remark for the admin on a valid plan; `id` is stable ("uneven-smt")."""

    id: str
    message: str


@dataclass(frozen=True)
class Reasoned(Generic[Decided]):
    """One part of the plan with the reasons for it."""

    value: Decided
    decisions: tuple[Decision, ...] = ()
    notices: tuple[Notice, ...] = ()


class Reasons:
    """The decisions and notices of one concern, gathered while it is decided."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.notices: list[Notice] = []

    def decide(self, subject: str, value: str, reason: str) -> None:
        self.decisions.append(Decision(subject, value, reason))

    def notice(self, id: str, message: str) -> None:  # noqa: A002 (as a notice has it)
        self.notices.append(Notice(id, message))

    def of(self, value: Decided) -> Reasoned[Decided]:
        """Return a value with these reasons."""
        return Reasoned(value, tuple(self.decisions), tuple(self.notices))
