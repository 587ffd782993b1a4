"""The stages of a roll-out, and its shards: an inventory divided among processes, which go through it as one.

Each shard is a separate roll-out with its own Lease, which has its progress. From the Leases of the others it
learns whether the canaries have succeeded, and how many nodes have failed. All share the slots.
"""

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

from numaforge.lib.errors import NumaforgeError

SHARD = "NUMAFORGE_SHARD"  # the environment variable with the shard of a pyinfra run
FAR = "shard"  # the key of a shard's progress in a roll-out's state
_TEXT = re.compile(r"(?:(?P<index>\d+)|\$\{?(?P<variable>\w+)\}?)/(?P<count>\d+)", re.ASCII)
_PART = re.compile(r"(?P<rollout>.+)\.(?P<index>\d+)-of-(?P<count>\d+)", re.ASCII)


class Stage(StrEnum):
    """What a change requires of a host's pods, in the order of the stages: first where no pod runs.

    A failed change costs a worker's pods, but the whole cluster on a control-plane node: these come last.
    """

    DRAINED = "drained"  # pods leave the node: it takes a slot of the budget
    IN_PLACE = "in-place"  # a node of the cluster whose pods stay
    OUTSIDE = "outside"  # a host that is no Node of the cluster
    CONTROL_PLANE = "control-plane"  # a node of the control plane, drained or not: one at a time

    @property
    def turn(self) -> int:
        """The stage's place in the order."""
        return list(Stage).index(self)


@dataclass(frozen=True)
class Shard:
    """One of `count` parts of an inventory, numbered from 0 as Kubernetes numbers the pods of a Job."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str, environment: Mapping[str, str] = os.environ, *, where: str = "--shard") -> Self:
        """Return the shard of I/N; I may be a variable: $JOB_COMPLETION_INDEX/4; raises NumaforgeError."""
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise _refused(where, text, "it is not I/N")
        index = match["index"] or environment.get(match["variable"], "")
        if not index.isdecimal():
            raise _refused(
                where, text, f"the environment variable {match['variable']} is {index or 'not set'}"
            )
        shard = cls(int(index), int(match["count"]))
        if shard.index >= shard.count:
            last = f": the first is 0, the last {shard.count - 1}" if shard.count else ""
            raise _refused(where, text, f"there is no shard {shard.index} of {shard.count}{last}")
        return shard

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def name_of(self, rollout: str) -> str:
        """Return the name of this part of a roll-out."""
        return f"{rollout}{self.suffix}"

    @property
    def suffix(self) -> str:
        """The suffix of this shard in the name of any roll-out."""
        return f".{self.index}-of-{self.count}"

    def of(self, host: str, canaries: Collection[str] = ()) -> int:
        """Return which shard takes a host; hosts named as canaries go first, and belong to shard 0."""
        return 0 if host in canaries else shard_of(host, self.count)


def shard_here(environment: Mapping[str, str] = os.environ) -> Shard | None:
    """Return the shard from the environment, None where there is none."""
    text = environment.get(SHARD)
    return Shard.parse(text, environment, where=SHARD) if text else None


def shard_of(host: str, count: int) -> int:
    """Return which of `count` shards takes a host.

    The choice is by a hash of its name rather than by its position: a host that joins or leaves moves no
    other host, so that a restarted shard finds its hosts again. The highest hash wins (rendezvous hashing),
    which moves the fewest hosts when the number of shards changes.
    """
    return max(range(count), key=lambda index: hashlib.sha256(f"{index}/{host}".encode()).digest())


def is_part_of(name: str, rollout: str) -> bool:
    """Whether a name is that of a roll-out, or of one of its shards."""
    part = _PART.fullmatch(name)
    return name == rollout or (part is not None and part["rollout"] == rollout)


@dataclass(frozen=True)
class StageProgress:
    """A shard's progress in a stage: canaries that have yet to succeed, hosts yet to end, all its hosts."""

    canaries_left: int
    hosts_left: int
    hosts: int = 0


