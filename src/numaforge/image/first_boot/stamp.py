"""A node's plans with their inputs: the one in effect, one on trial, and one that failed.

All are below /var/lib/numaforge/boot.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from numaforge.change.transaction import TRANSACTIONS
from numaforge.lib import shell
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.framing import asking
from numaforge.lib.given import read_text
from numaforge.machine.snapshot.catalogue import UNIT_FOLDERS

STATE = Path("/var/lib/numaforge/boot")
"""The folder that boot.sh compares with: `inputs` as it prints them, `files` in sha256sum's format, of the
plan in effect. Plans on trial and failed ones have folders of the same form.
"""
TRIAL = STATE / "trial"
FAILED = STATE / "failed"
RUN = Path("/run/numaforge/boot")
ISSUE = Path("/run/issue.d/numaforge.issue")
"""The file with the reason why the kubelet is not started, while it is not."""
WHY = "why"
"""The file of a failed plan with the explanation for an admin."""
PROGRAM = "/opt/numaforge/numaforge"
REPORT_UNIT = "numaforge-report.service"
_RECORD = "record.json"
_WATCHED = "watched"
_MACHINE = ("machine-id", "system-uuid")
_INTENT = ("profile-of-kernel", "file-/etc/numaforge/", f"file-{PROGRAM}")
"""The first words of inputs besides the machine's: its purpose, and numaforge itself."""


@dataclass(frozen=True)
class BootRecord:
    """How a node has planned itself: the profile and its source, the plan's digest, and the time.

    `did` names the changes on the node, "" for none; `changed` the differences from before. The change is
    that of a `transaction`, begun for the `attempt`-th time; `confirmed` names what has confirmed it.
    """

    profile: str
    named_by: str
    plan: str
    at: str
    version: str
    did: str = ""
    changed: tuple[str, ...] = ()
    transaction: str = ""
    attempt: int = 1
    confirmed: str = ""

    @classmethod
    def saved(cls, folder: Path = STATE) -> BootRecord | None:
        """Return how this node last planned itself; None where it has not, or where that cannot be read."""
        try:
            document = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
            return cls(**{**document, "changed": tuple(document["changed"])})
        except (OSError, ValueError, TypeError, KeyError):
            return None


@dataclass(frozen=True)
class Inputs:
    """The inputs of a plan, as `inputs` in boot.sh prints them: a line "NAME TEXT" for each."""

    text: str

    @classmethod
    def saved(cls, folder: Path = STATE) -> Inputs | None:
        """Return the inputs of this node's last plan; None where it has not planned itself."""
        file = folder / "inputs"
        return cls(read_text(file)) if file.exists() else None

    @property
    def values(self) -> dict[str, str]:
        """The texts by name."""
        return dict(line.partition(" ")[::2] for line in self.text.splitlines())

    def changed(self, was: Inputs) -> list[str]:
        """Return the names of the inputs that have changed."""
        earlier, current = was.values, self.values
        names = dict.fromkeys([*earlier, *current])
        return [name for name in names if earlier.get(name) != current.get(name)]

    def differences(self, was: Inputs) -> tuple[str, ...]:
        """Return a sentence for each input that has changed."""
        earlier, current = was.values, self.values
        return tuple(_difference(name, earlier.get(name), current.get(name)) for name in self.changed(was))

    def is_of_this_machine(self, was: Inputs) -> bool:
        """Whether only the machine's purpose or numaforge has changed."""
        return all(name.startswith(_INTENT) for name in self.changed(was))

    def differs_in_kubelet_files_alone(self, was: Inputs) -> bool:
        """Whether only the kubelet's own files have changed, as `kubeadm join` writes them."""
        changed = self.changed(was)
        return all(name.startswith("file-") and not name.startswith(_INTENT) for name in changed)

    def is_of_another_machine(self, was: Inputs) -> bool:
        """Whether the disk was planned in another machine: cloned, or moved."""
        return not {*_MACHINE}.isdisjoint(self.changed(was))

    def is_in_other_hardware(self, was: Inputs) -> bool:
        """Whether the disk was planned in a machine with another system UUID."""
        uuids = {inputs.values.get("system-uuid") for inputs in (self, was)}
        return None not in uuids and len(uuids) > 1


