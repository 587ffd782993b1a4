"""The kernel values that have their own profile keys: one row of knobs.json each.

The row determines the profile's key and its documentation, what a snapshot captures, where the plan keeps
the value, the file that sets it at every boot, the part of a maintenance that sets and restores it, what
verification checks, and how TuneD's files are converted.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

Word = bool | int | str
"""A value in a profile."""

_SYSCTLS = "/proc/sys/"
_MOST_DIGITS = 20


@dataclass(frozen=True)
class AtLeast:
    """A number in a profile, with its minimum."""

    least: int


class Feature(NamedTuple):
    """What a kernel has or lacks as a whole, with the notice for one that lacks it.

    `field` is the field of TuningPlan that holds its values, by path below `folder`; None: they are in
    `values`, by full path.
    """

    folder: str
    id: str
    lacking: str
    field: str | None = None


@dataclass(frozen=True)
class Knob:
    """One value: `key` is its place below `tuning`, `word` what a profile accepts there.

    `files` are the kernel files that may hold it, of which the first that exists counts, each with the text
    for words that are not written as they are. A kernel without any counts as having the word `absent_is`.
    """

    key: str
    word: type[bool] | tuple[str, ...] | AtLeast
    files: Mapping[str, Mapping[Word, str]]
    description: str
    example: Word
    feature: Feature | None = None
    absent_is: Word | None = None

    @property
    def sysctl(self) -> str | None:
        """The dotted name where the value is a sysctl, else None."""
        if not self.path.startswith(_SYSCTLS):
            return None
        return self.path.removeprefix(_SYSCTLS).replace("/", ".")

    @property
    def path(self) -> str:
        """The file that holds it; the preferred one where kernels differ."""
        return next(iter(self.files))

    def text(self, path: str, word: Word) -> str:
        """Return the text in the file for a word."""
        return self.files[path].get(word) or str(int(word) if isinstance(word, bool) else word)

    def word_for(self, path: str, text: str) -> Word | None:
        """Return the profile's word for a file's text; None where there is none."""
        if self.word is bool:
            return next((word for word in (False, True) if self.text(path, word) == text), None)
        if isinstance(self.word, AtLeast):
            is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
            return int(text) if is_number and int(text) >= self.word.least else None
        return text if isinstance(self.word, tuple) and text in self.word else None


_TABLES = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
_FEATURES = {name: Feature(id=name, **row) for name, row in _TABLES["features"].items()}
_TRUTHS: Mapping[str, Word] = {"true": True, "false": False}


def _knob(row: Mapping[str, Any]) -> Knob:
    """Return a row of knobs.json: "word" is "boolean", a list of words, or a number's minimum."""
    word: type[bool] | tuple[str, ...] | AtLeast = bool
    if row["word"] != "boolean":
        word = tuple(row["word"]) if isinstance(row["word"], list) else AtLeast(**row["word"])
    files = {
        path: {_TRUTHS.get(name, name): text for name, text in texts.items()}
        for path, texts in row["files"].items()
    }
    return Knob(
        row["key"],
        word,
        files,
        row["description"],
        row["example"],
        _FEATURES.get(row.get("feature", "")),
        row.get("absent_is"),
    )


KNOBS = tuple(map(_knob, _TABLES["knobs"]))

KNOB_AT: Mapping[str, Knob] = {path: knob for knob in KNOBS for path in knob.files}
"""The knob of each file, by path."""
