"""The change of a live kubelet as one transaction that runs on the node by itself, and undoes itself.

The admin's machine hands the node a script and polls; systemd runs it as a unit of its own with a deadline,
and runs its `recover` half when it ends in any other way than by itself. A lost connection changes nothing
about either, and a reboot ends with the old configuration too: while a transaction is open, a unit of the
node's own stands before the kubelet's. Every step stands in a journal below TRANSACTIONS, so that a later run
finds out how an earlier one ended.

It does nothing on a node that is not the one it was planned on any more (`fence`), and gives back what it
took away with the kubelet (`bound_units`).

What belongs before (cordon, drain) and after (prove, uncordon) concerns the cluster, not the node: a roll-out
puts it around `start_script`, `void_script`, `status_script` and `revert_script`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from numaforge import hugepages
from numaforge.bundle import FUNCTIONS, FileContent, stage_command
from numaforge.errors import HostError
from numaforge.rollout import bound_units, fence
from numaforge.rollout.fence import Fingerprint

TRANSACTIONS = "/var/lib/numaforge/txn"
CURRENT = (
    f"{TRANSACTIONS}/current"  # a link to the transaction that has begun and not ended; it is also the lock
)
BOOT_UNIT = "/etc/systemd/system/numaforge-recover.service"  # there while a transaction is open
JOURNAL_LINES = 200
KEPT_TRANSACTIONS = 5
_UNIT_FOLDERS = ("/etc/systemd/", "/run/systemd/", "/usr/lib/systemd/", "/lib/systemd/")
_STOP_SECONDS = 120  # systemd gives a unit 90 s to stop
_BOOT_SECONDS = 120
_FILL_SECONDS = 600  # one CPU clears every page: two TiB in some minutes

# The kubelet opens it when its resource managers have read their state, as the last thing of their start. It
# is the same path whatever --root-dir says.
_MANAGERS_SOCKET = "/var/lib/kubelet/device-plugins/kubelet.sock"


@dataclass(frozen=True)
class Transaction:
    """One change of one node's kubelet.

    `files` are written, `absent` must not exist afterwards. `invalid_state` maps a state file that the new
    settings make unreadable to the sentence that says why; `kept_state` are the other state files, put back
    with the rest when the change fails. `pools` are the pages of hugepage pools by `nr_hugepages` path: all
    of them are filled, or none. `health_url` is None where the kubelet serves no healthz. Without `restart`
    the kubelet is neither stopped nor started.

    It begins only on the node that it was `planned_on` (None: on any): not after another boot or another
    transaction, not when a file or a state file has another content, and not later than `good_for_seconds`
    after the look, by the node's own clock.

    With it the kubelet has to come up twice: what it has written once must be readable to it. It has come up
    when, within `start_seconds`, it is healthy and its resource managers run. The first time that is enough;
    the second time the same process then has to stay healthy for `stable_seconds`. A kubelet whose managers
    did not run before the change has to stay healthy for `stable_seconds` both times instead.
    """

    id: str
    unit: str
    files: tuple[FileContent, ...]
    absent: tuple[str, ...] = ()
    invalid_state: Mapping[str, str] = field(default_factory=dict)
    kept_state: tuple[str, ...] = ()
    pools: Mapping[str, int] = field(default_factory=dict)
    health_url: str | None = "http://127.0.0.1:10248/healthz"
    restart: bool = True
    start_seconds: int = 120
    stable_seconds: int = 10
    planned_on: Fingerprint | None = None
    good_for_seconds: int = 120

    @property
    def folder(self) -> str:
        """Where the transaction keeps its journal, its backup and its result on the node."""
        return _folder(self.id)

    @property
    def systemd_unit(self) -> str:
        """The transient unit that runs it."""
        return _systemd_unit(self.id)

    @property
    def fill_seconds(self) -> int:
        """How long the pools may take."""
        return _FILL_SECONDS if self.pools else 0

    @property
    def change_seconds(self) -> int:
        """How long the change may take: the pools, and two starts."""
        return self.fill_seconds + 2 * (_STOP_SECONDS + self.start_seconds) + self.stable_seconds

    @property
    def undo_seconds(self) -> int:
        """How long its undoing may take."""
        return self.fill_seconds + _STOP_SECONDS + self.start_seconds + self.stable_seconds

    @property
    def deadline_seconds(self) -> int:
        """After how long there is a result on a node that did not restart, whatever happened."""
        return self.change_seconds + 2 * self.undo_seconds


@dataclass(frozen=True)
class Result:
    """How a transaction ended.

    `outcome` is "applied", "refused" (nothing was changed), "void" (nothing was changed, and it never begins
    any more: it was withdrawn, or the node is not what it was planned on), "rolled-back" or "failed" (a
    person is needed; `reason` then ends with the commands).
    """

    id: str
    outcome: str
    reason: str
    journal: tuple[str, ...] = ()  # the kubelet's last lines, where the change was undone

    @property
    def message(self) -> str:
        """The reason, with the kubelet's last complaints where it did not come up."""
        if not self.journal:
            return self.reason
        complaints = [line for line in self.journal if re.match("[EF][0-9]", line)] or self.journal
        return "\n".join([self.reason, "the last it said:", *(line[:400] for line in complaints[-5:])])


