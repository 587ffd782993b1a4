"""What a change was planned on, so that a node on which it is not true any more refuses it.

The look at a node and the check on it are the same shell words: they cannot disagree about what differs.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from numaforge.errors import HostError

LAST = "last"  # below the transactions: the last one that touched the node, and its outcome
BOOT_ID = "/proc/sys/kernel/random/boot_id"

# /proc/uptime goes on while a machine sleeps, and no time server sets it.
FUNCTIONS = (
    f"""
boot_id() {{ cat {BOOT_ID}; }}
last() {{ cat "$ROOT/{LAST}" 2>/dev/null; }}"""
    r"""
uptime_seconds() { read -r uptime _ < /proc/uptime; echo "${uptime%%.*}"; }
content() { # PATH: the checksum of what is in it
    sum=$(sha256sum < "$1") || sum=absent
    printf '%s\n' "${sum%% *}"
} 2>/dev/null
contents() { # FOLDER PATH...: the checksum of each and of the drop-ins in the folder, then the path
    {
        if [ -d "$1" ]; then find -L "$1" -type f -name '*.conf'; fi
        shift
        printf '%s\n' "$@"
    } | LC_ALL=C sort -u | while IFS= read -r path; do
        printf '%s %s\n' "$(content "$path")" "$path"
    done
}
look() { # FOLDER PATH...: first, so that an edit while the files are being read is one after the look
    printf 'boot %s\nuptime %s\nlast %s\n' "$(boot_id)" "$(uptime_seconds)" "$(last)"
    contents "$@" | sed 's/^/content /'
}
"""
)

# A kubelet whose node is drained still writes its state: a pod that has gone goes from it up to ten seconds
# later (removeStaleState in pkg/kubelet/cm/cpumanager). So a state file in which no pod has anything is never
# in the way: a map of entries that is empty is left out (state/checkpoint.go).
_CHECK = r"""
outdated() { # sets `why` where the node is not what the change was planned on
    [ -n "$PLANNED_BOOT" ] || return 1
    age=$(($(uptime_seconds) - PLANNED_UPTIME))
    if [ "$(boot_id)" != "$PLANNED_BOOT" ]; then
        why="the node was rebooted after it was looked at"
    elif [ "$age" -gt "$GOOD_FOR_SECONDS" ]; then
        why="the node was looked at $age s ago, and that is good for $GOOD_FOR_SECONDS s"
    elif [ "$(last)" != "$PLANNED_LAST" ]; then
        why="another transaction has ended after the node was looked at ($(last))"
    else
        edited false
    fi
}
edited() { # EXCEPTION: sets `why` to the files that were changed, but those for which the exception is true
    [ -n "$PLANNED_BOOT" ] || return 1
    why=$({ planned_contents; present_contents; } | LC_ALL=C sort | uniq -u | cut -d ' ' -f 2- |
        LC_ALL=C sort -u | while IFS= read -r path; do
            if ! "$1" "$path" && ! pins_nothing "$path"; then
                printf '%s was changed after it was looked at; ' "$path"
            fi
        done)
    why=${why%; }
    [ -n "$why" ]
}
pins_nothing() { # PATH: a state file in which no pod has CPUs or memory
    is_state "$1" && [ -e "$1" ] && ! grep -qi entries "$1"
}
"""


@dataclass(frozen=True)
class Fingerprint:
    """What a node was like when a change of it was planned.

    `uptime_seconds` is the node's own clock. `predecessor` is the last transaction that touched the node,
    with its outcome ("T1 applied"), "" for none. `contents` are the checksums of the files that the plan
    depends on, by path ("absent" for one that does not exist), with every drop-in of `drop_in_folder`.
    """

    boot_id: str
    uptime_seconds: int
    predecessor: str
    contents: Mapping[str, str]
    drop_in_folder: str | None = None


def look_command(drop_in_folder: str | None, paths: Sequence[str]) -> str:
    """Return the shell command whose lines `read_fingerprint` reads; FUNCTIONS come before it."""
    return f"look {shlex.join([drop_in_folder or '', *paths])}\n"


def read_fingerprint(lines: Iterable[str], drop_in_folder: str | None) -> Fingerprint:
    """Read what `look_command` printed, among other lines.

    Raises HostError for an answer that is cut off.
    """
    words = [line.partition(" ") for line in lines]
    said = {name: value for name, _, value in words}
    contents = [value.partition(" ") for name, _, value in words if name == "content"]
    try:
        return Fingerprint(
            said["boot"],
            int(said["uptime"]),
            said["last"],
            {path: checksum for checksum, _, path in contents},
            drop_in_folder,
        )
    except (KeyError, ValueError) as error:
        raise HostError("the answer about the kubelet's files is cut off", remedy="run again") from error


def check_functions(
    planned_on: Fingerprint | None,
    good_for_seconds: int,
    invalid_state: Iterable[str],
    kept_state: Iterable[str],
) -> str:
    """Return the shell words `outdated` and `edited`, which are never true without a fingerprint.

    `is_state` and `is_kept_state` tell them which paths are state files. FUNCTIONS come before them.
    """
    kept = [*kept_state]
    found = planned_on or Fingerprint("", 0, "", {})
    lines = [f"{checksum} {path}" for path, checksum in found.contents.items()]
    return f"""
PLANNED_BOOT={shlex.quote(found.boot_id)}
PLANNED_UPTIME={found.uptime_seconds}
PLANNED_LAST={shlex.quote(found.predecessor)}
GOOD_FOR_SECONDS={good_for_seconds}
planned_contents() {{ printf '%s\\n' {shlex.join(lines)}; }}
present_contents() {{ contents {shlex.join([found.drop_in_folder or "", *found.contents])}; }}
{_one_of("is_kept_state", kept)}{_one_of("is_state", [*invalid_state, *kept])}{_CHECK}"""


def _one_of(name: str, paths: Sequence[str]) -> str:
    """Return a shell function that says whether its argument is one of the paths."""
    found = f"    case $1 in {' | '.join(map(shlex.quote, paths))}) return 0 ;; esac\n" if paths else ""
    return f"{name}() {{\n{found}    return 1\n}}\n"
