"""What a snapshot keeps of PCI functions: their configuration space, and which share a card."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

_ROW = 16
_HEADER, _POINTER = 0x40, 0x34  # where capabilities may begin, and what names the first
_EXTENDED = 0x100
_SERIAL_NUMBER = 0x0003  # of an extended capability: for a NIC its MAC address
_VPD_READ_ONLY = 0x90
_VPD_LARGE = 0x80
_VPD_END = (0x78, 0x79)


def of_dump(sizes: Mapping[str, int], rows: Iterable[str]) -> dict[str, str]:
    """Return configuration spaces by path, from the output of `od` over all of them in the order of `sizes`.

    Empty where the read was short: the kernel shows only 64 bytes without root rights.
    """
    dump = _dumped(rows, sum(sizes.values()))
    ends = dict(zip(sizes, accumulate(sizes.values()), strict=True))
    if len(dump) != sum(sizes.values()):
        return {}
    return {path: as_text(dump[end - sizes[path] : end]) for path, end in ends.items()}


def as_text(space: bytes) -> str:
    """Return the rows that are not all zero as `OFFSET:HEX`, then the size; no serial number."""
    clean = bytearray(space)
    for offset, capability in extended_capabilities(space):
        if capability == _SERIAL_NUMBER:
            clean[offset + 4 : offset + 12] = bytes(len(clean[offset + 4 : offset + 12]))
    rows = ((start, clean[start : start + _ROW]) for start in range(0, len(clean), _ROW))
    return "".join(f"{start:x}:{row.hex()}\n" for start, row in rows if any(row)) + f"{len(clean):x}:\n"


def from_text(text: str) -> bytes:
    """Return the configuration space that `as_text` wrote; empty for any other text."""
    rows = [re.fullmatch(r"([0-9a-f]{1,4}):((?:[0-9a-f]{2})*)", line) for line in text.splitlines()]
    bytes_at = [(int(row[1], 16), bytes.fromhex(row[2])) for row in rows if row]
    if not bytes_at or len(bytes_at) != len(rows):
        return b""
    space = bytearray(bytes_at[-1][0])
    for offset, row in bytes_at[:-1]:
        space[offset : offset + len(row)] = row
    return bytes(space[: bytes_at[-1][0]])


def capabilities(space: bytes) -> Iterator[int]:
    """Yield the offset of each conventional PCI capability; a looping or invalid chain ends."""
    offset, visited = space[_POINTER] & 0xFC if len(space) > _POINTER else 0, set[int]()
    while _HEADER <= offset <= min(len(space), _EXTENDED) - 2 and offset not in visited:
        visited.add(offset)
        yield offset
        offset = space[offset + 1] & 0xFC


def extended_capabilities(space: bytes) -> Iterator[tuple[int, int]]:
    """Yield the offset and id of each extended capability; a looping or invalid chain ends."""
    offset, visited = _EXTENDED, set[int]()
    while _EXTENDED <= offset <= len(space) - 4 and offset not in visited:
        visited.add(offset)
        header = int.from_bytes(space[offset : offset + 4], "little")
        if header in (0, 0xFFFFFFFF):
            return
        yield offset, header & 0xFFFF
        offset = header >> 20 & 0xFFC


def cards(vpds: Mapping[str, bytes]) -> dict[str, str]:
    """Return `card N` by path: functions whose VPD has the same V3, which stays out, are of one card."""
    serials = {path: value for path, vpd in sorted(vpds.items()) if (value := _keyword(vpd, b"V3"))}
    numbers = {value: number for number, value in enumerate(dict.fromkeys(serials.values()))}
    return {path: f"card {numbers[value]}" for path, value in serials.items()}


def _keyword(vpd: bytes, name: bytes) -> bytes | None:
    """Return the value of a keyword of the read-only part (PCI Local Bus Specification 3.0, appendix I)."""
    position = 0
    while position < len(vpd) and vpd[position] not in _VPD_END:
        large = vpd[position] & _VPD_LARGE
        start = position + (3 if large else 1)
        length = int.from_bytes(vpd[position + 1 : position + 3], "little") if large else vpd[position] & 7
        item = vpd[start : start + length]
        while vpd[position] == _VPD_READ_ONLY and len(item) >= 3:
            if item[:2] == name:
                return item[3 : 3 + item[2]]
            item = item[3 + item[2] :]
        position = start + length
    return None


def _dumped(rows: Iterable[str], size: int) -> bytes:
    """Return the bytes of `od -A x -t x1` without its blanks, up to where it is cut off."""
    dump = bytearray()
    for row in rows:
        if row == "*":
            continue
        offset, digits = (row[: -2 * _ROW], row[-2 * _ROW :]) if len(row) > 2 * _ROW else (row, "")
        if not re.fullmatch(r"[0-9a-f]+", row) or int(offset, 16) > size:
            break
        while dump and len(dump) < int(offset, 16):
            dump += dump[-_ROW:]
        dump += bytes.fromhex(digits)
    return bytes(dump)