@dataclass(frozen=True)
class Process:
    """The kubelet's process: two that are equal are the same one, which has run all the time between.

    `pid` is 0 where it does not run, `restarts` what systemd did by itself, `since_us` the machine's
    monotonic clock in microseconds.
    """

    boot_id: str
    pid: int
    restarts: int
    since_us: int


@dataclass(frozen=True)
class Status:
    """How far a transaction is: `phase` is None where the node knows no such transaction.

    Phases: staging, stopping, filling (pools), replacing, starting, starting-again; undoing, reverting.
    """

    phase: str | None
    running: bool
    result: Result | None
    process: Process

    @property
    def broken_off(self) -> bool:
        """Whether it has begun, not ended, and nothing works on it: `settle_script` ends it."""
        return self.phase is not None and not self.running and self.result is None


def read_result(text: str) -> Result:
    """Read a result.json.

    Raises HostError for a text that is none.
    """
    try:
        document = json.loads(text)
        return Result(document["id"], document["outcome"], document["reason"], tuple(document["journal"]))
    except (ValueError, KeyError, TypeError) as error:
        raise HostError(
            "is not a transaction's result",
            where="result.json",
            remedy=f"look below {TRANSACTIONS} on the host",
        ) from error


def start_script(transaction: Transaction) -> str:
    """Return the script that hands the transaction to systemd on the node and returns at once.

    It refuses while another transaction is running, undoes one that was broken off, and does nothing for one
    that has begun already or is void. On a node that is not what the transaction was planned on it ends
    without an error, and the result is "void".
    """
    folder = transaction.folder
    return f"""numaforge_start() {{
    umask 077
    mkdir -p {folder} || return 1
    if [ ! -e {folder}/state ]; then
        base64 -d > {folder}/run.new <<'END_OF_FILE' || return 1
{base64.encodebytes(node_script(transaction).encode()).decode()}END_OF_FILE
        sync {folder}/run.new && mv -f {folder}/run.new {folder}/run.sh || return 1
    fi
    sh {folder}/run.sh begin apply < /dev/null
}}
numaforge_start || exit 1
"""


def void_script(transaction_id: str) -> str:
    """Return the script that makes a transaction void that has not begun, so that it never will.

    Nothing happens to one that has begun. A `start_script` that arrives later finds the result, also where
    the node had never heard of the transaction before.
    """
    return f"""numaforge_void() {{
    umask 077
    mkdir -p {_folder(transaction_id)} || return 1
    exec 9> "$ROOT/lock" && flock 9 || return 1
    if has_begun || [ -n "$(outcome "$FOLDER")" ]; then return; fi
    finish void "nothing was changed: the transaction was withdrawn before it began"
}}
ROOT={TRANSACTIONS}
ID={transaction_id}
FOLDER=$ROOT/$ID
{_JOURNAL}{_RELEASE}numaforge_void || exit 1
"""


def revert_script(transaction_id: str, reason: str) -> str:
    """Return the script that has systemd undo a transaction that was applied, and returns at once.

    The transaction's result is "rolled-back" or "failed" then, with this reason; `applied.json` keeps the
    first one. Nothing happens to a transaction that is undone already. It refuses for one that the node does
    not know or that has not ended, and while another one is running.
    """
    folder = _folder(transaction_id)
    text = base64.encodebytes(reason.encode("utf-8", "replace")).decode()
    return f"""numaforge_revert() {{
    umask 077
    if [ ! -e {folder}/run.sh ]; then
        echo "this node knows no transaction {transaction_id}" >&2
        return 1
    fi
    base64 -d > {folder}/revert.new <<'END_OF_FILE' || return 1
{text}END_OF_FILE
    sh {folder}/run.sh begin revert < /dev/null
}}
numaforge_revert || exit 1
"""


