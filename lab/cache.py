"""A folder per recipe: made once, renamed into place when complete, found again by the recipe's hash."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.paths import cache_directory
from lab.progress import say, step

_KEPT = 4
"""How many results of one kind stay."""


def digest(parts: Iterable[str | bytes]) -> str:
    """Return the hash of a recipe's parts; the same parts in another order are another recipe."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(len(data).to_bytes(8, "big"))
        whole.update(data)
    return whole.hexdigest()[:20]


def tree_parts(root: Path) -> Iterator[str | bytes]:
    """Yield name, mode and content of every file below `root`, in order."""
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield f"{path.relative_to(root)} {path.stat().st_mode & 0o777:o}"
            yield path.read_bytes()


def entry(kind: str, key: str) -> Path:
    """Return where the result of the recipe `key` lies or would lie."""
    return cache_directory() / kind / key


def obtain(kind: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of a recipe's result; run `make` on an empty folder first where there is none.

    Two processes that want the same result do not make it twice: the second waits for the first.
    """
    final = entry(kind, key)
    if final.is_dir():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with _locked(final.parent / f".{key}.lock"):
        if final.is_dir():
            return final
        for leftover in final.parent.glob(f".{key}.making-*"):
            shutil.rmtree(leftover)
        making = Path(tempfile.mkdtemp(prefix=f".{key}.making-", dir=final.parent))
        try:
            with step(f"make {kind}"):
                make(making)
            making.chmod(0o755)
            making.rename(final)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
    _forget_old(final)
    return final


def _forget_old(newest: Path) -> None:
    """Remove all but the newest results of one kind; a recipe that comes back is made again."""
    results = [path for path in newest.parent.iterdir() if path.is_dir() and not path.name.startswith(".")]
    results.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in results[_KEPT:]:
        if path != newest:
            say(f"forget {path.parent.name} {path.name}")
            shutil.rmtree(path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