@dataclass(frozen=True)
class ShardProgress:
    """A shard's progress in each stage, and how many of its hosts failed, are blocked, or were refused."""

    stages: Mapping[Stage, StageProgress]
    failed: int = 0
    blocked: int = 0
    refused: int = 0

    def document(self) -> dict[str, Any]:
        """Return the progress as written on the Lease."""
        return asdict(self)

    @classmethod
    def read(cls, state: Mapping[str, Any]) -> "ShardProgress | None":
        """Return a shard's progress from its Lease's state, None where it cannot be read."""
        from pydantic import TypeAdapter, ValidationError  # imported here, because `--help` does not need it

        try:
            return TypeAdapter(cls).validate_json(json.dumps(state.get(FAR)), strict=True)
        except ValidationError:
            return None


@dataclass(frozen=True)
class Shards:
    """This shard and the others of a roll-out; `present` are the shards that have hosts."""

    rollout: str
    shard: Shard
    present: frozenset[int]

    def others(self, states: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[int, ShardProgress]:
        """Return the other shards' progress, from the names and states of roll-outs."""
        progress = {}
        for name, state in states:
            part = _PART.fullmatch(name)
            if part is None or (part["rollout"], int(part["count"])) != (self.rollout, self.shard.count):
                continue
            far = ShardProgress.read(state)
            if int(part["index"]) != self.shard.index and far is not None:
                progress[int(part["index"])] = far
        return progress

    def earlier_stage(self, stage: Stage, progress: Mapping[int, ShardProgress]) -> str | None:
        """Return why an earlier stage is not finished in another shard, None where all are."""
        for index in sorted(self.present - {self.shard.index}) if stage.turn else ():
            if index not in progress:
                return f"shard {index}/{self.shard.count} has not begun"
            unfinished = [earlier for earlier, far in progress[index].stages.items() if far.hosts_left]
            if early := [earlier for earlier in unfinished if earlier.turn < stage.turn]:
                return f"shard {index}/{self.shard.count} has hosts left that come first ({early[0]})"
        return None

    def canaries_left(self, canaries: int, stage: Stage, progress: Mapping[int, ShardProgress]) -> int | str:
        """Return this shard's canaries left, or whom to wait for; short shards leave theirs to the next."""
        if not canaries:
            return 0
        stages = {index: far.stages[stage] for index, far in progress.items() if stage in far.stages}
        lower = [index for index in sorted(self.present) if index < self.shard.index]
        if any(index in stages and not stages[index].canaries_left for index in lower):
            return 0
        for index in lower:
            if index not in stages or stages[index].hosts_left:
                return f"the canaries of shard {index}/{self.shard.count} have not succeeded yet"
        return min([canaries, *(stages[index].canaries_left for index in lower)])

    def part_of(self, limit: int, stage: Stage, progress: Mapping[int, ShardProgress]) -> int:
        """Return this shard's part of a limit without slots; may be 0 where there are more shards than that.

        A shard whose hosts of the stage have all ended leaves its part to the others. The set of shards with
        hosts left only shrinks, and a shard that sees an older set takes no more than with a newer one: the
        parts together never exceed the limit.
        """
        of_stage = {index: far.stages[stage] for index, far in progress.items() if stage in far.stages}
        ended = {index for index, far in of_stage.items() if far.hosts_left == 0}
        at_work = sorted((self.present | {self.shard.index}) - ended)
        return -(-(limit - at_work.index(self.shard.index)) // len(at_work))


def _refused(where: str, text: str, why: str) -> NumaforgeError:
    return NumaforgeError(
        f"{text!r} is not a shard: {why}",
        where=where,
        remedy="write I/N, such as 0/4, 1/4, 2/4 and 3/4 for four shards, or $JOB_COMPLETION_INDEX/4",
    )
