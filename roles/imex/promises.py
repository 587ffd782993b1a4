"""The state of IMEX: its unit, its nodes, and whether its daemon is ready."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from numaforge.lib import shell
from numaforge.roles.imex.part import NODES, UNIT
from numaforge.roles.promise import Promise, Table, require_equal

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.verification.live import VerifiedNode


def imex(plan: NodePlan) -> Table:
    """The planned unit and its nodes, and a ready daemon where it takes commands."""
    mode = plan.imex.mode
    if mode is None:
        return {}
    if mode == "driver-managed":
        return {"unit": "masked", "runs": "inactive"}
    ready = {"ready": "READY"} if plan.imex.socket else {}
    return {"unit": "enabled", "runs": "active", "nodes": " ".join(plan.imex.nodes), **ready}


def _asks(plan: NodePlan) -> Iterator[str]:
    if imex(plan):
        yield shell.call("tell_imex", [NODES, plan.imex.socket or ""])


def _imex(node: VerifiedNode, name: str, expected: str) -> None:
    answer = node.live.of("imex").get(name)
    if name == "ready" and answer is None:
        pytest.skip("there is no nvidia-imex-ctl to ask with")
    require_equal((answer or "").strip() or None, expected)


PROMISES = (Promise("imex", imex, _imex, units=lambda plan: [UNIT] if imex(plan) else [], asks=_asks),)