def settle_script() -> str:
    """Return the script that ends an unfinished transaction: waits for a running one, undoes a broken one."""
    return f"""ROOT={TRANSACTIONS}
{_SETTLE}
if [ -d "$ROOT" ]; then
    while other=$(readlink "$ROOT/current") && runs "$other"; do pause; done
    exec 9> "$ROOT/lock" && flock 9 && settle
fi
"""


def status_script(transaction_id: str, unit: str) -> str:
    """Return the script whose output `read_status` reads; `unit` is the kubelet's."""
    folder = _folder(transaction_id)
    # The unit before the result: it ends after it has written that. An older version wrote any bytes into it.
    return f"""{_VALID_UTF8}systemctl show -p LoadState {_systemd_unit(transaction_id)}
systemctl show -p MainPID -p NRestarts -p ActiveEnterTimestampMonotonic {shlex.quote(unit)}
echo "Boot=$(cat {fence.BOOT_ID})"
echo "Phase=$(cat {folder}/state 2>/dev/null)"
echo Result
cat {folder}/result.json 2>/dev/null | valid_utf8
echo .
"""


def read_status(text: str) -> Status:
    """Read what `status_script` printed.

    Raises HostError for an answer that is cut off.
    """
    head, found, tail = text.partition("\nResult\n")
    body = tail.strip()
    values = dict(line.partition("=")[::2] for line in head.splitlines())
    try:
        if not found or not body.endswith("."):
            raise ValueError(text)
        process = Process(
            values["Boot"],
            int(values["MainPID"]),
            int(values["NRestarts"]),
            int(values["ActiveEnterTimestampMonotonic"]),
        )
        running = values["LoadState"] == "loaded"
        phase = values["Phase"] or ("staging" if running else None)  # systemd has it before it says a word
    except (KeyError, ValueError) as error:
        raise HostError("the answer about the kubelet's change is cut off", remedy="run again") from error
    result = body.removesuffix(".").strip()
    return Status(phase, running, read_result(result) if result else None, process)


def node_script(transaction: Transaction) -> str:
    """Return the script that carries everything out on the node, with its verbs.

    `begin apply` and `begin revert` take the lock and hand `apply` or `revert` to systemd, `recover` ends
    what was broken off, `boot` stands before the kubelet while a transaction is open.
    """
    changed = [file.path for file in transaction.files] + list(transaction.absent)
    state = [*transaction.invalid_state, *transaction.kept_state]
    stages = "".join(stage_command(number, file) for number, file in enumerate(transaction.files))
    discards = _each("discard {0} {1}", enumerate(file.path for file in transaction.files))
    keeps = _each('keep "$FOLDER/backup" {0} || return 1', zip(changed, strict=True))
    keeps_pools = _each("keep_pool {0} || return 1", zip(transaction.pools, strict=True))
    earlier_pools = {path: f'"$(cat "$FOLDER/backup"{shlex.quote(path)})"' for path in transaction.pools}
    keeps_state = _each('keep "$FOLDER/backup" {0} || return 1', zip(state, strict=True))
    places = _each("place {0} {1} || return 1", enumerate(file.path for file in transaction.files))
    removals = _each("remove {0} || return 1", zip(transaction.absent, strict=True))
    state_removals = _each("remove {0} || return 1", zip(transaction.invalid_state, strict=True))
    placed = [_checksum(file.text) for file in transaction.files] + ["absent"] * len(transaction.absent)
    put_backs = _each("take_back {0} {1} || by_hand {0}", zip(changed, placed, strict=True))
    put_backs_state = _each('put_back "$FOLDER/backup" {0} || by_hand {0}', zip(state, strict=True))
    planned = fence.check_functions(
        transaction.planned_on,
        transaction.good_for_seconds,
        transaction.invalid_state,
        transaction.kept_state,
    )
    return f"""#!/bin/sh
# Written by numaforge: changes {transaction.unit} and undoes the change when it does not come up.
ROOT={TRANSACTIONS}
ID={transaction.id}
FOLDER=$ROOT/$ID
UNIT={shlex.quote(transaction.unit)}
RESTART={"yes" if transaction.restart else ""}
UNIT_FILES={"yes" if any(path.startswith(_UNIT_FOLDERS) for path in changed) else ""}
POOLS={"yes" if transaction.pools else ""}
START_SECONDS={transaction.start_seconds}
STABLE_SECONDS={transaction.stable_seconds}
CHANGE_SECONDS={transaction.change_seconds}
UNDO_SECONDS={transaction.undo_seconds}
BOOT_SECONDS={_BOOT_SECONDS + transaction.fill_seconds}
MANAGERS_SOCKET={_MANAGERS_SOCKET}
{FUNCTIONS}{fence.FUNCTIONS}{hugepages.FUNCTIONS}{bound_units.FUNCTIONS}\
{_POOLS}{_SETTLE}{_JOURNAL}{_RELEASE}{_LOCK}{planned}
health() {{
{_health_command(transaction.health_url)}
}}
{_KUBELET}
{hugepages.pools_function("planned_pools", transaction.pools)}\
{hugepages.pools_function("earlier_pools", earlier_pools)}\
stage_all() {{
{stages}    :
}}
discard_all() {{
{discards}    :
}}
keep_all() {{
    mkdir -p "$FOLDER/backup" || return 1
{keeps}{keeps_pools}    sync -f "$FOLDER"
}}
keep_state() {{ # the kubelet writes these until it is stopped
{keeps_state}    sync -f "$FOLDER"
}}
replace_all() {{ # from here on there is something to put back
    : > "$FOLDER/replaced" && sync -f "$FOLDER" || return 1
{places}{removals}{state_removals}    :
}}
put_back_all() {{
    commands=
    [ -e "$FOLDER/replaced" ] || return 0
{put_backs}{put_backs_state}    [ -z "$commands" ]
}}
{_VERBS}"""


