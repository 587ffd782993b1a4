"""The change of a live kubelet as one transaction that runs on the node by itself, and undoes itself.

The admin's machine hands the node a script and polls; systemd runs it as a unit of its own with a deadline,
and runs its `recover` half when it ends in any other way than by itself. A lost connection changes nothing
about either. Every step stands in a journal below TRANSACTIONS, so that a later run finds out how an earlier
one ended.

What belongs before (cordon, drain) and after (uncordon) concerns the cluster, not the node: a roll-out puts
it around `start_script` and `wait_script`.
"""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from numaforge.bundle import FUNCTIONS, FileContent, stage_command
from numaforge.errors import HostError

TRANSACTIONS = "/var/lib/numaforge/txn"
CURRENT = (
    f"{TRANSACTIONS}/current"  # a link to the transaction that has begun and not ended; it is also the lock
)
JOURNAL_LINES = 200
_STOP_SECONDS = 120  # systemd gives a unit 90 s to stop


@dataclass(frozen=True)
class Transaction:
    """One change of one node's kubelet.

    `files` are written, `absent` must not exist afterwards. `invalid_state` maps a state file that the new
    settings make unreadable to the sentence that says why; `kept_state` are the other state files, put back
    with the rest when the change fails. `health_url` is None where the kubelet serves no healthz. Without
    `restart` the kubelet is neither stopped nor started. The kubelet has come up when, within
    `start_seconds`, it is healthy and then stays so with the same process for `stable_seconds`.
    """

    id: str
    unit: str
    files: tuple[FileContent, ...]
    absent: tuple[str, ...] = ()
    invalid_state: Mapping[str, str] = field(default_factory=dict)
    kept_state: tuple[str, ...] = ()
    health_url: str | None = "http://127.0.0.1:10248/healthz"
    restart: bool = True
    start_seconds: int = 120
    stable_seconds: int = 10

    @property
    def folder(self) -> str:
        """Where the transaction keeps its journal, its backup and its result on the node."""
        return f"{TRANSACTIONS}/{self.id}"

    @property
    def systemd_unit(self) -> str:
        """The transient unit that runs it."""
        return f"numaforge-kubelet-{self.id}.service"

    @property
    def deadline_seconds(self) -> int:
        """How long either half, the change or its undoing, may take."""
        return _STOP_SECONDS + self.start_seconds + self.stable_seconds


@dataclass(frozen=True)
class Result:
    """How a transaction ended.

    `outcome` is "applied", "refused" (nothing was changed), "rolled-back" or "failed" (a person is needed).
    """

    id: str
    outcome: str
    reason: str
    journal: tuple[str, ...]  # the kubelet's last lines, where it did not come up


@dataclass(frozen=True)
class Process:
    """The kubelet's process: the host's boot, its PID (0: none), systemd's restarts of it, when it started.

    `started` is in microseconds since the boot.
    """

    boot: str
    pid: int
    restarts: int
    started: int

    def __str__(self) -> str:
        return f"PID {self.pid} after {self.restarts} restarts" if self.pid else "none"


@dataclass(frozen=True)
class Status:
    """How far a transaction is on its node: its journal's phase (None: never begun), its end, the kubelet."""

    phase: str | None
    result: Result | None
    process: Process


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

    It refuses while another transaction is running, and undoes one that was broken off.
    """
    run = base64.encodebytes(node_script(transaction).encode()).decode()
    command = shlex.join(
        [
            "systemd-run",
            f"--unit={transaction.systemd_unit}",
            "--collect",
            f"--description=numaforge changes {transaction.unit}",
            f"--property=RuntimeMaxSec={transaction.deadline_seconds * 2}",
            f"--property=TimeoutStopSec={transaction.deadline_seconds}",
            f"--property=ExecStopPost=/bin/sh {transaction.folder}/run.sh recover",
            "/bin/sh",
            f"{transaction.folder}/run.sh",
            "apply",
        ]
    )
    return f"""{_SETTLE}
numaforge_start() {{
    umask 077
    mkdir -p {transaction.folder} || return 1
    base64 -d > {transaction.folder}/run.sh <<'END_OF_FILE' || return 1
{run}END_OF_FILE
    sync {transaction.folder}/run.sh
    if ! ln -s {transaction.id} {CURRENT} 2>/dev/null; then
        settle && ln -s {transaction.id} {CURRENT} || return 1
    fi
    {command} || {{ rm -f {CURRENT}; return 1; }}
}}
numaforge_start || exit 1
"""


def settle_script() -> str:
    """Return the script that ends an unfinished transaction: waits for a running one, undoes a broken one."""
    return f"{_SETTLE}settle\n"


def wait_script(transaction: Transaction) -> str:
    """Return the script that waits for the end and prints result.json; it fails unless all was applied."""
    result = f"{transaction.folder}/result.json"
    return f"""left={transaction.deadline_seconds * 3}
