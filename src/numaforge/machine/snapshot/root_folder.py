"""A folder that is a machine's root directory: links resolve as on that machine and never lead out of it."""

import posixpath
from pathlib import Path

_MOST_LINKS = 40  # as many as the kernel follows


class LinkLoopError(Exception):
    """A path leads through more links than the kernel follows."""


class RootFolder:
    """A captured or mounted root directory; each path is resolved once."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._real: dict[str, str | None] = {"/": str(self._root)}

    def find(self, path: str, followed: int = 0) -> str | None:
        """Return where an absolute path of the machine really lies, or None where it leads nowhere.

        Raises LinkLoopError for a path that leads through more than 40 links.
        """
        path = posixpath.normpath(path)
        if path in self._real:
            return self._real[path]
        if followed > _MOST_LINKS:
            raise LinkLoopError(path)
        parent = self.find(posixpath.dirname(path), followed)
        entry = None if parent is None else Path(parent, posixpath.basename(path))
        if entry is None or not entry.is_symlink():
            real = str(entry) if entry is not None and entry.exists() else None
        else:
            inside = "/" + posixpath.relpath(str(parent), str(self._root))
            link = posixpath.join(inside, str(entry.readlink()))
            real = self.find(posixpath.normpath(link), followed + 1)
        self._real[path] = real
        return real