def health_url(config: Mapping[str, object]) -> str | None:
    """Return where a kubelet of this effective configuration answers healthz, or None where it does not."""
    port = config.get("healthzPort", 10248)
    if not port:
        return None
    address = str(config.get("healthzBindAddress") or "127.0.0.1")
    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104 (compared, not bound)
    return f"http://[{address}]:{port}/healthz" if ":" in address else f"http://{address}:{port}/healthz"


_POOLS = (
    f"""
NO_SUCH_POOL={shlex.quote(f"{hugepages.NO_SUCH_POOL}; {hugepages.OTHER_SIZES}")}"""
    r"""
keep_pool() { # PATH
    if [ ! -e "$1" ]; then
        echo "$1: $NO_SUCH_POOL" >&2
        return 1
    fi
    mkdir -p "$FOLDER/backup${1%/*}" && pages "$1" > "$FOLDER/backup$1"
}
fill_pools() { # sets `why` when it cannot
    if set_pools planned_pools; then return; fi
    why="$(printf '%s\n' "$short" | sed 's/$/;/') memory is too fragmented, or pages are in use:"
    why="$why reboot the host and run again at once, or ask for fewer pages"
    return 1
}
put_back_pools() { # sets `lacking` to what is amiss and what helps
    lacking=
    if [ -z "$POOLS" ] || set_pools earlier_pools; then return; fi
    pool_commands=
    earlier_pools pool_by_hand
    lacking="; not every pool of huge pages has what it had: $(printf '%s' "$short" | tr '\n' ';')."
    lacking="$lacking Reboot the host, which fills them, or by hand: $pool_commands"
}
pool_by_hand() { # PATH PAGES: add the command that puts it back; what frees memory comes first
    if [ "$(pages "$1")" = "$2" ]; then return; fi
    command="echo $2 > '$1'; "
    if [ "$(pages "$1")" -gt "$2" ]; then
        pool_commands="$command$pool_commands"
    else
        pool_commands="$pool_commands$command"
    fi
}
"""
)

# A unit is loaded until systemd has run its recover half too.
_SETTLE = r"""
pause() { sleep 0.5 2>/dev/null || sleep 1; }
runs() { # ID
    [ "$(systemctl show -p LoadState --value "numaforge-kubelet-$1.service")" = loaded ]
}
settle() { # wait for a transaction that is ending, undo one that was broken off
    other=$(readlink "$ROOT/current") || return 0
    while runs "$other"; do pause; done
    if [ ! -e "$ROOT/$other/run.sh" ]; then
        rm -f "$ROOT/current"
    elif [ -L "$ROOT/current" ]; then
        sh "$ROOT/$other/run.sh" recover 9>&-
    fi
}
"""

_VALID_UTF8 = r"""
valid_utf8() { # what reads it over SSH reads nothing else
    if command -v iconv > /dev/null 2>&1; then
        iconv -c -f UTF-8 -t UTF-8 2>/dev/null
    else
        LC_ALL=C tr '\200-\377' '?'
    fi
}
"""

