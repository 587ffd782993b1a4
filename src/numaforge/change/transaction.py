"""A change of a live node as one transaction, which the node applies and undoes by itself.

The admin's machine hands the transaction to the node and polls; systemd runs it as a separate unit with a
deadline, and runs its `recover` half if it is killed. A lost connection affects neither, and after a reboot
the node resumes by itself, or rolls back: while a transaction is open, a unit runs before the units that the
change has stopped. Every step is in a journal below TRANSACTIONS, so that a later run finds out how an
earlier one ended.

The parts know what is changed, and how it is undone (numaforge.change.parts); the order is in
transaction.sh. Nothing happens on a node that no longer is what it was planned on (`fence`).

The steps before (cordon, drain) and after (prove, uncordon) concern the cluster, not the node: a roll-out
puts them around `start_script`, `void_script`, `status_script` and `revert_script`.
"""

import base64
import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple

from numaforge.change.parts import refuse_incomplete, shell_of
from numaforge.lib import shell
from numaforge.lib.errors import ExitCode, HostError, HostUnreachableError
from numaforge.lib.framing import Answer, Output, asking
from numaforge.lib.given import parse_json
from numaforge.lib.unfinished import LIBRARY, TRANSACTIONS
from numaforge.node import fence
from numaforge.node.bundle import encoded
from numaforge.node.fence import Fingerprint
from numaforge.node.part import Part
from numaforge.node.pods import NOT_LOOKED_AT, Pods
from numaforge.node.work import KINDS, OtherWork


class IncompleteStatusError(HostUnreachableError):
    """A node has answered incompletely about its change."""


CURRENT = f"{TRANSACTIONS}/current"  # a link to the open transaction; it is also the lock
BOOT_UNIT = "/etc/systemd/system/numaforge-recover.service"  # exists while a transaction is open
RESCUE_UNIT = "/etc/systemd/system/numaforge-rescue.service"  # there too, for a boot that does not come up
RUN = "run.sh"  # the script that the node runs; it appears once everything it needs has
KEPT_TRANSACTIONS = 5
CONFIRM_SECONDS = 300
CONFIRMING = "confirming"  # the phase of a node that waits for its confirmation
STATIC_PODS = "static"  # a line of a lease that allows every static pod
PARKED = "parked"  # the first word of the phase of a node that waits for pods to leave
_BOOT_SECONDS = 120
_INCOMPLETE = "the node's answer about its change is incomplete"

_NODE = (
    "node/paths",
    "node/files",
    "node/pods",
    "node/work",
    "node/boot",
    "node/fence",
    "node/trace",
    "node/journal",
    "node/lock",
)


