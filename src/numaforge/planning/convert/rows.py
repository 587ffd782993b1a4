"""The fate of each field of another tool's file: one table for reading it, its notes and its page."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from numaforge.kubelet_minors.flags import flag_called
from numaforge.kubelet_minors.versions import LATEST_MINOR
from numaforge.lib.given import mapping
from numaforge.lib.mistakes import dotted

FieldPath = tuple[str | int, ...]
EACH = "[]"  # an entry of a list, in the path of a row
ANY_KEY = "*"
_AS_IS: Mapping[str, Callable[[Any], Any]] = {}


class Fate(StrEnum):
    """What becomes of a field."""

    BECOMES = "becomes"
    DIFFERS = "differs"
    SAME = "same by default"
    NOT_EXPRESSED = "not expressed"
    NOT_OURS = "not ours"


class Form(StrEnum):
    """What a field holds, in the words of a message."""

    TEXT = "a text"
    NUMBER = "a whole number"
    CPUS = "a cpulist"
    SWITCH = "true or false"
    WORD = "a text, a number, true or false"
    TEXTS = "a list of texts"
    TABLE = "a mapping from names to texts, numbers, true or false"
    ANYTHING = "anything"


@dataclass(frozen=True)
class FieldRow:
    """The fate of one field, and of everything below it.

    `key` is its key in a profile, or the key to use instead; `by` converts the value. Where `placed` is
    false, the converter of the whole file places it. `why` is noted for the field, unless its value is in
    `silent`, or the row is `quiet`: then the converter of the file notes it in more detail.
    """

    field: str
    fate: Fate
    key: str = ""
    why: str = ""
    form: Form = Form.ANYTHING
    by: Callable[[Any], Any] | None = None
    placed: bool = False
    silent: tuple[object, ...] = ()
    quiet: bool = False

    def path(self) -> tuple[str, ...]:
        """Return the names from the outside in; `[section] option` for an INI file."""
        if self.field.startswith("["):
            return tuple(self.field.removeprefix("[").replace("]", "", 1).split(" ", 1))
        return tuple(self.field.replace(EACH, f".{EACH}").split("."))


class FieldReading(NamedTuple):
    """A file's fields with their rows and values, and its mistakes: (field, what is wrong)."""

    fields: tuple[tuple[FieldPath, FieldRow, Any], ...]
    mistakes: tuple[tuple[str, str], ...]


@cache
def tables() -> Mapping[str, Any]:
    """Return fields.yaml: its tables, and what else a converter reads there."""
    text = Path(__file__).with_name("fields.yaml").read_text(encoding="utf-8")
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return dict(yaml.load(text, Loader=loader))  # noqa: S506 (it is a safe one)


def table(name: str, by: Mapping[str, Callable[[Any], Any]] = _AS_IS) -> tuple[FieldRow, ...]:
    """Return the rows of a table of fields.yaml; `by` converts the values of these fields."""
    return tuple(replace(row, by=by.get(row.field)) for row in _rows(name))


def _rows(name: str) -> Iterator[FieldRow]:
    for entry in tables()[name]:
        for above in entry.get("below", "").split() or [""]:
            separator = " " if above.startswith("[") else "." if above else ""
            for row in _entry_rows(entry):
                yield replace(row, field=f"{above}{separator}{row.field}")


def _entry_rows(entry: Mapping[str, Any]) -> Iterator[FieldRow]:
    if "rows" in entry:
        yield from chain.from_iterable(map(_rows, entry["rows"].split()))
        return
    fate = next(fate for fate in Fate if fate in entry)
    has_key = fate in (Fate.BECOMES, Fate.DIFFERS)
    names = entry["fields"]
    for name in names.split() if isinstance(names, str) else names:
        yield FieldRow(
            name,
            fate,
            key=entry[fate] if has_key else entry.get("instead", ""),
            why=entry.get("why", "") if has_key else entry[fate],
            form=Form[entry.get("holds", "anything").upper()],
            placed=entry.get("placed", False),
            silent=tuple(entry.get("silent", ())),
            quiet=entry.get("quiet", False),
        )


