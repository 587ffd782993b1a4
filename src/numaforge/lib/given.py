"""Input from users and programs: files read once and within a limit, and JSON read strictly."""

import json
import math
import os
import select
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from numaforge.lib.errors import NumaforgeError

MOST_MIB = 64
"""The size limit of a file. The largest snapshot in tests/machines has 1.3 MB."""
DEEPEST = 100
"""The nesting limit of documents; topologies and plans have fewer than ten levels."""
MOST_DIGITS = 20
"""The most digits of a whole number: those of the largest uint64."""
BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
"""Some editors write it before a text."""

_COMPRESSED = {
    b"\xfd7zXZ\0": "xz -dk",
    b"\x1f\x8b": "gzip -dk",
    b"BZh": "bzip2 -dk",
    b"\x28\xb5\x2f\xfd": "zstd -d",
}
"""The first bytes of compressed files, and the command that unpacks them."""

_CHUNK = 2**20
_STANDARD_INPUT = "-"


class NotJsonError(ValueError):
    """A text is not JSON as accepted here; the message says why."""


def read_text(
    path: str | Path, *, most_mib: int = MOST_MIB, error: type[NumaforgeError] = NumaforgeError
) -> str:
    """Return the text of a file, a pipe or (`-`) standard input; raises `error`, with the path."""
    where = _called(path)
    if not where:
        raise error("the name of a file is empty", remedy="name a file, or - for standard input")
    try:
        content = _all_of(_open(path), most_mib * 2**20)
    except (OSError, ValueError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else str(failure)
        raise error(f"cannot be read: {reason}", where=where) from failure
    if content is None:
        raise error(f"is larger than {most_mib} MiB, the limit", where=where)
    if not content and Path(path).is_fifo():
        raise error("is a pipe without a writer", where=where)
    for begin, unpack in _COMPRESSED.items():
        if content.startswith(begin):
            raise error("is compressed", where=where, remedy=f"unpack it first: {unpack} {where}")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as failure:
        encoding = "UTF-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "ISO-8859-1"
        raise error(
            f"is not UTF-8 text: {failure.reason} at byte {failure.start}",
            where=where,
            remedy=f"save it as UTF-8: iconv -f {encoding} -t UTF-8",
        ) from failure


def read_json(path: str | Path, *, most_mib: int = MOST_MIB, remedy: str | None = None) -> Any:
    """Return what a file of JSON holds; raises NumaforgeError, with the path and `remedy`."""
    text = read_text(path, most_mib=most_mib)
    try:
        return parse_json(text)
    except NotJsonError as error:
        raise NumaforgeError(
            f"not a complete JSON document: {error}", where=_called(path), remedy=remedy
        ) from error


def parse_json(text: str) -> Any:
    """Return JSON's content; raises NotJsonError for duplicate keys, beyond 64 bits, NaN, 100 levels, too."""
    try:
        document = json.loads(
            text.removeprefix(BYTE_ORDER_MARK),
            object_pairs_hook=_refuse_twice,
            parse_constant=_no_number,
            parse_int=_whole_number,
            parse_float=_number,
        )
    except RecursionError as error:
        raise NotJsonError(f"nested too deeply; {DEEPEST} levels are accepted") from error
    except json.JSONDecodeError as error:
        raise NotJsonError(f"{error.msg} at line {error.lineno}, column {error.colno}") from error
    inside: list[object] = [document]
    for _ in range(DEEPEST + 1):
        inside = [member for one in inside for member in _members(one) if isinstance(member, (dict, list))]
    if inside:
        raise NotJsonError(f"nested too deeply; {DEEPEST} levels are accepted")
    if "\\ud" in text.lower():
        try:  # an escaped half of a character, which no file or terminal takes
            json.dumps(document, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise NotJsonError(f"a text holds half a character: {error.object[error.start]!a}") from error
    return document


def digits(text: str | None) -> int | None:
    """Return the number that a text of up to 20 of the digits 0 to 9 is, None for any other text."""
    stripped = (text or "").strip()
    is_number = stripped.isascii() and stripped.isdigit() and len(stripped) <= MOST_DIGITS
    return int(stripped) if is_number else None


def mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping, or an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: object) -> list[Mapping[str, Any]]:
    """Return the mappings in a list; none of what is no list."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def _called(path: str | Path) -> str:
    return "standard input" if str(path) == _STANDARD_INPUT else str(path)


def _open(path: str | Path) -> int:
    if str(path) != _STANDARD_INPUT:
        # A named pipe that no program writes into would block for ever.
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if sys.stdin is None:
        raise ValueError("it is closed")
    return os.dup(sys.stdin.fileno())


def _all_of(descriptor: int, most: int) -> bytes | None:
    chunks: list[bytes] = []
    size = 0
    try:
        while size <= most:
            chunk = _next_of(descriptor)
            if not chunk:
                return b"".join(chunks)
            chunks.append(chunk)
            size += len(chunk)
    finally:
        os.close(descriptor)
    return None


def _next_of(descriptor: int) -> bytes:
    """Return a descriptor's next bytes, none at its end; it is read only where that does not block."""
    # A pipe that no program has ever written into is at its end to a read, and never ready to select().
    ready = [] if os.get_blocking(descriptor) else [descriptor]
    while True:
        if ready:
            with suppress(BlockingIOError):  # a pipe whose writer is not done
                return os.read(descriptor, _CHUNK)
        # Python acts on a signal between its own instructions: one just before the wait, after a second.
        ready, _, _ = select.select([descriptor], [], [], 1)


def _members(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping_of_pairs = dict(pairs)
    if len(mapping_of_pairs) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise NotJsonError(f"the key {twice!r} is written twice")
    return mapping_of_pairs


def _whole_number(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise NotJsonError(f"{text[:MOST_DIGITS]}... is a number of more than {MOST_DIGITS} digits")
    return int(text)


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise NotJsonError(f"{text[:MOST_DIGITS]} is beyond every number that is accepted")
    return number


def _no_number(text: str) -> float:
    raise NotJsonError(f"{text} is not valid JSON")
