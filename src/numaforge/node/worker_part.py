"""The look and the files that parts share whose worker changes GPUs on the node."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numaforge.lib.errors import HostError
from numaforge.lib.given import digits
from numaforge.lib.shell import line
from numaforge.node.part import NodeState, Part, lines

OLDEST_PYTHON = (3, 9)
_LINK_SECONDS = 30


def units_of(state: NodeState, part: str) -> tuple[str, ...]:
    """Return the services that hold a GPU by a part's look."""
    return tuple(sorted({*state.every(part, "holds")}))


def stops(holders: Iterable[str]) -> tuple[str, ...]:
    """Return a sentence about the units that hold a GPU and are stopped for its change."""
    return tuple(
        f"{unit}, which holds a GPU, may be stopped for that, and is started again" for unit in holders
    )


def worker_part(
    name: str,
    moves: Sequence[str],
    *,
    data: Mapping[str, str],
    sentences: Sequence[str],
    settings: Mapping[str, str],
    seconds: int,
    unit: str,
    more_to_undo: int = 0,
) -> Part:
    """Return a part with a worker, or one that changes only the link of its `unit`, where `data` is empty.

    The worker takes `seconds`, and to undo the same and `more_to_undo`.
    """
    most = seconds if data else _LINK_SECONDS
    return Part(
        name,
        sentences=tuple(sentences) if data else (),
        moves=tuple(moves),
        data=data,
        settings=settings,
        drains=bool(data),
        restarts_kubelet=bool(data),
        apply_seconds=most,
        undo_seconds=most + more_to_undo,
        boot_seconds=most,
        units=(unit,),  # it would bring back what the rollback has just removed
    )


def worker_files(
    planned: Iterable[Mapping[str, Any]],
    present: Iterable[Mapping[str, Any]],
    holders: Sequence[str],
    may_stop: Sequence[str],
) -> dict[str, str]:
    """Return the files for a worker beside itself in its part's folder: GPUs, and units that it may stop."""
    return {
        "planned.json": _document(planned),
        "found.json": _document(present),
        "units": lines(
            *(f"seen {line(unit)}" for unit in holders), *(f"named {line(unit)}" for unit in may_stop)
        ),
    }


def _document(gpus: Iterable[Mapping[str, Any]]) -> str:
    return json.dumps({"gpus": list(gpus)}, indent=1) + "\n"


def refuse_old_python(facts: Mapping[str, str], change: str, more: str = "") -> None:
    """Raise HostError where the node has no python3, or one that is too old for a worker."""
    version = facts.get("python", "")
    numbers = tuple(number for part in version.split(".") if (number := digits(part)) is not None)
    if numbers < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        raise HostError(
            f"{change} changed on the node with python3 {oldest} or later, and it has {version or 'none'}",
            remedy=f"have python3 be {oldest} or later on the node; nothing else is fetched{more}",
        )
