"""The transaction that makes a node match its plan, made of the parts that differ."""

import hashlib
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

from numaforge.change import parts
from numaforge.change.goal import Goal
from numaforge.change.transaction import Transaction
from numaforge.node.part import NodeState, Part
from numaforge.node.pods import Pods
from numaforge.planning.document import dumps

RETRY = "--retry-failed (with plain pyinfra: --data numaforge_retry_failed=true)"


def new_id() -> str:
    """Return the id of a transaction."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def need(goal: Goal, state: NodeState, name: str | None = None) -> Transaction | None:
    """Return the transaction that makes a node as planned, None where it is; raises NumaforgeError."""
    needed: list[Part] = []
    for role_part in parts.called(goal.roles):
        part = role_part.need(goal, state, needed)
        if part is not None:
            state.require_roots(change.path for change in part.changed)
            needed.append(part)
    if not needed:
        return None
    plan = digest(goal)
    return Transaction(
        name or new_id(),
        tuple(needed),
        planned_on=state.fingerprint,
        confirm_seconds=goal.confirm_seconds,
        plan=plan,
        pods=_pods(needed, state),
        work=state.work,
        ends_work=goal.ends_work,
        failed_before="" if goal.retry_failed else _failed_before(plan, state),
    )


def _pods(needed: Sequence[Part], state: NodeState) -> Pods:
    """Return the evidence of pods, with systemd's state of the kubelet where none was seen."""
    pods = state.pods
    if pods.kubelets or not any(part.drains for part in needed):
        return pods
    unit = state.unit()
    if unit.may_start:
        return pods.with_kubelet("systemd starts the kubelet")
    return pods.without_kubelet(f"its unit is {unit.active_state}") if unit.is_down else pods


def digest(goal: Goal) -> str:
    """Return the digest of a plan and of the called roles."""
    text = "\n".join([dumps(goal.plan), *sorted(goal.roles)])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _failed_before(plan: str, state: NodeState) -> str:
    failure, fingerprint = state.failure, state.fingerprint
    if failure is None or failure.plan != plan or (fingerprint and fingerprint.boot_id != failure.boot_id):
        return ""
    return (
        f"this plan was rolled back on this host at {failure.when}, and is not tried again by itself before "
        f"the plan changes or the host boots ({failure.why}); try it again knowingly with {RETRY}"
    )


def pending(goal: Goal, state: NodeState) -> tuple[str, ...]:
    """Return a sentence for what is left unchanged: it waits for a reboot, or the host does not have it."""
    sentences = (part.pending(goal, state) for part in parts.called(goal.roles) if part.pending)
    return tuple(sentence for sentence in sentences if sentence)
