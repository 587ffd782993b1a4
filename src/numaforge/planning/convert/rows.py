"""The fate of each field of another tool's file: one table for reading it, its notes and its page."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, NamedTuple

from numaforge.kubelet_minors.flags import flag_called
from numaforge.kubelet_minors.versions import LATEST_MINOR
from numaforge.lib.mistakes import dotted

Path = tuple[str | int, ...]
EACH = "[]"  # an entry of a list, in the path of a row
ANY_KEY = "*"


class Fate(StrEnum):
    """What becomes of a field."""

    BECOMES = "becomes"
    DIFFERS = "differs"
    SAME = "same by default"
    NOT_EXPRESSED = "not expressed"
    NOT_OURS = "not ours"
    REFUSED = "refused"


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

    fields: tuple[tuple[Path, FieldRow, Any], ...]
    mistakes: tuple[tuple[str, str], ...]


def becomes(field: str, key: str, form: Form, by: Callable[[Any], Any] | None = None) -> FieldRow:
    """Return the row of a field that has the same meaning as a key of a profile."""
    return FieldRow(field, Fate.BECOMES, key, form=form, by=by, placed=True)


def enters(field: str, key: str, form: Form, why: str = "") -> FieldRow:
    """Return the row of a field that becomes `key` together with others; `why` is noted where it differs."""
    return FieldRow(field, Fate.DIFFERS if why else Fate.BECOMES, key, why, form)


def differs(
    field: str,
    key: str,
    form: Form,
    why: str,
    *,
    by: Callable[[Any], Any] | None = None,
    silent: tuple[object, ...] = (),
) -> FieldRow:
    """Return the row of a field whose key has another meaning, which `why` explains."""
    return FieldRow(field, Fate.DIFFERS, key, why, form, by, placed=True, silent=silent)


def same(fields: str, why: str) -> tuple[FieldRow, ...]:
    """Return the rows of fields that need no note."""
    return tuple(FieldRow(field, Fate.SAME, why=why) for field in fields.split())


def not_ours(
    fields: str, why: str, *, prefix: str = "", silent: tuple[object, ...] = ()
) -> tuple[FieldRow, ...]:
    """Return the rows of fields outside the scope of profiles, all of them below `prefix`."""
    return tuple(
        FieldRow(f"{prefix}{field}", Fate.NOT_OURS, why=why, silent=silent) for field in fields.split()
    )


def not_expressed(
    field: str, why: str, key: str = "", form: Form = Form.ANYTHING, silent: tuple[object, ...] = ()
) -> FieldRow:
    """Return the row of a field about the node that is left out; `key` may be used instead."""
    return FieldRow(field, Fate.NOT_EXPRESSED, key, why, form, silent=silent)


def below(prefix: str, rows: Iterable[FieldRow]) -> tuple[FieldRow, ...]:
    """Return rows for the same fields further down in a file."""
    return tuple(replace(row, field=f"{prefix}.{row.field}") for row in rows)


def shown(path: Path, *, ini: bool = False) -> str:
    """Return a path as its file has it: `spec.hugepages.pages[0].size`, `[cpu] governor`."""
    return f"[{path[0]}] {'.'.join(map(str, path[1:]))}".rstrip() if ini else dotted(path)


def read(document: Mapping[str, Any], rows: Iterable[FieldRow], *, ini: bool = False) -> FieldReading:
    """Return every field of a document with its row; a field without a row is a mistake, null is left out."""
    tree = _Branch()
    for row in rows:
        tree.add(row)
    fields: list[tuple[Path, FieldRow, Any]] = []
    mistakes: list[tuple[Path, str]] = []
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
    path: Path,
    fields: list[tuple[Path, FieldRow, Any]],
    mistakes: list[tuple[Path, str]],
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
