"""What a node needs to be as planned: the transaction, made of the parts that differ."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from numaforge.node import parts
from numaforge.node.part import Found, Goal, Part
from numaforge.node.transaction import Transaction


def need(goal: Goal, found: Found) -> Transaction | None:
    """Return the transaction that makes a node as planned; None where it is.

    Raises NumaforgeError for what cannot be carried out on this node.
    """
    needed: list[Part] = []
    for kind in parts.KINDS:
        part = kind.need(goal, found, needed)
        if part is not None:
            needed.append(part)
    if not needed:
        return None
    pods = found.pods
    if any(part.drains for part in needed) and not pods.may_be_there and found.unit().may_start:
        pods = pods.with_kubelet("systemd starts the kubelet")
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
    return Transaction(name, tuple(needed), planned_on=found.fingerprint, pods=pods)


def pending(goal: Goal, found: Found) -> tuple[str, ...]:
    """Return a sentence for what is left alone: it waits for a reboot, or the host does not have it."""
    asked = (getattr(kind, "pending", None) for kind in parts.KINDS)  # few parts have anything to wait for
    sentences = (pending(goal, found) for pending in asked if pending is not None)
    return tuple(sentence for sentence in sentences if sentence)