# `state`, `last` and `result.json` are renamed into place and flushed: they are read after a power cut.
_JOURNAL = (
    _VALID_UTF8
    + r"""
phase() {
    printf '%s\n' "$1" > "$FOLDER/state.new" && sync "$FOLDER/state.new" &&
        mv -f "$FOLDER/state.new" "$FOLDER/state" && sync "$FOLDER"
}
outcome() { # FOLDER
    sed -n '1s/.*, "outcome": "\([a-z-]*\)", .*/\1/p' "$1/result.json" 2>/dev/null
}
json_line() { # a line of any bytes on stdin as the inside of a JSON string
    valid_utf8 | tr -d '\000-\010\013-\037' | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/\t/\\t/g'
}
keep_journal() { # the kubelet's last lines, of its first failure
    [ -e "$FOLDER/journal" ] && return
    journalctl -u "$UNIT" _SYSTEMD_INVOCATION_ID="$(systemctl show -p InvocationID --value "$UNIT")" \
        -n """
    + str(JOURNAL_LINES)
    + r""" --no-pager -o cat > "$FOLDER/journal.new" 2>/dev/null
    mv -f "$FOLDER/journal.new" "$FOLDER/journal"
}
finish() { # OUTCOME REASON
    rm -f "$FOLDER/reserve"
    {
        printf '{"id": "%s", "outcome": "%s", "reason": "%s", "journal": [' "$ID" "$1" \
            "$(printf '%s' "$2" | tr '\n' ' ' | json_line)"
        separator=
        if [ -e "$FOLDER/journal" ]; then
            json_line < "$FOLDER/journal" | while IFS= read -r line; do
                printf '%s\n  "%s"' "$separator" "$line"
                separator=,
            done
        fi
        printf ']}\n'
    } > "$FOLDER/result.new" && sync "$FOLDER/result.new" || return 1
    touched=yes
    case $1 in
    void | refused) touched= ;; # the node is as it was: what was planned on it is still true
    *) printf '%s %s\n' "$ID" "$1" > "$ROOT/last.new" && sync "$ROOT/last.new" &&
        mv -f "$ROOT/last.new" "$ROOT/last" || return 1 ;;
    esac
    mv -f "$FOLDER/result.new" "$FOLDER/result.json" && sync -f "$FOLDER" || return 1
    # Only with a new predecessor is it certain that one whose folder goes does not begin any more.
    if [ -n "$touched" ]; then prune; fi
    release
}
prune() { # the oldest finished transactions, but none that needs a person, and none that holds an edit
    kept=0
    untouched=0
    for id in $(ls -1t "$ROOT"); do
        if [ -L "$ROOT/$id" ] || [ ! -d "$ROOT/$id" ]; then continue; fi
        ended_as=$(outcome "$ROOT/$id")
        case $ended_as in
        void | refused) untouched=$((untouched + 1)) number=$untouched ;; # they hold no backup that counts
        *) kept=$((kept + 1)) number=$kept ;;
        esac
        if [ "$number" -gt """
    + str(KEPT_TRANSACTIONS)
    + r""" ] && [ "$id" != "$ID" ] && [ "$ended_as" != failed ] && [ ! -e "$ROOT/$id/edited" ]; then
            rm -rf "${ROOT:?}/$id"
        fi
    done
}
"""
)

_RELEASE = (
    f"""
BOOT_UNIT={BOOT_UNIT}"""
    r"""
has_begun() { [ -e "$FOLDER/state" ] || [ "$(readlink "$ROOT/current")" = "$ID" ]; }
release() {
    if [ "$(readlink "$ROOT/current")" = "$ID" ]; then
        rm -f "${BOOT_UNIT%/*}/multi-user.target.wants/${BOOT_UNIT##*/}" "$BOOT_UNIT"
        rm -f "$ROOT/current"
    fi
}
"""
)

