"""A snapshot: the raw text of everything that describes one machine, nothing interpreted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numaforge.errors import SnapshotError

SCHEMA = 1
_TAKE_ANOTHER = "take a new one with `numaforge capture HOST -o FILE`"


@dataclass(frozen=True)
class Snapshot:
    """One machine, as text.

    Small files below /sys and /proc are kept without their last newline, configuration files as they are.
    """

    files: Mapping[str, str]  # absolute path -> text
    links: Mapping[str, str] = field(default_factory=dict)  # absolute path -> absolute, normalised target
    commands: Mapping[str, str] = field(default_factory=dict)  # "uname -m" -> its output
    nvml: Mapping[str, Any] | None = None  # nvml_probe.answers()
    nvidia_smi: str | None = None  # `nvidia-smi -q -x`, only where NVML did not answer
    unreadable: tuple[str, ...] = ()  # files that exist and that the capturing user may not read

    def to_json(self) -> str:
        """Return the snapshot as a JSON document."""
        document = {
            "kind": "numaforge-snapshot",
            "schema": SCHEMA,
            "files": dict(self.files),
            "links": dict(self.links),
            "commands": dict(self.commands),
            "nvml": self.nvml,
            "nvidia_smi": self.nvidia_smi,
            "unreadable": list(self.unreadable),
        }
        return json.dumps(document, indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Snapshot:
        """Read a snapshot back.

        Raises SnapshotError when the text is cut short, is no snapshot, or has another schema.
        """
        try:
            document = json.loads(text)
        except json.JSONDecodeError as error:
            raise SnapshotError(
                f"not a complete JSON document ({error.msg} at line {error.lineno})", remedy=_TAKE_ANOTHER
            ) from error
        if not isinstance(document, dict) or document.get("kind") != "numaforge-snapshot":
            raise SnapshotError("JSON, but not a numaforge snapshot", remedy=_TAKE_ANOTHER)
        if document.get("schema") != SCHEMA:
            raise SnapshotError(
                f"a snapshot of schema {document.get('schema')!r}, and this numaforge reads schema {SCHEMA}",
                remedy=_TAKE_ANOTHER,
            )
        return cls(
            files=_texts(document, "files"),
            links=_texts(document, "links"),
            commands=_texts(document, "commands"),
            nvml=_member(document, "nvml", dict),
            nvidia_smi=_member(document, "nvidia_smi", str),
            unreadable=tuple(_member(document, "unreadable", list) or ()),
        )

    @classmethod
    def load(cls, path: Path) -> Snapshot:
        """Read a saved snapshot file."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SnapshotError(f"cannot be read: {error}", where=str(path)) from error
        try:
            return cls.from_json(text)
        except SnapshotError as error:
            raise error.at(str(path)) from error


def _texts(document: Mapping[str, Any], key: str) -> dict[str, str]:
    texts = _member(document, key, dict)
    if texts is None or not all(isinstance(text, str) for text in texts.values()):
        raise SnapshotError(f"{key} is not a mapping of texts", remedy=_TAKE_ANOTHER)
    return dict(texts)


def _member(document: Mapping[str, Any], key: str, kind: type) -> Any:
    value = document.get(key)
    if value is not None and not isinstance(value, kind):
        raise SnapshotError(f"{key} is not a {kind.__name__}", remedy=_TAKE_ANOTHER)
    return value