def value_at(document: Mapping[str, Any], field: str) -> Any:
    """Return the value of a field by its dotted path; None without one."""
    value: Any = document
    for name in field.split("."):
        value = mapping(value).get(name)
    return value


def shown(path: FieldPath, *, ini: bool = False) -> str:
    """Return a path as its file has it: `spec.hugepages.pages[0].size`, `[cpu] governor`."""
    return f"[{path[0]}] {'.'.join(map(str, path[1:]))}".rstrip() if ini else dotted(path)


def read(document: Mapping[str, Any], rows: Iterable[FieldRow], *, ini: bool = False) -> FieldReading:
    """Return every field of a document with its row; a field without a row is a mistake, null is left out."""
    tree = _Branch()
    for row in rows:
        tree.add(row)
    fields: list[tuple[FieldPath, FieldRow, Any]] = []
    mistakes: list[tuple[FieldPath, str]] = []
    _walk(document, tree, (), fields, mistakes)
    return FieldReading(tuple(fields), tuple((shown(path, ini=ini), message) for path, message in mistakes))


@dataclass
class _Branch:
    row: FieldRow | None = None
    twigs: "dict[str, _Branch]" = field(default_factory=dict)

    def add(self, row: FieldRow) -> None:
        branch = self
        for name in row.path():
            branch = branch.twigs.setdefault(name, _Branch())
        branch.row = row


def _walk(
    value: Any,
    branch: _Branch,
    path: FieldPath,
    fields: list[tuple[FieldPath, FieldRow, Any]],
    mistakes: list[tuple[FieldPath, str]],
) -> None:
    if value is None:
        return
    if branch.row is not None and not branch.twigs:
        if _fits(value, branch.row.form):
            fields.append((path, branch.row, value))
        else:
            mistakes.append((path, f"{_short(value)} is not {branch.row.form}"))
    elif EACH in branch.twigs:
        if not isinstance(value, list):
            mistakes.append((path, f"{_short(value)} is not a list"))
            return
        for index, entry in enumerate(value):
            _walk(entry, branch.twigs[EACH], (*path, index), fields, mistakes)
    elif not isinstance(value, Mapping):
        mistakes.append((path, f"{_short(value)} is not a mapping"))
    else:
        for key, entry in value.items():
            entry_path = (*path, str(key))
            twig = branch.twigs.get(str(key)) or branch.twigs.get(ANY_KEY)
            if twig is None:
                mistakes.append((entry_path, f"unknown field; {_known_fields(str(key), branch)}"))
            else:
                _walk(entry, twig, entry_path, fields, mistakes)


def _known_fields(key: str, branch: _Branch) -> str:
    flag = flag_called(key, LATEST_MINOR)
    nearest = [flag[1]] if flag and flag[1] in branch.twigs else get_close_matches(key, branch.twigs, n=1)
    return f"did you mean {nearest[0]}?" if nearest else f"known here: {', '.join(sorted(branch.twigs))}"


def _fits(value: Any, form: Form) -> bool:
    word = isinstance(value, (str, int, bool))
    match form:
        case Form.TEXT:
            return isinstance(value, str)
        case Form.CPUS:
            return isinstance(value, (str, int)) and not isinstance(value, bool)
        case Form.NUMBER:
            return isinstance(value, int) and not isinstance(value, bool)
        case Form.SWITCH:
            return isinstance(value, bool)
        case Form.WORD:
            return word
        case Form.TEXTS:
            return isinstance(value, list) and all(isinstance(entry, str) for entry in value)
        case Form.TABLE:
            return isinstance(value, Mapping) and all(
                isinstance(key, str) and isinstance(entry, (str, int, bool)) for key, entry in value.items()
            )
        case _:
            return True


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