@dataclass(frozen=True)
class Transaction:
    """One change of one node: its parts, the lowest first.

    It begins only while the node is as `planned_on` describes it (None: always): not after a reboot or
    another transaction, not when a file or a state file has changed, and not later than `good_for_seconds`
    after the look, by the node's own clock. Once it is proved on the node, it waits `confirm_seconds` for a
    confirmation with the `token` over a new connection, and rolls back without one.

    `allowed` are the UIDs of the pods that may be on the node meanwhile, after a drain those of DaemonSets
    and static pods (a static pod's UID is its annotation kubernetes.io/config.hash). No step that disturbs
    pods happens, forward or back, while others are there (`parked`). Without a drain it is None: then no pod
    may come if `pods` says that none run, and otherwise all of them may be disturbed.

    `work` is the evidence of other work. It does not begin while there is any that it would disturb, except
    of the kinds in `ends_work`.

    `plan` is the digest of the target state; `failed_before` is why it is not retried automatically.
    `undone_by_boot`: its kubelet is started by others while it waits for its confirmation, so without one the
    node reboots, and undoes it before the kubelet starts again.
    """

    id: str
    parts: tuple[Part, ...] = ()
    planned_on: Fingerprint | None = None
    good_for_seconds: int = 120
    confirm_seconds: int = CONFIRM_SECONDS
    token: str = field(default_factory=lambda: secrets.token_hex(16), compare=False, repr=False)
    plan: str = ""
    failed_before: str = ""
    pods: Pods = NOT_LOOKED_AT
    allowed: tuple[str, ...] | None = None
    work: OtherWork = field(default_factory=OtherWork)
    ends_work: frozenset[str] = frozenset()
    undone_by_boot: bool = False

    @property
    def folder(self) -> str:
        """The folder on the node with the transaction's journal, backup and result."""
        return _folder(self.id)

    def begins_like(self, peer: "Transaction") -> bool:
        """Whether both have the same parts, and were planned on the same node in the same state."""
        our_state, their_state = self.planned_on, peer.planned_on
        if our_state is None or their_state is None or self.parts != peer.parts:
            return False
        return replace(our_state, uptime_seconds=0) == replace(their_state, uptime_seconds=0)

    @property
    def disturbs(self) -> bool:
        """Whether it would disturb running pods."""
        return any(part.drains for part in self.parts)

    @property
    def drains(self) -> bool:
        """Whether it disturbs pods and there may be some."""
        return self.disturbs and self.pods.may_be_there

    @property
    def lease(self) -> tuple[str, ...] | None:
        """The UIDs of the pods that may be on the node; None where all of them may be disturbed."""
        if self.allowed is not None:
            return self.allowed
        if not self.disturbs or self.pods.may_run:
            return None
        return (STATIC_PODS,) if self.undone_by_boot else ()

    @property
    def undrainable(self) -> str:
        """Why a drain would be pointless, "" if not: a Node stays Ready a while without its kubelet."""
        if not self.drains or not self.pods.kubelet_down:
            return ""
        return f"no kubelet runs on it ({self.pods.kubelet_down}), and without one no pod ends in a drain"

    @property
    def spares(self) -> tuple[str, ...]:
        """The kinds of work, other than pods, that must not be on the node while it is changed."""
        return tuple(kind for kind in KINDS if kind not in self.ends_work) if self._ending else ()

    @property
    def _ending(self) -> tuple[str, ...]:
        """The parts that disturb work other than pods, too."""
        return tuple(part.name for part in self.parts if part.drains and not part.only_pods)

    @property
    def ended_work(self) -> str:
        """Why it is not carried out, with the evidence of work that it must not disturb; "" without any."""
        evidence = self.work.ended_without(self.ends_work) if self.spares else ""
        return evidence and f"the change would end work that no drain moves: {evidence}"

    @property
    def reboots(self) -> bool:
        """Whether it needs a reboot to take effect."""
        return any(part.reboots for part in self.parts)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What it does besides writing files, one sentence each."""
        return tuple(sentence for part in self.parts for sentence in part.sentences)

    @property
    def moves(self) -> tuple[str, ...]:
        """A line for each value that changes."""
        return tuple(line for part in self.parts for line in part.moves)

    @property
    def writes(self) -> tuple[str, ...]:
        """A line for each file that it replaces."""
        return tuple(f"{change.path} is written" for part in self.parts for change in part.changed)

    @property
    def change_seconds(self) -> int:
        """The time limit of the change, including the wait for its confirmation, in seconds."""
        return self.confirm_seconds + sum(part.apply_seconds + part.commit_seconds for part in self.parts)

    @property
    def undo_seconds(self) -> int:
        """The time limit of the undo, in seconds."""
        return sum(part.undo_seconds for part in self.parts)

    @property
    def settings(self) -> dict[str, str]:
        """The variables of the script that the node runs."""
        node_settings = {
            "KEPT_TRANSACTIONS": str(KEPT_TRANSACTIONS),
            "UPWARDS": " ".join(part.name for part in self.parts),
            "UNITS": " ".join(dict.fromkeys(unit for part in self.parts for unit in part.units)),
            "CHANGE_SECONDS": str(self.change_seconds),
            "UNDO_SECONDS": str(self.undo_seconds),
            "CONFIRM_SECONDS": str(self.confirm_seconds),
            "PLAN": self.plan,
            "COMMIT_SECONDS": str(sum(part.commit_seconds for part in self.parts)),
            "BOOT_SECONDS": str(_BOOT_SECONDS + sum(part.boot_seconds for part in self.parts)),
            "DRAINED": "yes" if self.allowed is not None else "",
            "SPARES": " ".join(self.spares),
            "UNDONE_BY_BOOT": "yes" if self.undone_by_boot else "",
            "DISTURBING": " ".join(part.name for part in self.parts if part.drains),
            "ENDING": " ".join(self._ending),
            **fence.settings(self.planned_on, self.good_for_seconds),
        }
        return node_settings | {name: value for part in self.parts for name, value in part.settings.items()}

    @property
    def files(self) -> dict[str, str]:
        """The files for the node, by name below the transaction's folder; the node runs run.sh."""
        settings = "".join(f"{name} {shell.line(value)}\n" for name, value in self.settings.items())
        data = {f"{part.name}/{name}": text for part in self.parts for name, text in part.data.items()}
        return {
            "settings": settings,
            "planned": fence.planned_lines(self.planned_on),
            "token": f"{self.token}\n",
            "alive": "",
            **({} if self.lease is None else {"allowed": _lines(self.lease)}),
            **data,
            RUN: node_script(tuple(part.name for part in self.parts)),
        }