while [ ! -e {result} ]; do
    if [ "$left" -le 0 ]; then
        echo "{transaction.id} has not ended: see systemctl status {transaction.systemd_unit}" >&2
        exit 1
    fi
    left=$((left - 1))
    sleep 1
done
if [ "$(cat {transaction.folder}/outcome)" = applied ]; then cat {result}; exit; fi
cat {transaction.folder}/message >&2
exit 1
"""


def node_script(transaction: Transaction) -> str:
    """Return the script with its two halves, `apply` and `recover`."""
    changed = [file.path for file in transaction.files] + list(transaction.absent)
    state = [*transaction.invalid_state, *transaction.kept_state]
    stages = "".join(stage_command(number, file) for number, file in enumerate(transaction.files))
    discards = _each("discard {0} {1}", enumerate(file.path for file in transaction.files))
    keeps = _each('keep "$FOLDER/backup" {0} || return 1', zip(changed, strict=True))
    keeps_state = _each('keep "$FOLDER/backup" {0} || return 1', zip(state, strict=True))
    places = _each("place {0} {1} || return 1", enumerate(file.path for file in transaction.files)) + _each(
        'rm -f "$(resolved {0})" || return 1', zip(transaction.absent, strict=True)
    )
    removals = _each("rm -f {0} || return 1", zip(transaction.invalid_state, strict=True))
    put_backs = _each('put_back "$FOLDER/backup" {0} || restored=no', zip(changed, strict=True))
    put_backs_state = _each('put_back "$FOLDER/backup" {0} || restored=no', zip(state, strict=True))
    return f"""#!/bin/sh
