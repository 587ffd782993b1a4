"""Many files on a host in two round trips: one POSIX sh script reads them, one replaces them atomically.

Both scripts run on dash and busybox and need nothing but coreutils' (or busybox') base64, stat, readlink and
sync.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from numaforge.lib import shell
from numaforge.lib.errors import HostError
from numaforge.lib.file_content import FileContent
from numaforge.lib.framing import Answer, asking

_GONE = "-"  # no character of base64


@dataclass(frozen=True)
class FileState:
    """The current state of a file; bytes that are not UTF-8 are kept as surrogates."""

    text: str
    mode: str
    owner: str
    group: str


@dataclass(frozen=True)
class FileChange:
    """One file that differs: `old` is None for a new file, `new` for a file to remove."""

    path: str
    old: FileState | None
    new: FileContent | None


def read_script(paths: Sequence[str]) -> str:
    """Return the script whose answer `parse_states` reads."""
    return asking(reading(paths))


def reading(paths: Sequence[str], known_texts: Iterable[str] = ()) -> str:
    """Return a part of a script that reads files; it does not send a text of `known_texts`."""
    return shell.library("node/bundle_read") + shell.call("read_files", [known_sums(known_texts), *paths])


def known_sums(known_texts: Iterable[str]) -> str:
    """Return the checksums of texts as `read_files` in bundle_read.sh takes them."""
    return " ".join(sorted({checksum(text) for text in known_texts}))


def parse_states(answer: Answer, known_texts: Iterable[str] = ()) -> dict[str, FileState]:
    """Return the files that exist, by path; raises HostError for one that is no regular file."""
    texts = {checksum(text): text for text in known_texts}
    states = {}
    try:
        rights = {}
        for line in answer.part("stat"):
            mode, owner, group, path = line.split(" ", 3)
            rights[path] = mode.zfill(4), owner, group
        texts_sent = _sent_texts(answer.part("text"))
        for digest, _, path in (line.partition("  ") for line in answer.part("sum")):
            if path in rights:
                text = texts_sent[path] if path in texts_sent else texts[digest]
                if text is not None:
                    states[path] = FileState(text, *rights[path])
    except (ValueError, KeyError) as error:
        raise HostError(f"the host's answer about its files is malformed: {error}") from error
    return states


def parse_checksums(answer: Answer, paths: Iterable[str]) -> dict[str, str]:
    """Return the checksums of these files from the same answer, "absent" for what is no file."""
    absent = (line for line in answer.part("text") if line.startswith("absent "))
    by_path = {line.removeprefix("absent "): "absent" for line in absent}
    for line in answer.part("sum"):
        checksum, _, path = line.partition("  ")
        if checksum.startswith("\\"):  # so does sha256sum say that it has doubled those of the name
            checksum, path = checksum[1:], path.replace("\\\\", "\\")
        by_path[path] = checksum
    return {path: by_path[path] for path in paths if path in by_path}


def _sent_texts(lines: Sequence[str]) -> dict[str, str | None]:
    """Return the texts by path, None for a file that disappeared before it could be sent."""
    texts: dict[str, str | None] = {}
    rest = iter(lines)
    for line in rest:
        kind, path = line.split(" ", 1)
        if kind == "absent":
            continue
        if kind == "other":
            raise HostError("is not a regular file", where=path, remedy="move it away and run again")
        body = "".join(takewhile(lambda encoded: encoded != ".", rest))
        missing = body == _GONE
        texts[path] = None if missing else base64.b64decode(body).decode("utf-8", "surrogateescape")
    return texts


def checksum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def changes(
    planned: Sequence[FileContent], absent: Sequence[str], states: Mapping[str, FileState]
) -> tuple[FileChange, ...]:
    """Return the changes that make the `planned` files as described and remove the `absent` ones."""
    written = [
        FileChange(file.path, states.get(file.path), file)
        for file in planned
        if states.get(file.path) != FileState(file.text, file.mode.zfill(4), file.owner, file.group)
    ]
    removed = [FileChange(path, states[path], None) for path in absent if path in states]
    return tuple(written + removed)


def diff(change: FileChange) -> list[str]:
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


def encoded(text: str) -> str:
    """Return a text as one line of base64."""
    return base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()


def _rights(file: FileState | FileContent) -> str:
    return f"mode {file.mode.zfill(4)} {file.owner}:{file.group}"
