"""How a target is tried: what was found before, then seeded cases; an answer or a refusal, in time."""

import hashlib
import os
import resource
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import FrameType

from numaforge.lib.errors import NumaforgeError

CORPUS = Path(__file__).with_name("corpus")

FACTOR = int(os.environ.get("NUMAFORGE_FUZZ", "1"))
"""How many times the cases of `make test` are tried; `make test-all PART=fuzz` says 120."""
SEED = int(os.environ.get("NUMAFORGE_FUZZ_SEED", "1"))
LIMIT_SECONDS = 10
"""Of CPU, which a busy machine does not stretch; what only waits is given `WAIT_SECONDS`."""
WAIT_SECONDS = 300
LIMIT_KIB = 500 * 2**10
"""What the process may have taken at most, with all of pytest in it."""


@dataclass(frozen=True)
class Target:
    """A parser: `read` returns or raises NumaforgeError; `case` makes one of the `cases` of a run."""

    name: str
    read: Callable[[str], object]
    case: Callable[[Random], str]
    cases: int


class TooLongError(Exception):
    """A case took longer than any input may."""


def trouble(target: Target, text: str) -> str | None:
    """Return what is wrong with how a parser takes a text, None where it answers or refuses it clearly."""
    before = _most_kib()
    try:
        with _in_time():
            target.read(text)
    except NumaforgeError as refusal:
        if not refusal.message.strip():
            return "a refusal that says nothing"
    except Exception as fault:
        where = traceback.extract_tb(fault.__traceback__)[-1]
        return f"{type(fault).__name__}: {str(fault)[:200]} ({Path(where.filename).name}:{where.lineno})"
    return "more than 500 MiB" if before <= LIMIT_KIB < _most_kib() else None


def troubles(target: Target) -> list[str]:
    """Return what is wrong with the cases of the corpus and with new ones, each kept as a file beside it."""
    found = {}
    for file in sorted((CORPUS / target.name).glob("*")):
        if wrong := trouble(target, file.read_text(encoding="utf-8", errors="surrogateescape")):
            found[wrong] = f"{file.name}: {wrong}"
    random = Random(f"{SEED}/{target.name}")  # noqa: S311 (the same cases each time)
    for _ in range(target.cases * FACTOR):
        text = target.case(random)
        if (wrong := trouble(target, text)) and wrong not in found:
            found[wrong] = f"{_keep(target, text)}: {wrong}"
    return [*found.values()]


def _keep(target: Target, text: str) -> str:
    content = text.encode("utf-8", "surrogateescape")
    folder = CORPUS / target.name
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(content).hexdigest()[:12]
    (folder / name).write_bytes(content)
    return name


def _most_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@contextmanager
def _in_time() -> Iterator[None]:
    def too_long(_signal: int, _frame: FrameType | None) -> None:
        raise TooLongError(f"more than {LIMIT_SECONDS} s")

    limits = {
        signal.ITIMER_PROF: (signal.SIGPROF, LIMIT_SECONDS),
        signal.ITIMER_REAL: (signal.SIGALRM, WAIT_SECONDS),
    }
    before = {number: signal.signal(number, too_long) for number, _ in limits.values()}
    for timer, (_, seconds) in limits.items():
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for timer in limits:
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