# Written by numaforge: changes {transaction.unit} and undoes the change when it does not come up.
FOLDER={transaction.folder}
UNIT={shlex.quote(transaction.unit)}
RESTART={"yes" if transaction.restart else ""}
START_SECONDS={transaction.start_seconds}
STABLE_SECONDS={transaction.stable_seconds}
{FUNCTIONS}{_JOURNAL}
health() {{
{_health_command(transaction.health_url)}
}}
{_KUBELET}
stage_all() {{
{stages}    :
}}
discard_all() {{
{discards}    :
}}
keep_all() {{
    mkdir -p "$FOLDER/backup" || return 1
{keeps}    sync
}}
keep_state() {{ # the kubelet writes these until it is stopped
    mkdir -p "$FOLDER/backup" || return 1
{keeps_state}    : > "$FOLDER/state-kept" && sync "$FOLDER/state-kept"
}}
place_all() {{
{places}    :
}}
remove_invalid_state() {{
{removals}    :
}}
put_back_all() {{
    restored=yes
{put_backs}    if [ -e "$FOLDER/state-kept" ]; then
        :
{put_backs_state}    fi
    [ "$restored" = yes ]
}}
{_HALVES}"""


def health_url(config: Mapping[str, object]) -> str | None:
    """Return where a kubelet of this effective configuration answers healthz, or None where it does not."""
    port = config.get("healthzPort", 10248)
    if not port:
        return None
    address = str(config.get("healthzBindAddress") or "127.0.0.1")
    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104 (compared, not bound)
    return f"http://[{address}]:{port}/healthz" if ":" in address else f"http://{address}:{port}/healthz"


_SETTLE = f"""settle() {{
    other=$(readlink {CURRENT}) || return 0
    while systemctl is-active --quiet "numaforge-kubelet-$other.service"; do sleep 1; done
    if [ -L {CURRENT} ]; then sh {TRANSACTIONS}/"$other"/run.sh recover; fi
}}
"""

# `state` and `result.json` are renamed into place and flushed: they are read after a power cut.
_JOURNAL = r"""
phase() {
    printf '%s\n' "$1" > "$FOLDER/state.new" && sync "$FOLDER/state.new" &&
        mv -f "$FOLDER/state.new" "$FOLDER/state"
}
json_line() { # a line of any bytes on stdin as the inside of a JSON string
    tr -d '\000-\010\013-\037' | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/\t/\\t/g'
}
finish() { # OUTCOME REASON
    {
        printf '{"id": "%s", "outcome": "%s", "reason": "%s", "journal": [' "${FOLDER##*/}" "$1" \
            "$(printf '%s' "$2" | tr '\n' ' ' | json_line)"
        separator=
        if [ -e "$FOLDER/journal" ]; then
            json_line < "$FOLDER/journal" | while IFS= read -r line; do
                printf '%s\n  "%s"' "$separator" "$line"
                separator=,
            done
        fi
        printf ']}\n'
    } > "$FOLDER/result.new"
    {
        printf '%s\n' "$2"
        if [ -e "$FOLDER/journal" ]; then
            echo "the last it said:"
            if ! grep '^[EF][0-9]' "$FOLDER/journal" > "$FOLDER/complaints"; then
                cp "$FOLDER/journal" "$FOLDER/complaints"
            fi
            tail -n 5 "$FOLDER/complaints" | cut -c 1-400
        fi
    } > "$FOLDER/message"
    printf '%s\n' "$1" > "$FOLDER/outcome"
    phase "$1"
    sync
    mv -f "$FOLDER/result.new" "$FOLDER/result.json"
    sync "$FOLDER"
    if [ "$(readlink "${FOLDER%/*}/current")" = "${FOLDER##*/}" ]; then rm -f "${FOLDER%/*}/current"; fi
}
"""

# A kubelet can answer healthz once and still end when its managers start, so the same process has to stay.
_KUBELET = r"""
unit_state() { systemctl show -p MainPID -p NRestarts -p SubState "$UNIT"; }
uptime_seconds() { read -r uptime _ < /proc/uptime; echo "${uptime%%.*}"; }
comes_up() { # sets `why` when it does not
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
            elif [ $((now - since)) -ge "$STABLE_SECONDS" ]; then
                return 0
            fi
        else
            steady=
        fi
        if [ "$now" -ge "$deadline" ] && [ -z "$steady" ]; then
            why="the kubelet was not healthy within $START_SECONDS s"
            return 1
        fi
        sleep 0.5 2>/dev/null || sleep 1
    done
}
start_unit() {
    systemctl daemon-reload || { why="systemctl daemon-reload failed"; return 1; }
    systemctl reset-failed "$UNIT" 2>/dev/null
    systemctl start "$UNIT" || { why="systemctl start $UNIT failed"; return 1; }
    comes_up
}
"""

_HALVES = r"""
change() {
    why="the kubelet could not be stopped"
    phase stopping
    if [ -n "$RESTART" ]; then systemctl stop "$UNIT" || return 1; fi
    why="the kubelet's state could not be copied"
    keep_state || return 1
    why="a file could not be replaced"
    phase replacing
    place_all || return 1
    remove_invalid_state || return 1
    phase starting
    if [ -n "$RESTART" ]; then
        start_unit
    else
        why="systemctl daemon-reload failed"
        systemctl daemon-reload
    fi
}
undo() { # REASON
    reason=$1
    journalctl -u "$UNIT" _SYSTEMD_INVOCATION_ID="$(systemctl show -p InvocationID --value "$UNIT")" \
        -n 200 --no-pager -o cat > "$FOLDER/journal" 2>/dev/null
    phase undoing
    discard_all
    if [ -n "$RESTART" ]; then systemctl stop "$UNIT"; fi
    if ! put_back_all; then
        finish failed "$reason; not every file could be put back: compare with $FOLDER/backup by hand"
        return 1
    fi
    if [ -z "$RESTART" ]; then
        systemctl daemon-reload
        finish rolled-back "$reason; the files are as they were"
    elif start_unit; then
        finish rolled-back "$reason; the old configuration is back and the kubelet is healthy with it"
    elif [ ! -e "$FOLDER/was-healthy" ]; then
        finish rolled-back "$reason; the old configuration is back; the kubelet was not healthy before either"
    else
        finish failed "$reason; the old configuration is back, but $why with it too: see journalctl -u $UNIT"
        return 1
    fi
}
apply() {
    umask 022
    phase staging
    if [ -n "$RESTART" ] && health; then : > "$FOLDER/was-healthy"; fi
    if ! stage_all 2> "$FOLDER/errors" || ! keep_all 2>> "$FOLDER/errors"; then
        discard_all
        finish refused "nothing was changed: $(tail -n 3 "$FOLDER/errors")"
        return 1
    fi
    if ! change; then
        undo "$why"
        return 1
    fi
    finish applied "${RESTART:+the kubelet is healthy with the new configuration}"
}
recover() {
    [ -e "$FOLDER/result.json" ] && return
    case $(cat "$FOLDER/state" 2>/dev/null) in
    '' | staging)
        discard_all
        finish refused "nothing was changed: the transaction was broken off before it began"
        ;;
    *) undo "the transaction was broken off while $(cat "$FOLDER/state")" ;;
    esac
}
"$1"
"""


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