class Result(NamedTuple):
    """How a transaction ended.

    `outcome` is "applied", "refused" (nothing was changed), "void" (nothing was changed, and it never begins
    any more: it was withdrawn, or the node is not what it was planned on), "unknown" (its records are gone;
    it never begins any more), "rolled-back" or "failed" (a person is needed; `reason` then ends with the
    commands).
    """

    id: str
    outcome: str
    reason: str
    journal: tuple[str, ...] = ()  # the kubelet's last lines, where the change was undone

    @property
    def message(self) -> str:
        """The reason, with the kubelet's last messages where it did not come up."""
        if not self.journal:
            return self.reason
        complaints = [line for line in self.journal if re.match("[EF][0-9]", line)] or self.journal
        return "\n".join([self.reason, "its last output:", *(line[:400] for line in complaints[-5:])])


@dataclass(frozen=True)
class Process:
    """The kubelet's process: equal values mean the same process, which has run without interruption.

    `pid` is 0 where it does not run, `restarts` counts systemd's own restarts, `since_us` is the start of the
    process in microseconds of the machine's monotonic clock, and `booted_at` the time of the boot in seconds
    since 1970 by the machine's own clock.

    `state` is the unit's ActiveState ("" without systemd), `started` whether it has been started in this
    boot, and `queued` whether systemd has yet to start it. `going_down`: the machine is about to reboot or
    power off.
    """

    boot_id: str
    pid: int
    restarts: int
    since_us: int
    booted_at: int = field(default=0, compare=False)
    state: str = field(default="active", compare=False)
    started: bool = field(default=True, compare=False)
    queued: bool = field(default=False, compare=False)
    going_down: bool = field(default=False, compare=False)

    @property
    def runs(self) -> bool:
        """Whether it runs; a unit that systemd does not know counts as running."""
        return bool(self.pid) or not self.state

    @property
    def failed(self) -> bool:
        """Whether it ended by itself: its unit has failed, or systemd is about to restart it."""
        return not self.runs and self.started and self.state in ("failed", "activating")

    @property
    def booted(self) -> str:
        """When the machine booted, in readable form."""
        return f"{datetime.fromtimestamp(self.booted_at, UTC):%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True)
class Status:
    """The progress of a transaction: `phase` is None where the node knows no such transaction.

    A phase is a verb and a part ("apply files", "prove kubelet"), or "keeping", "reboot", "confirming",
    "reverting". While a step waits for pods to leave, the phase is "parked" and that step ("parked stop
    kubelet"), and `parked` names the pods: it goes on once they have left, or `proceed_script` allows them.
    `boot_id` and `uptime_seconds` are the node's. `token` is the attempt's; a
    confirmation must carry it.
    """

    phase: str | None
    running: bool
    result: Result | None
    boot_id: str = ""
    uptime_seconds: int = field(default=0, compare=False)
    token: str = field(default="", compare=False, repr=False)
    parked: str = ""

    @property
    def waits(self) -> bool:
        """Whether the node waits for `confirm_script`, without which it undoes the change."""
        return self.phase == CONFIRMING and self.running and self.result is None

    @property
    def unknown(self) -> bool:
        """Whether the node knows no such transaction."""
        return self.phase is None and self.result is None

    @property
    def broken_off(self) -> bool:
        """Whether it has begun and not ended, but no process works on it: `settle_script` ends it."""
        return self.phase is not None and not self.running and self.result is None


