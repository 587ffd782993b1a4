"""What the node was planned on, and what came of it: /var/lib/numaforge/boot."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from numaforge.errors import NumaforgeError
from numaforge.given import parse_json, read_text

STATE = Path("/var/lib/numaforge/boot")
NOW = Path("/run/numaforge/boot")
"""What `inputs` in boot.sh says now; the shell has written it, and keeps it where this ends well."""
_MACHINE = ("machine-id", "system-uuid")


@dataclass(frozen=True)
class Verdict:
    """How a node has planned itself: by which profile, named by whom, to the plan of which digest, and when.

    `did` is what was changed, "" where nothing was; `changed` is what was not as before.
    """

    profile: str
    named_by: str
    plan: str
    at: str
    version: str
    did: str = ""
    changed: tuple[str, ...] = ()


def read_inputs(file: Path) -> dict[str, str]:
    """Return what a plan rests on, by name; nothing where there is no such file."""
    if not file.exists():
        return {}
    pairs = (line.partition(" ")[::2] for line in read_text(file).splitlines() if line)
    return dict(pairs)


def differences(was: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return a sentence for each of the things on which a plan rests that is not as it was."""
    return tuple(
        _difference(name, was.get(name), now.get(name))
        for name in dict.fromkeys([*was, *now])
        if was.get(name) != now.get(name)
    )


def is_another_machine(was: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Say whether a disk was planned in another machine: it was cloned, or moved."""
    return any(was.get(name) != now.get(name) for name in _MACHINE)


def save(verdict: Verdict, folder: Path = STATE) -> None:
    """Write the verdict beside the inputs, atomically. Raises NumaforgeError where it cannot be written."""
    file, new = folder / "verdict.json", folder / "verdict.json.new"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with new.open("w", encoding="utf-8") as opened:
            json.dump(asdict(verdict), opened, indent=2)
            opened.write("\n")
            opened.flush()
            os.fsync(opened.fileno())
        new.replace(file)
    except OSError as error:
        raise NumaforgeError(f"cannot be written: {error.strerror}", where=str(file)) from error


def read_verdict(folder: Path = STATE) -> Verdict | None:
    """Return the last verdict, None where the node has not planned itself."""
    file = folder / "verdict.json"
    if not file.exists():
        return None
    try:
        document = parse_json(read_text(file))
        return Verdict(**{**document, "changed": tuple(document["changed"])})
    except (ValueError, TypeError, KeyError) as error:
        raise NumaforgeError("is no verdict of numaforge", where=str(file)) from error


def _difference(name: str, was: str | None, now: str | None) -> str:
    if was is None:
        return f"{name} is new: {now}"
    if now is None:
        return f"{name} is gone: {was}"
    return f"{name} was {was}, and is {now}"
