"""What a node needs to be as planned: the transaction, made of the parts that differ."""

from __future__ import annotations

import hashlib
import secrets
from datetime import UTC, datetime

from numaforge.node import parts
from numaforge.node.part import Found, Goal, Part
from numaforge.node.transaction import Transaction
from numaforge.roles.document import dumps

RETRY = "--retry-failed, or retry_failed in the host data numaforge_rollout"


def new_id() -> str:
    """Return the id of a transaction."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def need(goal: Goal, found: Found, name: str | None = None) -> Transaction | None:
    """Return the transaction that makes a node as planned, `name` its id; None where the node is.

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
    plan = digest(goal)
    return Transaction(
        name or new_id(),
        tuple(needed),
        planned_on=found.fingerprint,
        confirm_seconds=goal.confirm_seconds,
        plan=plan,
        pods=pods,
        failed_before="" if goal.retry_failed else _failed_before(plan, found),
    )


def digest(goal: Goal) -> str:
    """Return what tells one plan, for the roles that were called, from another."""
    text = "\n".join([dumps(goal.plan), *sorted(goal.roles)])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _failed_before(plan: str, found: Found) -> str:
    failure = found.failure
    if failure is None or failure.plan != plan:
        return ""
    if found.fingerprint is not None and found.fingerprint.boot_id != failure.boot_id:
        return ""
    return (
        f"this plan was rolled back on this host at {failure.when}, and is not tried again by itself before "
        f"the plan changes or the host boots ({failure.why}); try it again knowingly with {RETRY}"
    )


def pending(goal: Goal, found: Found) -> tuple[str, ...]:
    """Return a sentence for what is left alone: it waits for a reboot, or the host does not have it."""
    asked = (getattr(kind, "pending", None) for kind in parts.KINDS)  # few parts have anything to wait for
    sentences = (pending(goal, found) for pending in asked if pending is not None)
    return tuple(sentence for sentence in sentences if sentence)