def boot_script() -> str:
    """Return the program that runs before each start of the kubelet."""
    return f"#!/bin/sh\n{_library()}before_kubelet\n"


def inputs_script() -> str:
    """Return the script that prints the inputs."""
    return asking(_library() + shell.call("inputs"))


def _library() -> str:
    values = {
        "PROGRAM": PROGRAM,
        "STATE": str(STATE),
        "TRANSACTIONS": TRANSACTIONS,
        "RUN": str(RUN),
        "ISSUE": str(ISSUE),
        "REPORT_UNIT": REPORT_UNIT,
        "UNIT_FOLDERS": " ".join(UNIT_FOLDERS),
    }
    return shell.assignments(values) + shell.library("node/paths", "image/first_boot/boot")


def watch(paths: Iterable[str], state: Path = STATE) -> bool:
    """List the kubelet's files, or folders of drop-ins, that are inputs; return whether the list is new."""
    text = "".join(f"{shell.line(path)}\n" for path in paths)
    if _read(state / _WATCHED) == text:
        return False
    _store(state, {_WATCHED: text})
    return True


def stamp(record: BootRecord, inputs: Inputs, sums: Mapping[str, str], folder: Path = STATE) -> None:
    """Store how a node has planned itself, and what each start of its kubelet compares with.

    `sums` are checksums of files by path. The inputs are written last: without them the node plans itself
    again. Raises NumaforgeError where it cannot be stored.
    """
    files = "".join(f"{total}  {shell.line(path)}\n" for path, total in sums.items())
    _store(folder, {_RECORD: _text(record), "files": files, "inputs": inputs.text})


def note_confirmed(trial: BootRecord, confirmed: str, state: Path = STATE) -> BootRecord:
    """Record who confirms the plan on trial."""
    record = replace(trial, confirmed=confirmed)
    _store(state / TRIAL.name, {_RECORD: _text(record)})
    return record


def accept(record: BootRecord, state: Path = STATE) -> BootRecord:
    """Put the plan on trial into effect, once or again, and forget the failed one; return its record."""
    folder = state / TRIAL.name
    texts = {name: _read(folder / name) for name in ("files", "inputs")}
    if all(text is not None for text in texts.values()):
        _store(state, {_RECORD: _text(record), **{name: text or "" for name, text in texts.items()}})
    forget(TRIAL, FAILED, state=state)
    return record


def reject(why: str, state: Path = STATE) -> None:
    """Record that the plan on trial has failed: it is not tried again with the same inputs.

    `why` is shown at the login prompt, and may have words of the kubelet: only printable ones are kept.
    """
    printable = "".join(char if char.isprintable() else " " for char in why)
    _store(state / TRIAL.name, {WHY: f"{printable}\n"})
    forget(FAILED, state=state)
    (state / TRIAL.name).replace(state / FAILED.name)


def forget(*folders: Path, state: Path = STATE) -> None:
    """Forget the plan on trial (TRIAL), or the one that failed (FAILED)."""
    for folder in folders:
        shutil.rmtree(state / folder.name, ignore_errors=True)


def are_intact(folder: Path = STATE) -> bool:
    """Whether the files that were written for the kubelet are as they were stamped."""
    done = subprocess.run(["sha256sum", "-c", "--status", str(folder / "files")], check=False)
    return done.returncode == 0


def _text(record: BootRecord) -> str:
    return json.dumps(asdict(record), indent=2) + "\n"


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return None


def _store(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files in this order, each whole and flushed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            new = folder / f"{name}.new"
            with new.open("w", encoding="utf-8") as opened:
                opened.write(text)
                opened.flush()
                os.fsync(opened.fileno())
            new.replace(folder / name)
    except OSError as error:
        raise NumaforgeError(
            f"what the node was planned on cannot be kept: {error.strerror}", where=str(folder)
        ) from error


def _difference(name: str, was: str | None, current: str | None) -> str:
    if was is None:
        return f"{name} is new: {current}"
    if current is None:
        return f"{name} is gone: {was}"
    return f"{name} was {was}, and is {current}"
