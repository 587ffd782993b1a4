"""Lists as the kubelet's flags parse them: comma-separated values; quotes protect a comma.

Source: Go's encoding/csv; pflag reads the first record.
"""

_QUOTE = '"'


class CsvError(ValueError):
    """A text that is not a CSV record; the message is Go's."""


def read_record(text: str) -> list[str]:
    """Return the fields of the first non-empty record. Raises CsvError."""
    lines = _lines(text)
    while lines and lines[0] == "\n":
        lines.pop(0)
    if not lines:
        raise CsvError("EOF")
    return _CsvRecord(lines).fields()


def _lines(text: str) -> list[str]:
    lines = [line.removesuffix("\r\n") + "\n" if line.endswith("\r\n") else line for line in _divided(text)]
    # Go drops a lone carriage return at the end.
    return [*lines[:-1], lines[-1].removesuffix("\r")] if lines else []


def _divided(text: str) -> list[str]:
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


class _CsvRecord:
    """The lines from the start of a record; `place` counts characters in the line, where Go counts bytes."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.line = 0
        self.place = 0

    def fields(self) -> list[str]:
        values: list[str] = []
        is_open = True
        while is_open:
            is_quoted = self._rest().startswith(_QUOTE)
            field, is_open = self._quoted() if is_quoted else self._plain()
            values.append(field)
        return values

    def _rest(self) -> str:
        return self.lines[self.line][self.place :] if self.line < len(self.lines) else ""

    def _plain(self) -> tuple[str, bool]:
        field, comma, _ = self._rest().partition(",")
        field = field if comma else field.removesuffix("\n")
        if _QUOTE in field:
            raise self._error(self.place + field.index(_QUOTE), 'bare " in non-quoted-field')
        self.place += len(field) + 1
        return field, bool(comma)

    def _quoted(self) -> tuple[str, bool]:
        field = ""
        self.place += 1
        while True:
            part, quote, behind = self._rest().partition(_QUOTE)
            field += part
            self.place += len(part) + len(quote)
            if quote and behind.startswith(_QUOTE):
                field += _QUOTE
                self.place += 1
            elif quote and behind.startswith(","):
                self.place += 1
                return field, True
            elif quote and behind in ("", "\n"):
                return field, False
            elif quote:
                raise self._error(self.place - 1, 'extraneous or missing " in quoted-field')
            elif self.line + 1 < len(self.lines):
                self.line, self.place = self.line + 1, 0
            else:
                raise self._error(self.place, 'extraneous or missing " in quoted-field')

    def _error(self, position: int, reason: str) -> CsvError:
        record = "" if self.line == 0 else "record on line 1; "
        column = len(self.lines[self.line][:position].encode()) + 1
        return CsvError(f"{record}parse error on line {self.line + 1}, column {column}: {reason}")
