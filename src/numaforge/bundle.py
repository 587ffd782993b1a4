"""Many files on a host in two round trips: one POSIX sh script reads them, one replaces them atomically.

Both scripts run on dash and busybox and need nothing but coreutils' (or busybox') base64, stat, readlink and
sync.
"""

from __future__ import annotations

import base64
import difflib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
put_back() { # FOLDER PATH: make PATH what it was when `keep` saw it
    target=$(resolved "$2")
    if [ -e "$1$2" ]; then
        cp -a "$1$2" "$(temporary "$2" back)" && sync "$(temporary "$2" back)" && place back "$2"
    else
        rm -f "$target"
    fi
}
"""

_READ = r"""
numaforge_read() {
    for path in "$@"; do
        target=$(readlink -f "$path" 2>/dev/null || printf '%s\n' "$path")
        if [ -f "$target" ]; then
            stat -c 'file %a %U %G' "$target" && base64 < "$target" || return 1
        elif [ -e "$target" ]; then
            echo other
        else
            echo absent
        fi
        echo .
    done
}
"""


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


def read_script(paths: Sequence[str], more: str = "") -> str:
    """Return the script whose output `parse_states` reads; `more` is shell for paths the host knows."""
    return f"{_READ}numaforge_read {shlex.join(paths)} {more}\n"


def parse_states(paths: Sequence[str], output: Sequence[str]) -> dict[str, FileState]:
    """Return the files that exist among `paths`, from the read script's output lines.

    Raises HostError when the output does not tell about every path, or a path is neither a file nor absent.
    """
    states: dict[str, FileState] = {}
    lines = iter(output)
    for path in paths:
        head = next(lines, "")
        body: list[str] = []
        for line in lines:
            if line == ".":
                break
            body.append(line)
        else:
            raise HostError("the host's answer ends before this file", where=path, remedy="run again")
        kind, *properties = head.split()
        if kind == "absent":
            continue
        if kind != "file" or len(properties) != 3:
            raise HostError("is not a regular file", where=path, remedy="move it away and run again")
        mode, owner, group = properties
        text = base64.b64decode("".join(body)).decode("utf-8", "surrogateescape")
        states[path] = FileState(text, mode.zfill(4), owner, group)
    return states


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
    ) + "".join(f'    rm -f "$(resolved {shlex.quote(path)})" || return 1\n' for path in removed)
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