def read_result(text: str) -> Result:
    """Read a result.json; raises HostError for any other text."""
    try:
        document = parse_json(text)
        texts, journal = (document["id"], document["outcome"], document["reason"]), document["journal"]
        if not (isinstance(journal, list) and all(isinstance(text, str) for text in (*texts, *journal))):
            raise TypeError(journal)
        return Result(*texts, journal=tuple(journal))
    except (ValueError, KeyError, TypeError) as error:
        raise HostError(
            "is not a transaction's result",
            where="result.json",
            remedy=f"look below {TRANSACTIONS} on the host",
        ) from error


def start_script(transaction: Transaction) -> str:
    """Return the script that hands the transaction to systemd on the node and returns at once.

    It refuses while another transaction is running, undoes an interrupted one, and does nothing where this
    one has already begun or is void. On a node that is not what the transaction was planned on, it ends
    without an error, and the result is "void".
    """
    texts = {name: text for name, text in transaction.files.items() if name != RUN}
    texts[f"{RUN}.new"] = transaction.files[RUN]
    content = "".join(texts.values()).encode("utf-8", "surrogateescape")
    checksum = hashlib.sha256(content).hexdigest()
    data = base64.encodebytes(content).decode()
    return _script(
        transaction.id, "start_transaction", checksum, _division(texts), " ".join(texts), data=data
    )


def _division(texts: Mapping[str, str]) -> str:
    """Return the sed script that splits texts into files; raises ValueError without a final newline."""
    first, script = 1, ""
    for name, text in texts.items():
        if text and not text.endswith("\n"):
            raise ValueError(f"{name} does not end with a newline")
        if text:
            last = first + text.count("\n") - 1
            script += f"{first},{last}w {name}\n"
            first = last + 1
    return script


def void_script(transaction_id: str) -> str:
    """Return the script that voids a transaction which has not begun, so that it never will.

    The result is "void" for a transaction that was announced to the node (look) and has not begun, "unknown"
    for one that was not. A `start_script` that arrives later finds the result. A transaction that has begun
    is left alone, but a `revert_script` that was sent before and arrives later does nothing.
    """
    return _script(transaction_id, "void_transaction")


def confirm_script(transaction_id: str, token: str) -> str:
    """Return the script that confirms a transaction whose node waits for it: `token` is its attempt's.

    It prints "confirmed", or "not confirmed: " and why. Run it over a connection opened after the change.
    """
    return _script(transaction_id, "confirm_transaction", data=f"{shell.line(token)}\n")


def proceed_script(transaction_id: str, allowed: Iterable[str]) -> str:
    """Return the script for a transaction's new lease after a drain: the pods that may be there."""
    return _script(transaction_id, "renew_lease", data=_lines(allowed))


def revert_script(transaction_id: str, reason: str, last_status: Status, *, blames_plan: bool = True) -> str:
    """Return the script that has systemd undo an applied transaction, and returns at once.

    It does so only while the transaction is the node's last one and still as in `last_status`: in the same
    boot, not long ago, and not voided since; otherwise it prints why it does nothing. With
    `blames_plan` the node does not try the plan again by itself.

    The result is then "rolled-back" or "failed", with this reason; `applied.json` keeps the first result. A
    transaction that is already undone is left alone. The script refuses for a transaction that the node does
    not know or that has not ended, and while another one is running.
    """
    head = (
        last_status.token,
        last_status.boot_id,
        str(last_status.uptime_seconds),
        "yes" if blames_plan else "no",
    )
    text = "".join(f"{shell.line(line)}\n" for line in head) + reason.encode("utf-8", "replace").decode()
    return _script(transaction_id, "revert_transaction", data=f"{encoded(text)}\n")


def settle_script() -> str:
    """Return the script that awaits or undoes an open transaction; `read_waiting` says which one waits."""
    return _script("none", "settle_current")


def read_waiting(output: Output) -> tuple[str, ...]:
    """Return the transaction that waits for its confirmation; raises HostError if it waits for pods."""
    words = [line.partition(" ") for line in Answer.of(output).lines]
    for phase, _, rest in words:
        if phase == PARKED:
            raise parked_error(*rest.partition(": ")[::2])
    return tuple(name for phase, _, name in words if phase == CONFIRMING)


def parked_error(transaction_id: str, reason: str) -> HostError:
    """Return the error for a transaction that waits for pods to leave."""
    error = HostError(
        f"the transaction {transaction_id} waits: {reason}",
        remedy="it goes on by itself once they are gone: drain the node, or end them; then run again",
    )
    error.exit_code = ExitCode.HELD
    return error