_LOCK = r"""
hand_over() { # VERB: have systemd do it, whatever becomes of whoever asked
    systemd-run "--unit=numaforge-kubelet-$ID.service" --collect "--description=numaforge changes $UNIT" \
        "--property=RuntimeMaxSec=$((CHANGE_SECONDS + UNDO_SECONDS))" \
        "--property=TimeoutStopSec=$UNDO_SECONDS" "--property=ExecStopPost=/bin/sh $FOLDER/run.sh recover" \
        /bin/sh "$FOLDER/run.sh" "$1" 9>&-
}
stand_before_kubelet() { # after a reboot the kubelet must not start with what is half written
    wants=${BOOT_UNIT%/*}/multi-user.target.wants
    mkdir -p "$wants" && boot_id > "$FOLDER/boot" && sync "$FOLDER/boot" && cat > "$BOOT_UNIT" <<END &&
# Written by numaforge; it is removed when the change of the kubelet has ended.
[Unit]
Description=Undo a change of $UNIT that a reboot broke off
Before=$UNIT
RequiresMountsFor=$ROOT
ConditionPathIsSymbolicLink=$ROOT/current

[Service]
Type=oneshot
ExecStart=/bin/sh $ROOT/current/run.sh boot
TimeoutStartSec=$BOOT_SECONDS
END
        ln -sf "$BOOT_UNIT" "$wants/${BOOT_UNIT##*/}" && sync "$BOOT_UNIT" "$wants"
}
take() {
    stand_before_kubelet && ln -s "$ID" "$ROOT/current" && sync "$ROOT"
}
begin() { # apply or revert
    umask 022
    exec 9> "$ROOT/lock" && flock 9 || return 1
    other=$(readlink "$ROOT/current")
    if [ -n "$other" ] && runs "$other" && [ ! -e "$ROOT/$other/result.json" ]; then
        if [ "$other $1" = "$ID apply" ]; then return; fi
        if [ "$other $1" = "$ID revert" ] && [ -e "$FOLDER/revert" ]; then return; fi
        echo "the transaction $other is changing this kubelet ($(cat "$ROOT/$other/state")):" \
            "wait until it has ended" >&2
        return 1
    fi
    settle
    while runs "$ID"; do pause; done
    if [ -L "$ROOT/current" ]; then
        echo "the transaction $other was broken off and cannot be ended: see $ROOT/$other" >&2
        return 1
    fi
    case $1,$(outcome "$FOLDER") in
    apply,)
        if [ -e "$FOLDER/state" ]; then # to begin again would take what is half written for the old
            echo "the transaction $ID was broken off, and its lock is gone: see $FOLDER" >&2
            return 1
        fi
        if outdated; then
            finish void "nothing was changed: $why"
            return
        fi
        ;;
    revert,applied) mv -f "$FOLDER/revert.new" "$FOLDER/revert" && sync "$FOLDER/revert" || return 1 ;;
    revert,)
        echo "the transaction $ID has not been applied: there is nothing to undo" >&2
        return 1
        ;;
    *) return ;;
    esac
    take && hand_over "$1" || { release; return 1; }
}
"""

_KUBELET = r"""
unit_state() { systemctl show -p MainPID -p NRestarts -p SubState "$UNIT"; }
going_down() { # reboot, poweroff, halt, kexec: each of them is on its way to this target
    case $(systemctl show -p ActiveState -p Job shutdown.target) in
    *ActiveState=active* | *Job=[1-9]*) return 0 ;;
    *) return 1 ;;
    esac
}
managers_run() { grep -q " $MANAGERS_SOCKET\$" /proc/net/unix; }
managers_run_as_before() { [ ! -e "$FOLDER/managers-ran" ] || managers_run; }
comes_up() { # SECONDS that it has to stay up; sets `why` when it does not
    deadline=$(($(uptime_seconds) + START_SECONDS))
    steady=
    while :; do
        now=$(uptime_seconds)
        unit=$(unit_state)
        case $unit in
        *SubState=auto-restart* | *SubState=failed* | *SubState=dead*)
            why="the kubelet ended by itself"
            return 1
            ;;
        *NRestarts=0*) ;;
        *)
            why="the kubelet ended by itself and was restarted"
            return 1
            ;;
        esac
        if health; then
            if [ "$unit" != "$steady" ]; then
                steady=$unit
                since=$now
            fi
            if managers_run_as_before && bound_run && [ $((now - since)) -ge "$1" ]; then return 0; fi
        else
            steady=
        fi
        if [ "$now" -ge "$deadline" ]; then
            if [ -z "$steady" ]; then
                why="the kubelet was not healthy within $START_SECONDS s"
                return 1
            elif ! managers_run_as_before; then
                why="the kubelet's resource managers did not start within $START_SECONDS s;"
                why="$why does the container runtime answer?"
                return 1
            elif ! bound_run; then
                why="$down, which was active and which systemd stops with the kubelet,"
                why="$why was not active again within $START_SECONDS s"
                return 1
            fi
        fi
        pause
    done
}
reload_units() { # only where that is needed: containers that still run may lose their devices by it
    if [ -n "$UNIT_FILES" ] || [ "$(systemctl show -p NeedDaemonReload --value "$UNIT")" = yes ]; then
        systemctl daemon-reload || { why="systemctl daemon-reload failed"; return 1; }
    fi
}
reload_for_later() { # a kubelet that runs on reads its unit again when it restarts, which reloads it
    systemctl is-active --quiet "$UNIT" || reload_units
}
start_unit() { # SECONDS that it has to stay up
    reload_units || return 1
    systemctl reset-failed "$UNIT" 2>/dev/null
    systemctl start "$UNIT" || { why="systemctl start $UNIT failed"; return 1; }
    start_bound
    comes_up "$1"
}
stop_unit() {
    note_bound
    systemctl stop "$UNIT"
}
"""

