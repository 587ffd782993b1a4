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
