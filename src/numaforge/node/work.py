"""Evidence of work on a node that is no pod's: batch jobs, virtual machines, containers of other engines."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from numaforge.lib.ordering import grouped

KINDS: Mapping[str, str] = {
    "slurm": "drain the node in Slurm (scontrol update nodename=... state=drain), and wait for its jobs",
    "pbs": "take the node offline in PBS (pbsnodes -o), and wait for its jobs",
    "lsf": "close the host in LSF (badmin hclose), and wait for its jobs",
    "htcondor": "drain the machine in HTCondor (condor_drain), and wait for its jobs",
    "vm": "migrate the virtual machines, or shut them down",
    "docker": "stop the containers (docker stop)",
    "podman": "stop the containers (podman stop)",
    "containerd": "stop the containers (nerdctl stop)",
    "lxc": "stop the containers (lxc stop, machinectl poweroff)",
}
"""How an admin ends or moves work, by its kind: the word that work.sh prints and that an inventory uses."""


@dataclass(frozen=True)
class OtherWork:
    """Evidence of work that is no pod's.

    `found` are lines by kind, a key of KINDS: what it is, and one of its processes. `more` are kinds of which
    there is more. `unknown` says what could not be examined: then missing evidence proves nothing. `users`
    are logged in, which stops no change.
    """

    found: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    more: frozenset[str] = frozenset()
    unknown: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    def ended_without(self, permitted: Collection[str]) -> str:
        """Return the evidence of work that may not be ended, by kind; "" where there is none."""
        more = dict.fromkeys(self.more, ", and more")
        kinds = self._kinds_without(permitted)
        lines = (f"{kind}: {'; '.join(self.found[kind])}{more.get(kind, '')}" for kind in kinds)
        return "; ".join((*lines, *self.unknown))

    def way_out(self, permitted: Collection[str]) -> str:
        """Return how an admin ends or moves that work."""
        remedies = [KINDS[kind] for kind in self._kinds_without(permitted)]
        return "; ".join(remedies) or "see whether root may read /proc on the host"

    def _kinds_without(self, permitted: Collection[str]) -> list[str]:
        return [kind for kind in KINDS if kind in self.found and kind not in permitted]


def read_work(lines: Iterable[str]) -> OtherWork:
    """Read what `tell_work` in work.sh printed."""
    by_word = grouped(line.partition(" ")[::2] for line in lines)
    more, unknown, users = (by_word.get(word, ()) for word in ("more", "unknown", "user"))
    by_kind = grouped(work.partition(" ")[::2] for work in by_word.get("work", ()))
    of_known_kind = {kind: tuple(by_kind[kind]) for kind in KINDS if kind in by_kind}
    return OtherWork(of_known_kind, frozenset(more), tuple(unknown), tuple(users))
