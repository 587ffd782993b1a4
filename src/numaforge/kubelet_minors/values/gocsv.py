"""Lists as the kubelet's flags parse them: comma-separated values; quotes protect a comma.

Source: Go's encoding/csv; pflag reads the first record.
"""

_QUOTE = '"'


class CsvError(ValueError):
    """A text that is not a CSV record; the message is Go's."""


def read_record(text: str) -> list[str]:
    """Return the fields of the first non-empty record. Raises CsvError."""
    # Go reads \r\n as \n, and drops a lone carriage return at the end of the text.
    plain = text.replace("\r\n", "\n").lstrip("\n")
    if not plain:
        raise CsvError("EOF")
    values: list[str] = []
    at = 0
    while True:
        field, at = _quoted(plain, at) if plain.startswith(_QUOTE, at) else _plain(plain, at)
        values.append(field)
        if not plain.startswith(",", at):
            return values
        at += 1


def _plain(text: str, start: int) -> tuple[str, int]:
    """Return an unquoted field, and where it ends."""
    end = next((at for at in range(start, len(text)) if text[at] in ",\n"), len(text))
    if _QUOTE in text[start:end]:
        raise _error(text, text.index(_QUOTE, start), 'bare " in non-quoted-field')
    return text[start:end].removesuffix("\r" if end == len(text) else ""), end


def _quoted(text: str, start: int) -> tuple[str, int]:
    """Return a quoted field, which may have several lines, and where it ends."""
    field, at = "", start + 1
    while True:
        part, quote, behind = text[at:].partition(_QUOTE)
        field += part
        at += len(part) + len(quote)
        if not quote:
            raise _error(text, len(text.removesuffix("\r")), 'extraneous or missing " in quoted-field')
        if behind == "\r" or behind[:1] in (",", "\n", ""):
            return field, at
        if not behind.startswith(_QUOTE):
            raise _error(text, at - 1, 'extraneous or missing " in quoted-field')
        field += _QUOTE
        at += 1


def _error(text: str, position: int, reason: str) -> CsvError:
    """Return an error at a place; columns count bytes."""
    lines = text[:position].split("\n")
    if position == len(text) and not lines[-1]:  # behind the newline that ends the text
        lines[-2:] = [f"{lines[-2]} "]
    record = "" if len(lines) == 1 else "record on line 1; "
    place = f"line {len(lines)}, column {len(lines[-1].encode()) + 1}"
    return CsvError(f"{record}parse error on {place}: {reason}")