_VERBS = r"""
stage_and_keep() {
    stage_all && keep_all && note_bound && head -c 524288 /dev/zero > "$FOLDER/reserve" && phase stopping
}
change() {
    why="the kubelet could not be stopped"
    if [ -n "$RESTART" ]; then stop_unit || return 1; fi
    why="the kubelet's state could not be copied"
    keep_state || return 1
    if [ -n "$POOLS" ]; then
        why="the transaction's journal could not be written"
        phase filling && fill_pools || return 1
    fi
    # The kubelet writes its state until it has ended; what is kept is kept as it is now.
    if edited is_kept_state; then return 1; fi
    why="a file could not be replaced"
    phase replacing && replace_all || return 1
    why="the transaction's journal could not be written"
    phase starting || return 1
    if [ -z "$RESTART" ]; then
        reload_for_later
        return
    fi
    enough=0
    if [ ! -e "$FOLDER/managers-ran" ]; then enough=$STABLE_SECONDS; fi
    start_unit "$enough" || return 1
    why="the transaction's journal could not be written"
    phase starting-again || return 1
    why="the kubelet could not be stopped for its second start"
    stop_unit || return 1
    if start_unit "$STABLE_SECONDS"; then return; fi
    why="the kubelet came up with the new configuration, and not a second time: $why"
    return 1
}
by_hand() { # PATH: add the command that puts it back
    if [ -e "$FOLDER/backup$1" ]; then
        commands="${commands}cp -a '$FOLDER/backup$1' '$1'; "
    else
        commands="${commands}rm -f '$1'; "
    fi
}
take_back() { # PATH CHECKSUM of what was placed: put it back, but lose no text that came from elsewhere
    now=$(content "$1")
    if [ "$now" != absent ] && [ "$now" != "$2" ] && [ "$now" != "$(content "$FOLDER/backup$1")" ]; then
        keep "$FOLDER/edited" "$1" || return 1
    fi
    put_back "$FOLDER/backup" "$1"
}
edits() { # what `take_back` has kept
    [ -d "$FOLDER/edited" ] || return
    find "$FOLDER/edited" -type f | LC_ALL=C sort | while IFS= read -r path; do
        printf '; %s was edited during the change: its text is kept in %s' "${path#"$FOLDER/edited"}" "$path"
    done
}
undo() { # PHASE REASON
    # Nothing can be started or proved now. The next boot puts everything back before the kubelet starts.
    if going_down; then return 1; fi
    reason=$2
    rm -f "$FOLDER/reserve" # what is written from here on may need the room
    keep_journal
    phase "$1"
    discard_all
    stuck=
    if [ "$(cat "$FOLDER/back" 2>/dev/null)" != "$(boot_id)" ]; then # else `boot` has done it
        if [ -n "$RESTART" ]; then stop_unit || stuck="the kubelet could not be stopped"; fi
        put_back_all || stuck="${stuck:+$stuck, and }not every file could be put back"
    fi
    put_back_pools
    failed=$lacking
    old="the old configuration is back"
    if [ ! -e "$FOLDER/replaced" ] && edited is_kept_state; then
        old="nothing was replaced, that edit stays"
    fi
    if [ -n "$stuck" ]; then
        failed=yes
        back="$stuck. By hand: ${commands}systemctl daemon-reload; systemctl restart $UNIT$(bound_by_hand)"
    elif [ -z "$RESTART" ]; then
        reload_for_later
        back="the files are as they were"
    elif start_unit "$STABLE_SECONDS"; then
        back="$old and the kubelet is healthy with it"
    elif [ ! -e "$FOLDER/was-healthy" ]; then
        back="$old; the kubelet was not healthy before either"
    else
        failed=yes
        commands="journalctl -u $UNIT -n 50; systemctl restart $UNIT$(bound_by_hand)"
        back="$old, but $why with it too. By hand: $commands"
    fi
    if [ -n "$failed" ]; then
        if going_down; then return 1; fi
        finish failed "$reason$(edits); $back$lacking"
        return 1
    fi
    finish rolled-back "$reason$(edits); $back"
}
apply() {
    umask 022
    phase staging
    if [ -n "$RESTART" ] && health; then
        : > "$FOLDER/was-healthy"
        if managers_run; then : > "$FOLDER/managers-ran"; fi
    fi
    if ! stage_and_keep 2> "$FOLDER/errors"; then
        refuse "$(tail -n 3 "$FOLDER/errors")"
        return 1
    fi
    if ! change; then
        undo undoing "$why"
        return 1
    fi
    finish applied "${RESTART:+the kubelet is healthy with the new configuration}"
}
refuse() { # REASON
    discard_all
    finish refused "nothing was changed: $1"
}
revert() {
    umask 022
    if [ ! -e "$FOLDER/applied.json" ]; then
        mv "$FOLDER/result.json" "$FOLDER/applied.json" && sync "$FOLDER" || return 1
    fi
    undo reverting "$(cat "$FOLDER/revert")"
}
recover() {
    umask 022
    if ended; then
        release
    elif [ -e "$FOLDER/revert" ]; then
        revert
    elif unchanged; then
        refuse "the transaction was broken off before it began"
    else
        undo undoing "the transaction was broken off while $(cat "$FOLDER/state")"
    fi
}
unchanged() {
    case $(cat "$FOLDER/state" 2>/dev/null) in
    '' | staging) return 0 ;;
    *) return 1 ;;
    esac
}
ended() { [ -e "$FOLDER/result.json" ] && { [ ! -e "$FOLDER/revert" ] || [ -e "$FOLDER/applied.json" ]; }; }
boot() { # the kubelet waits for this; the proof that it comes up has to wait for the kubelet
    if [ "$(cat "$FOLDER/boot")" = "$(boot_id)" ]; then return; fi
    if ! ended && ! unchanged; then
        discard_all
        { [ -e "$FOLDER/back" ] || put_back_all; } && systemctl daemon-reload && boot_id > "$FOLDER/back"
        put_back_pools
    fi
    hand_over recover
}
"$@"
"""


