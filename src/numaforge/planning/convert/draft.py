"""A profile in the making from another tool's file, and the notes on its fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from numaforge.lib.errors import NumaforgeError
from numaforge.lib.mistakes import dotted, path_of, sentence
from numaforge.planning.convert.rows import Fate, FieldRow, read, shown
from numaforge.planning.profile import NodeProfile
from numaforge.roles.kernel_values.dangers import danger

_SAID = (Fate.DIFFERS, Fate.NOT_OURS, Fate.NOT_EXPRESSED)


@dataclass(frozen=True)
class Note:
    """A note for the admin on a field: `key` is its key in the profile, or the key to use instead."""

    field: str
    fate: Fate
    key: str
    text: str


@dataclass(frozen=True)
class Conversion:
    """A profile as a mapping, the source field of each of its keys, and the notes."""

    source: str  # "an OpenShift PerformanceProfile"
    profile: dict[str, Any]
    origins: Mapping[str, str]
    notes: tuple[Note, ...]


@dataclass
class Draft:
    """Collects a profile; `done` reports all mistakes at once."""

    profile: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    mistakes: list[tuple[str, str]] = field(default_factory=list)
    _values: dict[str, Any] = field(default_factory=dict)

    def take(
        self, document: Mapping[str, Any], rows: tuple[FieldRow, ...], *, prefix: str = "", ini: bool = False
    ) -> None:
        """Read a document by its rows: place the fields that need no context, and note the rest.

        `prefix` is the field of the file that holds the document.
        """
        reading = read(document, rows, ini=ini)
        self.mistakes += [(f"{prefix}{field}", message) for field, message in reading.mistakes]
        for path, row, value in reading.fields:
            name = f"{prefix}{shown(path, ini=ini)}"
            if row.placed:
                self.put(row.key, row.by(value) if row.by else value, name)
            if row.fate in _SAID and value not in row.silent and not row.quiet:
                self.note(name, row.fate, row.why, row.key)

    def put(self, key: str, value: Any, origin: str) -> None:
        """Set a key of the profile, merging mappings; None leaves it unset.

        Two fields with different values for one key are a mistake.
        """
        if value is None:
            return
        if isinstance(value, Mapping) and isinstance(self._values.get(key), Mapping):
            options = self._values[key]
            for name, setting in value.items():
                if options.get(name, setting) != setting:
                    self.mistakes.append(
                        (origin, f"says {name} {setting!r}, and another field {options[name]!r}")
                    )
            options.update(value)
        elif key in self._values and self._values[key] != value:
            conflict = f"{value!r} here, and {self._values[key]!r} in {self.origins[key]}"
            self.mistakes.append((origin, f"{key} would be {conflict}; write one of them"))
        else:
            self._values[key] = dict(value) if isinstance(value, Mapping) else value
        self.origins.setdefault(key, origin)

    def add(self, key: str, values: list[Any], origin: str) -> None:
        """Add new values to a list of the profile."""
        if not values:
            return
        entries = self._values.setdefault(key, [])
        entries += [value for value in values if value not in entries]
        origins = self.origins.get(key)
        self.origins[key] = origin if origins in (None, origin) else f"{origins}, {origin}"

    def has(self, key: str) -> bool:
        return key in self._values

    def listed(self, key: str) -> tuple[Any, ...]:
        """Return the values of a list of the profile so far."""
        return tuple(self._values.get(key, ()))

    def note(self, name: str, fate: Fate, text: str, key: str = "") -> None:
        """Add a note on a field."""
        self.notes.append(Note(name, fate, key, text))

    def differs(self, name: str, text: str, key: str = "") -> None:
        """Add a note on a field that means something a little different."""
        self.note(name, Fate.DIFFERS, text, key)

    def left_out(self, name: str, text: str, key: str = "") -> None:
        """Add a note on a field about the node that is left out."""
        self.note(name, Fate.NOT_EXPRESSED, text, key)

    def refuse(self, name: str, text: str) -> None:
        """Add a mistake."""
        self.mistakes.append((name, text))

    def done(self, source: str, file: str) -> Conversion:
        """Return the conversion. Raises NumaforgeError with every mistake and its field in the file."""
        self._leave_out_dangerous_sysctls()
        order = list(NodeProfile.model_fields)
        for key in sorted(self._values, key=lambda key: order.index(key.partition(".")[0])):
            _set(self.profile, key.split("."), self._values[key])
        mistakes = list(dict.fromkeys(self.mistakes)) or self._misfits()
        if len(mistakes) == 1:
            [(name, message)] = mistakes
            raise NumaforgeError(message, where=f"{file}: {name}" if name else file)
        if mistakes:
            lines = "".join(
                f"\n  {name}: {message}" if name else f"\n  {message}" for name, message in mistakes
            )
            raise NumaforgeError(f"{len(mistakes)} mistakes:{lines}", where=file)
        return Conversion(source, self.profile, dict(self.origins), tuple(dict.fromkeys(self.notes)))

    def _leave_out_dangerous_sysctls(self) -> None:
        """Leave out sysctls that a profile sets only with a stated risk: stating it is up to the admin."""
        key = "tuning.sysctls"
        values = self._values.get(key)
        if not isinstance(values, dict):
            return
        for name, value in [*values.items()]:
            if known_danger := danger(str(name), str(value)):
                way = "" if known_danger.never else "; to set it, add the risk to tuning.unsafe"
                self.note(
                    self.origins[key],
                    Fate.NOT_EXPRESSED,
                    f"{name} = {value} is left out: {known_danger.why}{way}",
                )
                del values[name]
        if not values:
            del self._values[key]

    def _misfits(self) -> list[tuple[str, str]]:
        """Return the fields with values that a profile rejects, with the reasons."""
        try:
            NodeProfile.model_validate(self.profile)
        except ValidationError as invalid:
            return [(self._origin(dotted(path_of(error))), sentence(error)) for error in invalid.errors()]
        return []

    def _origin(self, field: str) -> str:
        keys = [key for key in self.origins if f"{field}.".startswith((f"{key}.", f"{key}["))]
        keys = keys or [key for key in self.origins if key.startswith(f"{field}.")]
        if not keys:
            return field
        key = max(keys, key=len)
        return f"{self.origins[key]}{field[len(key) :] if field.startswith(key) else ''}"


def _set(profile: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        profile = profile.setdefault(name, {})
    profile[path[-1]] = value
