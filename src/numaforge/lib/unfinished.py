"""A change of a node that has not ended, as any look at the node finds it (node/unfinished.sh)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

TRANSACTIONS = "/var/lib/numaforge/txn"
"""The folder on the node with a folder for each transaction."""
LIBRARY = "node/unfinished"
_KIND = "unfinished"
KEEPS = "run apply again to keep it"
_ENDS = "run apply again to end or undo it"


@dataclass(frozen=True)
class Unfinished:
    """An unfinished change: its id; `state` is the step that it has reached.

    `how` is "unconfirmed" (in effect, and undone in `seconds` unless it is confirmed), "undone" (being
    undone), "works", "left" (no process works on it), or "open": unknown whether one does. Only a run knows
    of one that "rolls out": `id` is the Node's name.
    """

    id: str
    how: str
    state: str = ""
    seconds: int | None = None

    def __str__(self) -> str:
        """Return what an admin should know: `change ID is in effect but unconfirmed; ...`."""
        match self.how:
            case "unconfirmed":
                return in_effect(self.id, self.seconds)
            case "undone":
                return f"change {self.id} is being undone{self._step}"
            case "left":
                return f"change {self.id} was interrupted{self._step}; {_ENDS}"
            case "open":
                return f"change {self.id} has not ended{self._step}; {_ENDS}"
            case "rolls out":
                return f"its Node {self.id} is in a roll-out{self._step}"
            case _:
                return f"change {self.id} is being applied{self._step}"

    def aged(self, seconds: float) -> "Unfinished":
        """Return the same change some seconds later."""
        return self if self.seconds is None else replace(self, seconds=self.seconds - int(seconds))

    @property
    def when_left(self) -> str:
        """The warning for an admin who leaves this change to itself."""
        match self.how:
            case "works":
                return f"{self}; afterwards it undoes itself unless it is confirmed: {KEEPS}"
            case "rolls out":
                return f"{self}; what has begun there ends by itself; run apply again to go on"
            case _:
                return str(self)

    @property
    def _step(self) -> str:
        return f" ({self.state})" if self.state else ""


def in_effect(transaction: str, seconds: int | None) -> str:
    """Return what an unconfirmed change means; `seconds` until it is undone, None where that is unknown."""
    when = "" if seconds is None else f" in {max(0, seconds)} s"
    return f"change {transaction} is in effect but unconfirmed; it undoes itself{when}; {KEEPS}"


def read_unfinished(lines: Iterable[str]) -> Unfinished | None:
    """Return the unfinished change in the lines of a node's answer; None without one."""
    for line in lines:
        words = line.split(" ", 4)
        if words[0] == _KIND and len(words) >= 4:
            seconds = int(words[3]) if words[3].lstrip("-").isdecimal() else None
            return Unfinished(words[1], words[2], words[4] if len(words) > 4 else "", seconds)
    return None
