"""The frame of a role's worker: it runs alone, records the state before, and turns errors into a status.

Nodes run this: a role's worker has it before its own modules, after those about holders.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numaforge.node.holders import NotDoneError, OutdatedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

OUTDATED_STATUS = 3
LOCK_SECONDS = 120


@contextmanager
def alone(lock: str) -> Iterator[None]:
    """Hold a lock in a folder of root's; raises NotDoneError where another has it for LOCK_SECONDS."""
    Path(lock).parent.mkdir(mode=0o700, exist_ok=True)
    with Path(lock).open("w") as file:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() >= deadline:
                raise NotDoneError(
                    f"another process has worked on these GPUs for {LOCK_SECONDS} s: fuser -v {lock} names it"
                )
            time.sleep(0.2)
        yield


def note_earlier(folder: Path, gpus: Sequence[dict[str, Any]]) -> None:
    """Note the present state on the disk before anything changes."""
    with (folder / "earlier.json").open("w", encoding="utf-8") as file:
        json.dump({"gpus": gpus}, file)
        file.flush()
        os.fsync(file.fileno())


def note(folder: Path | None, text: str) -> None:
    """Note a text for readers of the transaction's result; without a folder, of the journal."""
    if folder is None:
        print(text, file=sys.stderr)
    else:
        (folder / "notes").write_text(f"{text}\n", encoding="utf-8")


def run_to_status(do: Callable[..., None], *words: str) -> None:
    """Run one verb; exit with 1 and the error, or with 3 where `keep` finds a holder new since the look."""
    try:
        do(*words)
    except OutdatedError as error:
        print(error, file=sys.stderr)
        sys.exit(OUTDATED_STATUS if words[0] == "keep" else 1)
    except NotDoneError as error:
        sys.exit(str(error))