def status_script(transaction_id: str, last_status: Status | None = None) -> str:
    """Return the script for `read_status`; a node at work in `last_status` answers on news, or in 4 s."""
    at_work = (
        last_status is not None and last_status.running and last_status.result is None and last_status.phase
    )
    return _script(transaction_id, "tell_status", *([at_work] if at_work else []))


def process_script(unit: str) -> str:
    """Return the script whose output `read_process` reads; `unit` is the kubelet's."""
    return _script("none", "tell_process", unit)


def _script(transaction_id: str, function: str, *arguments: str, data: str = "") -> str:
    folder = _folder(transaction_id)
    variables = {
        "ROOT": TRANSACTIONS,
        "ID": transaction_id,
        "FOLDER": folder,
        "KEPT_TRANSACTIONS": str(KEPT_TRANSACTIONS),
    }
    library = shell.library(*_NODE, "node/deliver")
    return asking(shell.assignments(variables) + library + shell.call(function, arguments, data))


def read_status(output: Output) -> Status:
    """Read a status; raises IncompleteStatusError for an incomplete answer: the host is going down."""
    answer = Answer.of(output)
    values = _values(answer)
    result = "\n".join(answer.part("result")).strip()
    try:
        boot_id, uptime = values["Boot"], int(values["Uptime"])
        running = values["LoadState"] == "loaded"
        phase = values["Phase"] or ("keeping" if running else None)  # before its first phase
    except (KeyError, ValueError) as error:
        raise IncompleteStatusError(_INCOMPLETE, remedy="run again") from error
    return Status(
        phase,
        running,
        read_result(result) if result else None,
        boot_id,
        uptime,
        values.get("Token", ""),
        values.get("Parked", ""),
    )


def read_process(output: Output) -> Process:
    """Read the kubelet's process; raises IncompleteStatusError: systemd is busy, or the host going down."""
    try:
        process = _process(_values(Answer.of(output)))
        process.booted.encode()  # no calendar has this time: not an answer
    except (KeyError, ValueError, OverflowError, OSError) as error:
        raise IncompleteStatusError(_INCOMPLETE, remedy="run again") from error
    return process


def _values(answer: Answer) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in answer.lines)


def _process(values: Mapping[str, str]) -> Process:
    """Return the kubelet's process from the properties of its unit, and from those of shutdown.target.

    systemd is stopping where that target is active or has a job. The job is queued before the kubelet is
    stopped for it, and the kubelet's properties are read first.
    """
    pid, restarts = int(values["MainPID"]), int(values["NRestarts"])
    begun, active = (int(values[f"{name}TimestampMonotonic"]) for name in ("ExecMainStart", "ActiveEnter"))
    return Process(
        values["Boot"],
        pid,
        restarts,
        begun,
        int(values["Booted"]),
        state=values["ActiveState"],
        started=bool(pid or restarts or begun or active),
        queued=values.get("Job", "0") not in ("", "0"),
        going_down=values["ShutdownActiveState"] == "active"
        or values.get("ShutdownJob", "0") not in ("", "0"),
    )


@cache
def node_script(parts: tuple[str, ...]) -> str:
    """Return the script that runs transactions with these parts on the node.

    `begin apply` and `begin revert` take the lock and hand `apply` or `revert` to systemd, `recover` ends an
    interrupted transaction, `boot` runs before the stopped units while a transaction is open, `rescue` waits
    for a boot that ends in emergency or rescue mode. Raises ValueError for a part without a required verb.
    """
    script = "#!/bin/sh\n" + shell.library(
        *_NODE, LIBRARY, "node/transaction", "node/rescue", "node/worker", *shell_of(parts), "node/main"
    )
    refuse_incomplete(parts, script)
    return script


def _lines(texts: Iterable[str]) -> str:
    return "".join(f"{shell.line(text)}\n" for text in texts)


def _folder(transaction_id: str) -> str:
    """Return a transaction's folder; raises HostError for an id that cannot be part of a script for root."""
    if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9-]*", transaction_id):
        raise HostError(f"{transaction_id!r} is not the id of a transaction")
    return f"{TRANSACTIONS}/{transaction_id}"
