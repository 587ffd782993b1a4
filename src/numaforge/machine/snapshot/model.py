"""A snapshot: the raw text of everything that describes one machine, nothing interpreted."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from numaforge.lib.codec import newer
from numaforge.lib.errors import SnapshotError
from numaforge.lib.given import NotJsonError, parse_json, read_text
from numaforge.lib.mistakes import shown

SCHEMA = 1
KIND = "numaforge-snapshot"
PCI_ADDRESS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]"
_PCI_FILE = re.compile(rf"/sys/bus/pci/devices/({PCI_ADDRESS})/(\w+)")
_KINDS: Mapping[type, str] = {dict: "a mapping", list: "a list", str: "a text"}
_TAKE_ANOTHER = "take a new one with `numaforge capture HOST --to FILE`"


@dataclass(frozen=True)
class Snapshot:
    """One machine as text: files below /sys and /proc without their last newline, others as they are."""

    files: Mapping[str, str]  # absolute path -> text
    links: Mapping[str, str] = field(default_factory=dict)  # absolute path -> absolute, normalised target
    commands: Mapping[str, str] = field(default_factory=dict)  # "uname -m" -> its output
    nvml: Mapping[str, Any] | None = None  # nvml_probe.answers()
    nvidia_smi: str | None = None  # `nvidia-smi -q -x`, only where NVML did not answer
    unreadable: tuple[str, ...] = ()  # files that exist and that the capturing user may not read

    @cached_property
    def pci_files(self) -> Mapping[str, Mapping[str, str]]:
        """The files of each PCI function by address, then by name: looked for once among all of them."""
        by_address: dict[str, dict[str, str]] = {}
        for path, text in self.files.items():
            if match := _PCI_FILE.fullmatch(path):
                by_address.setdefault(match[1], {})[match[2]] = text
        return dict(sorted(by_address.items()))

    def to_json(self) -> str:
        """Return the snapshot as a JSON document."""
        document = {
            "kind": KIND,
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
    def from_json(cls, text: str) -> "Snapshot":
        """Read a snapshot back; raises SnapshotError for a cut text, or one of another kind or schema."""
        try:
            document = parse_json(text)
        except NotJsonError as error:
            raise SnapshotError(f"not a complete JSON document: {error}", remedy=_TAKE_ANOTHER) from error
        return cls.from_document(document)

    @classmethod
    def from_document(cls, document: object) -> "Snapshot":
        """Read a snapshot's JSON data back; raises SnapshotError for any other."""
        if not isinstance(document, dict) or document.get("kind") != KIND:
            raise SnapshotError("JSON, but not a numaforge snapshot", remedy=_TAKE_ANOTHER)
        schema = document.get("schema")
        if type(schema) is int and schema > SCHEMA:
            raise newer(SnapshotError, "snapshot", schema, SCHEMA)
        if type(schema) is not int or schema != SCHEMA:
            raise SnapshotError(
                f"a snapshot of schema {schema!r}, and this numaforge reads schema {SCHEMA}",
                remedy=_TAKE_ANOTHER,
            )
        return cls(
            files=_texts(document, "files"),
            links=_texts(document, "links"),
            commands=_texts(document, "commands"),
            nvml=_member(document, "nvml", dict),
            nvidia_smi=_member(document, "nvidia_smi", str),
            unreadable=_paths(document, "unreadable"),
        )

    @classmethod
    def load(cls, path: Path) -> "Snapshot":
        """Read a saved snapshot file."""
        text = read_text(path, error=SnapshotError)
        try:
            return cls.from_json(text)
        except SnapshotError as error:
            raise error.at(str(path)) from error


def _texts(document: Mapping[str, Any], key: str) -> dict[str, str]:
    texts = _member(document, key, dict)
    if texts is None:
        raise SnapshotError(f"{key} is not a mapping of texts", remedy=_TAKE_ANOTHER)
    for name, text in texts.items():
        if not isinstance(text, str):
            raise SnapshotError(f"{shown(text)} is not a text", where=f"{key}: {name}", remedy=_TAKE_ANOTHER)
    return dict(texts)


def _paths(document: Mapping[str, Any], key: str) -> tuple[str, ...]:
    paths = _member(document, key, list) or []
    if not all(isinstance(path, str) for path in paths):
        raise SnapshotError(f"{key} is not a list of paths", remedy=_TAKE_ANOTHER)
    return tuple(paths)


def _member(document: Mapping[str, Any], key: str, kind: type) -> Any:
    value = document.get(key)
    if value is not None and not isinstance(value, kind):
        raise SnapshotError(f"{key} is not {_KINDS[kind]}", remedy=_TAKE_ANOTHER)
    return value
