"""The state that a change was planned on, so that a node in another state refuses it.

The look reads it (look.sh), and fence.sh checks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from numaforge.lib.errors import HostUnreachableError
from numaforge.lib.shell import line


@dataclass(frozen=True)
class Fingerprint:
    """The state of a node when its change was planned.

    `boot_id` is that of the kernel and of its userspace. `uptime_seconds` is the node's own clock.
    `predecessor` is the last transaction that touched the node, with its outcome ("T1 applied"), "" for none.
    `contents` are the checksums of the files that the plan depends on, by path ("absent" for one that does
    not exist), with every drop-in of `drop_in_folder`.
    """

    boot_id: str
    uptime_seconds: int
    predecessor: str
    contents: Mapping[str, str]
    drop_in_folder: str | None = None


def read_fingerprint(
    facts: Mapping[str, str], *, contents: Mapping[str, str], drop_in_folder: str | None
) -> Fingerprint:
    """Read what `tell_transactions` in look.sh printed, by first word."""
    try:
        return Fingerprint(facts["boot"], int(facts["uptime"]), facts["last"], contents, drop_in_folder)
    except (KeyError, ValueError) as error:
        raise HostUnreachableError("the node does not report its uptime", remedy="run again") from error


def settings(planned_on: Fingerprint | None, good_for_seconds: int) -> dict[str, str]:
    """Return the variables of fence.sh; without a fingerprint any node is accepted."""
    fingerprint = planned_on or Fingerprint("", 0, "", {})
    return {
        "PLANNED_BOOT": fingerprint.boot_id,
        "PLANNED_UPTIME": str(fingerprint.uptime_seconds),
        "PLANNED_LAST": fingerprint.predecessor,
        "PLANNED_FOLDER": fingerprint.drop_in_folder or "",
        "GOOD_FOR_SECONDS": str(good_for_seconds),
    }


def planned_lines(planned_on: Fingerprint | None) -> str:
    """Return the data file with the contents that were found, as fence.sh prints them."""
    contents = planned_on.contents if planned_on else {}
    return "".join(f"{checksum} {line(path)}\n" for path, checksum in contents.items())
