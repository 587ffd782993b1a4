"""The look and the files that parts share whose worker changes GPUs on the node."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from numaforge.lib.errors import HostError
from numaforge.lib.file_content import boot_link
from numaforge.lib.given import digits
from numaforge.lib.shell import line
from numaforge.node.part import Look, NodeState, Part, lines, switched
from numaforge.node.program import holders_source

OLDEST_PYTHON = (3, 9)
_LINK_SECONDS = 30


def units_of(state: NodeState, part: str) -> tuple[str, ...]:
    """Return the services that hold a GPU by a part's look."""
    return tuple(sorted({*state.every(part, "holds")}))


def stops(holders: Iterable[str]) -> tuple[str, ...]:
    """Return a sentence about the units that hold a GPU and are stopped for its change."""
    rest = "which holds a GPU, may be stopped for that, and is started again"
    return tuple(f"{unit}, {rest}" for unit in holders)


class WorkerRole(NamedTuple):
    """A role whose worker changes GPUs on the node, as its unit does at every boot.

    `changed` is what becomes of a GPU, in a word; `deploy` changes it together with the kubelet.
    """

    name: str
    unit_path: str
    changed: str
    deploy: str

    @property
    def boot_link(self) -> str:
        """The link that makes the unit start at boot."""
        return boot_link(self.unit_path)

    def look(self, *, has_gpus: bool) -> Look:
        """Return the question whether the unit is enabled, and what the worker needs for a plan with GPUs."""
        return Look(call=(f"look_{self.name}", self.boot_link, *([holders_source()] if has_gpus else [])))

    def relinks(self, state: NodeState, *, enabled: bool) -> bool:
        """Whether the unit's link has to change."""
        return (state.answers(self.name).get("unit") == "enabled") is not enabled

    def kubelet_runs(self, address: str) -> HostError:
        """Return the error where a running kubelet may not restart."""
        return HostError(
            f"would be {self.changed} differently, but the kubelet runs: it offers what its device plugins "
            "found when it started, and may not start again",
            where=address,
            remedy=f"deploys/site.py or {self.deploy} changes both together, and drains the node for that",
        )

    def part(
        self,
        moves: Sequence[str],
        *,
        enabled: bool,
        relinks: bool,
        data: Mapping[str, str],
        sentences: Sequence[str],
        seconds: int,
        more_to_undo: int = 0,
    ) -> Part:
        """Return the part with the worker, or one that changes only the unit's link, where `data` is empty.

        The worker takes `seconds`, and to undo the same and `more_to_undo`.
        """
        unit, most = PurePosixPath(self.unit_path).name, seconds if data else _LINK_SECONDS
        link = f"{self.name.upper()}_LINK"
        return Part(
            self.name,
            sentences=tuple(sentences) if data else (),
            moves=(*moves, *([switched(unit, enabled=enabled)] if relinks else [])),
            data=data,
            settings={link: self.boot_link, f"{link}_TARGET": self.unit_path if enabled else ""},
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
    units = (*(f"seen {line(unit)}" for unit in holders), *(f"named {line(unit)}" for unit in may_stop))
    documents = {"planned.json": _document(planned), "found.json": _document(present)}
    return {**documents, "units": lines(*units)}


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
