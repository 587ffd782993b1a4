"""Files that root may trust: no other user can write or replace them.

The rule of the node's paths.sh, for programs that read as root.
"""

import os
import stat
from pathlib import Path

from numaforge.lib.errors import HostError

_MOST_LINKS = 40


def require_roots(file: Path) -> None:
    """Raise HostError for a file that another user could write, or redirect by a folder or a link."""
    folder, ahead, links = Path("/"), [*file.absolute().parts[1:]], 0
    sticky = _is_sticky(folder, file)
    while ahead:
        below = folder / ahead.pop(0)
        if below.name == "..":
            folder, sticky = folder.parent, False
            continue
        status = _looked_at(below)
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if status.st_uid != 0 or sticky or links > _MOST_LINKS:
                raise _refused(file, f"{below} is a link that another user may have made")
            target = below.readlink()
            if target.is_absolute():
                folder, sticky = Path("/"), _is_sticky(Path("/"), file)
            ahead = [part for part in target.parts if part != "/"] + ahead
            continue
        if sticky and not stat.S_ISDIR(status.st_mode):
            raise _refused(file, f"every user may write to {folder}")
        folder, sticky = below, _is_sticky(below, file)
    if sticky:
        raise _refused(file, f"every user may write to {folder}")


def _is_sticky(path: Path, file: Path) -> bool:
    """Whether it is a sticky folder of root's; raises HostError for one that others may write."""
    status = _looked_at(path)
    if status.st_uid != 0:
        raise _refused(file, f"{path} belongs to the user {status.st_uid}")
    if not status.st_mode & 0o022:
        return False
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return True
    if status.st_mode & 0o002 or status.st_gid != 0 or "system.posix_acl_access" in os.listxattr(path):
        raise _refused(file, f"others than root may write to {path}")
    return False


def _looked_at(path: Path) -> os.stat_result:
    try:
        return path.lstat()
    except OSError as error:
        raise HostError(f"cannot be read: {error.strerror}", where=str(path)) from error


def _refused(file: Path, why: str) -> HostError:
    return HostError(
        f"is not read as root: {why}", where=str(file), remedy="give it, and its folders, to root alone"
    )