def _folder(transaction_id: str) -> str:
    """Return a transaction's folder.

    Raises HostError for what is no id: it may come from a cluster, and becomes part of a script for root.
    """
    if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9-]*", transaction_id):
        raise HostError(f"{transaction_id!r} is not the id of a transaction")
    return f"{TRANSACTIONS}/{transaction_id}"


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _systemd_unit(transaction_id: str) -> str:
    return f"numaforge-kubelet-{transaction_id}.service"


def _health_command(url: str | None) -> str:
    """Ask with whatever the host has. The answer is the body `ok`; proxies are for other places."""
    if url is None:
        return "    :"
    address, port = url.removeprefix("http://").removesuffix("/healthz").rsplit(":", 1)
    host = address.strip("[]")
    python = (
        "import sys, urllib.request as r; "
        "sys.exit(r.build_opener(r.ProxyHandler({})).open(sys.argv[1], timeout=2).read() != b'ok')"
    )
    bash = (
        f'exec 3<>"/dev/tcp/{host}/{port}" && printf "GET /healthz HTTP/1.0\\r\\n\\r\\n" >&3 '
        '&& [ "$(tail -n 1 <&3)" = ok ]'
    )
    return f"""    if command -v curl >/dev/null 2>&1; then
        [ "$(curl -fsS --noproxy '*' -m 2 {shlex.quote(url)} 2>/dev/null)" = ok ]
    elif command -v python3 >/dev/null 2>&1; then
        python3 -c {shlex.quote(python)} {shlex.quote(url)} 2>/dev/null
    elif command -v wget >/dev/null 2>&1; then
        [ "$(env -u http_proxy wget -q -T 2 -O - {shlex.quote(url)} 2>/dev/null)" = ok ]
    else
        timeout 2 bash -c {shlex.quote(bash)} 2>/dev/null
    fi"""


def _each(command: str, arguments: object) -> str:
    rows: Sequence[tuple[object, ...]] = list(arguments)  # type: ignore[call-overload]
    return "".join("    " + command.format(*(shlex.quote(str(word)) for word in row)) + "\n" for row in rows)
