"""Many files on a host in two round trips: one POSIX sh script reads them, one replaces them atomically.

Both scripts run on dash and busybox and need nothing but coreutils' (or busybox') base64, stat, readlink and
sync.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from numaforge.errors import HostError

BACKUP_DIR = "/var/lib/numaforge/backup"

# The shell words that both the bundle and the kubelet's transaction are made of. Every path is resolved
# first, so that a file behind a symbolic link is replaced and the link stays.
FUNCTIONS = r"""
resolved() { readlink -f "$1" 2>/dev/null || printf '%s\n' "$1"; }
temporary() { printf '%s/.numaforge-%s\n' "$(dirname "$(resolved "$1")")" "$2"; }
stage() { # NUMBER PATH MODE OWNER GROUP, content as base64 on stdin: write it beside its target and flush it
    target=$(resolved "$2")
    if [ -e "$target" ] && [ ! -f "$target" ]; then
        echo "$2: is not a regular file; move it away and run again" >&2
        return 1
    fi
    mkdir -p "$(dirname "$target")" || return 1
    new=$(temporary "$2" "$1")
    base64 -d > "$new" && chown "$4:$5" "$new" && chmod "$3" "$new" && sync "$new"
}
discard() { rm -f "$(temporary "$2" "$1")"; } # NUMBER PATH
place() { # NUMBER PATH: let the staged file take its target's place
    mv -f "$(temporary "$2" "$1")" "$(resolved "$2")" && sync "$(dirname "$(resolved "$2")")"
}
keep() { # FOLDER PATH: copy what is there now below FOLDER
    target=$(resolved "$2")
    if [ -e "$target" ]; then
        mkdir -p "$1$(dirname "$2")" && cp -a "$target" "$1$2" && sync "$1$2"
    fi
}
remove() { # PATH
    target=$(resolved "$1")
    if [ -e "$target" ]; then rm -f "$target" && sync "$(dirname "$target")"; fi
}
same() { # PATH PATH: in content, rights and age
    [ "$(stat -c '%a %u %g %Y' "$1")" = "$(stat -c '%a %u %g %Y' "$2" 2>/dev/null)" ] &&
        [ "$(sha256sum < "$1")" = "$(sha256sum < "$2")" ]
}
put_back() { # FOLDER PATH: make PATH what it was when `keep` saw it
    if [ ! -e "$1$2" ]; then
        remove "$2"
    elif ! same "$1$2" "$(resolved "$2")"; then
        cp -a "$1$2" "$(temporary "$2" back)" && sync "$(temporary "$2" back)" && place back "$2"
    fi
}
"""

_GONE = "-"  # no character of base64

# Says everything about all files in two processes, and sends only the texts that are not known already.
# Somebody else may be at work on them: a file that is not there all the time is not there.
_READ = r"""
numaforge_read() {
    echo stat
    stat -L -c '%a %U %G %n' "$@" 2>/dev/null
    echo sum
    sums=$(sha256sum "$@" 2>/dev/null)
    printf '%s\n' "$sums"
    echo text
    for path in "$@"; do
        if [ -e "$path" ] && [ ! -f "$path" ]; then echo "other $path"; fi
    done
    set -f
    IFS='
'
    for line in $sums; do
        case $known in
        *"${line%% *}"*) ;;
        *)
            path=${line#*  }
            echo "file $path"
            if ! base64 < "$path" 2>/dev/null; then
                if [ -e "$path" ]; then return 1; fi
                echo "@GONE@"
            fi
            echo .
            ;;
        esac
    done
    echo end
}
""".replace("@GONE@", _GONE)


@dataclass(frozen=True)
class FileContent:
    """A file as it is to be: text, mode in octal digits, owner and group by name."""

    path: str
    text: str
    mode: str = "0644"
    owner: str = "root"
    group: str = "root"


@dataclass(frozen=True)
class FileState:
    """A file as it is now; bytes that are not UTF-8 are kept as surrogates."""

    text: str
    mode: str
    owner: str
    group: str


@dataclass(frozen=True)
class Change:
    """One file that differs: `old` is None for a new file, `new` for one that is to go."""

    path: str
    old: FileState | None
    new: FileContent | None


def read_script(paths: Sequence[str], known: Iterable[str] = (), more: str = "") -> str:
    """Return the script whose output `parse_states` reads.

    A file whose text is among the `known` ones is not sent. `more` is shell for paths that only the host
    knows.
    """
    sums = " ".join(sorted({_sum(text) for text in known}))
    return f"known='{sums}'\n{_READ}numaforge_read {shlex.join(paths)} {more}\n"


def parse_states(output: Sequence[str], known: Iterable[str] = ()) -> dict[str, FileState]:
    """Return the files that exist, by path, from the read script's output lines.

    Raises HostError when the output is cut off, or a path is neither a regular file nor absent.
    """
    if not {"stat", "sum", "text"} <= {*output} or output[-1] != "end":
        raise HostError("the host's answer about its files is cut off", remedy="run again")
    sums_at, texts_at = output.index("sum"), output.index("text")
    rights = dict(_rights_line(line) for line in output[output.index("stat") + 1 : sums_at])
    sums = {
        path: digest for digest, _, path in (line.partition("  ") for line in output[sums_at + 1 : texts_at])
    }
    texts = {_sum(text): text for text in known}
    texts_sent = _sent_texts(output[texts_at + 1 : -1])
    states = {}
    for path, digest in sums.items():
        if path in rights:
            text = texts_sent[path] if path in texts_sent else texts[digest]
            if text is not None:
                states[path] = FileState(text, *rights[path])
    return states


def _rights_line(line: str) -> tuple[str, tuple[str, str, str]]:
    mode, owner, group, path = line.split(" ", 3)
    return path, (mode.zfill(4), owner, group)


def _sent_texts(lines: Sequence[str]) -> dict[str, str | None]:
    """Return the texts by path, None for a file that has gone before it could be sent."""
    texts: dict[str, str | None] = {}
    rest = iter(lines)
    for line in rest:
        kind, path = line.split(" ", 1)
        if kind == "other":
            raise HostError("is not a regular file", where=path, remedy="move it away and run again")
        body = "".join(takewhile(lambda encoded: encoded != ".", rest))
        gone = body == _GONE
        texts[path] = None if gone else base64.b64decode(body).decode("utf-8", "surrogateescape")
    return texts


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def changes(
    wanted: Sequence[FileContent], absent: Sequence[str], states: Mapping[str, FileState]
) -> tuple[Change, ...]:
    """Return what must change for the `wanted` files to be as described and the `absent` ones away."""
    written = [
        Change(file.path, states.get(file.path), file)
        for file in wanted
        if states.get(file.path) != FileState(file.text, file.mode.zfill(4), file.owner, file.group)
    ]
    removed = [Change(path, states[path], None) for path in absent if path in states]
    return tuple(written + removed)


def diff(change: Change) -> list[str]:
    """Return a unified diff of one change, its mode and owner included, as printable lines."""
    old, new = change.old, change.new
    lines = [
        line.rstrip("\n").encode("utf-8", "backslashreplace").decode()
        for line in difflib.unified_diff(
            (old.text if old else "").splitlines(keepends=True),
            (new.text if new else "").splitlines(keepends=True),
            f"{change.path} (now)" if old else "/dev/null",
            f"{change.path} (planned)" if new else "/dev/null",
        )
    ]
    if old and new and _rights(old) != _rights(new):
        lines.append(f"{change.path}: {_rights(old)} -> {_rights(new)}")
    if not lines:
        lines.append(f"{change.path}: {'removed' if old else 'created'}, empty")
    return lines


def write_script(changed: Sequence[Change]) -> str:
    """Return the script that makes the changes: all of them, or none.

    Everything is staged and flushed before the first file is replaced; what is replaced or removed is kept
    below BACKUP_DIR, and put back when a later replacement fails. A script that arrives cut off does nothing.
    """
    paths = [change.path for change in changed]
    written = [(number, change.new) for number, change in enumerate(changed) if change.new]
    removed = [change.path for change in changed if change.new is None]
    discards = "".join(f"        discard {number} {shlex.quote(file.path)}\n" for number, file in written)
    back = "".join(f'            put_back "$backup" {shlex.quote(path)}\n' for path in paths)
    stages = "".join(stage_command(number, file) for number, file in written)
    keeps = "".join(f'    keep "$backup" {shlex.quote(path)} || return 1\n' for path in paths)
    places = "".join(
        f"    place {number} {shlex.quote(file.path)} || return 1\n" for number, file in written
    ) + "".join(f"    remove {shlex.quote(path)} || return 1\n" for path in removed)
    return f"""{FUNCTIONS}
undo() {{
    status=$?
    if [ "$status" -ne 0 ]; then
{discards}        if [ -n "$replacing" ]; then
            echo "putting back what was there before" >&2
{back}        fi
    fi
    exit "$status"
}}
numaforge_write() {{
    umask 022
    backup={BACKUP_DIR}/$(date -u +%Y%m%dT%H%M%SZ)-$$
    replacing=
    trap undo EXIT
    trap 'exit 1' HUP INT TERM
{stages}{keeps}    replacing=yes
{places}    replacing=
}}
numaforge_write || exit 1
"""


def stage_command(number: int, file: FileContent) -> str:
    """Return the shell command that stages one file, to stand in a function that may `return 1`."""
    arguments = shlex.join([str(number), file.path, file.mode, file.owner, file.group])
    content = base64.encodebytes(file.text.encode("utf-8", "surrogateescape")).decode()
    return f"    stage {arguments} <<'END_OF_FILE' || return 1\n{content}END_OF_FILE\n"


def _rights(file: FileState | FileContent) -> str:
    return f"mode {file.mode.zfill(4)} {file.owner}:{file.group}"
