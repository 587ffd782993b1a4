"""The contract of a part: one concern of a maintenance, such as the kubelet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from numaforge.lib.errors import HostError
from numaforge.lib.unfinished import Unfinished
from numaforge.node.bundle import FileChange, FileState
from numaforge.node.fence import Fingerprint
from numaforge.node.pods import Pods
from numaforge.node.work import OtherWork


class Look(NamedTuple):
    """What a part needs to know of a node.

    `values` are files of the kernel, of which the first line is read; `files` are read whole, unless their
    text is among those that are `known`; systemd is asked for `properties` of `units`. `call` is a function
    of the part's look.sh with its arguments, which prints lines "KEY TEXT".
    """

    values: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    call: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unit:
    """systemd's state of a unit, None without systemd; `askers` are programs that can query /healthz."""

    active_state: str | None
    sub_state: str | None
    askers: tuple[str, ...]

    @property
    def runs(self) -> bool:
        """Whether it was running, rather than stopped, disabled, or starting over and over."""
        return self.active_state == "active" and self.sub_state == "running"

    @property
    def may_start(self) -> bool:
        """Whether it runs, or systemd keeps restarting it: it may then start at any moment."""
        return self.active_state is not None and not self.is_down

    @property
    def is_down(self) -> bool:
        """Whether nothing of it runs, and systemd does not start it by itself."""
        return self.active_state in ("inactive", "failed")


class FailedPlan(NamedTuple):
    """The plan that was at fault in the last rollback: its digest, the boot, the time and the reason."""

    plan: str
    boot_id: str
    when: str
    why: str


@dataclass(frozen=True)
class NodeState:
    """The current state of a node.

    `values` and `files` are those that exist of the ones asked for, by path; `drop_ins` are the paths of the
    kubelet's drop-ins in the order in which it reads them. `said` are the lines of each part's own look, by
    part. `unfinished` is a transaction that has not ended, `unproved` the id of one whose node was
    not proved yet and may still be cordoned. `plans_itself` is true of a node of an image, which is brought
    back to its own plan before each start of its kubelet. `failure` is what is not tried again by itself.
    `fingerprint` is what a change has to find again when it begins. `redirectable` are the paths that
    another user could redirect, with the reason. `pods` is the evidence of pods, `work` that of other work.
    `unit` returns what systemd says of the kubelet; only what changes has to know, and raises where that is
    nothing.
    """

    files: Mapping[str, FileState]
    drop_ins: tuple[str, ...]
    unfinished: Unfinished | None = None
    unproved: str | None = None
    plans_itself: bool = False
    failure: FailedPlan | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    said: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fingerprint: Fingerprint | None = None
    redirectable: Mapping[str, str] = field(default_factory=dict)
    pods: Pods = field(default_factory=Pods)
    work: OtherWork = field(default_factory=OtherWork)
    unit: Callable[[], Unit] = lambda: Unit(None, None, ())

    def text(self, path: str) -> str | None:
        """Return a file's text, or None where the file does not exist."""
        file = self.files.get(path)
        return file.text if file else None

    def require_roots(self, paths: Iterable[str]) -> None:
        """Raise HostError for a path that another user could redirect: root does not write there."""
        for path in paths:
            if why := self.redirectable.get(path):
                raise HostError(why)

    def answers(self, part: str) -> dict[str, str]:
        """Return the lines of a part's own look, by their first word."""
        return dict(line.partition(" ")[::2] for line in self.said.get(part, ()))

    def every(self, part: str, word: str) -> list[str]:
        """Return the lines of a part's own look that begin with a word, without it."""
        split = (line.partition(" ") for line in self.said.get(part, ()))
        return [rest for first, _, rest in split if first == word]


@dataclass(frozen=True)
class Part:
    """One concern of a maintenance, as one node needs it.

    `name` is that of the folder with its part.sh, and the prefix of its functions (their contract stands in
    transaction.sh). `data` are the files that they find in $PART, `settings` their variables. `drains` says
    whether it disturbs pods, so that they must leave; the part does not decide whether any may be there.
    Other work is disturbed, too, unless it concerns `only_pods`.
    `reboots` says whether it needs a reboot to take effect, `restarts_kubelet` whether it changes what a
    kubelet reads at its start. `units` must not start after a reboot before the change has been continued or
    undone. The `sentences` say what it does besides the files that it `changed` and the values that it
    `moves`, one line each. The seconds are how long it may take to apply, to make lasting (what PART_commit
    does), to undo, and at most while a boot waits for it.
    """

    name: str
    sentences: tuple[str, ...] = ()
    changed: tuple[FileChange, ...] = ()
    moves: tuple[str, ...] = ()
    data: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    drains: bool = False
    only_pods: bool = False
    reboots: bool = False
    restarts_kubelet: bool = False
    apply_seconds: int = 30
    commit_seconds: int = 0
    undo_seconds: int = 30
    boot_seconds: int = 0
    units: tuple[str, ...] = ()


def asks_nothing(_: object) -> Look:
    """Return the question of a part that needs to know nothing of its own."""
    return Look()


def switched(unit: str, *, enabled: bool) -> str:
    """Return the move of a unit that is enabled or disabled."""
    return f"{unit}: disabled -> enabled" if enabled else f"{unit}: enabled -> disabled"


def lines(*texts: str) -> str:
    """Return a data file of one line each."""
    return "".join(f"{text}\n" for text in texts)
