"""Pools of huge pages: which are to change, and the shell words that fill them, all or none."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from numaforge.errors import HostError

NO_SUCH_POOL = "this kernel has no such pool"
OTHER_SIZES = "choose a hugepage size that /sys/devices/system/node/node*/hugepages lists"

# The kernel gives as many pages as it finds, without a word: the number is read back. POOLS is a function
# that `pools_function` has written.
FUNCTIONS = r"""
pages() { head -n 1 "$1"; } # PATH
shrink() { # PATH PAGES
    if [ "$(pages "$1")" -gt "$2" ]; then echo "$2" > "$1"; fi
}
fill() { # PATH PAGES: also where as many are counted, for some may be on loan and go when they fall free
    echo "$2" > "$1"
}
complain() { # PATH PAGES: say what is amiss
    got=$(pages "$1")
    if [ "$got" = "$2" ]; then return; fi
    pool=${1%/nr_hugepages}
    node=${pool%/hugepages/*}
    memory=$(sed -n 's/.*MemFree: *//p' "$node/meminfo")
    echo "$1: wanted $2, got $got ($(pages "$pool/free_hugepages") of them free)," \
        "$memory of memory free on ${node##*/}"
}
set_pools() { # POOLS; sets `short` to what is amiss. What shrinks comes first: its memory may serve others
    "$1" shrink
    "$1" fill
    short=$("$1" complain)
    if [ -z "$short" ]; then return; fi
    echo 1 > /proc/sys/vm/compact_memory
    "$1" shrink
    "$1" fill
    short=$("$1" complain)
    [ -z "$short" ]
}
"""


def pools_function(name: str, pages: Mapping[str, object]) -> str:
    """Return the shell function that runs its argument for each pool's path and pages.

    `pages` are numbers or shell words, by `nr_hugepages` path.
    """
    rows = "".join(f'    "$1" {shlex.quote(path)} {word}\n' for path, word in sorted(pages.items()))
    return f"{name}() {{\n{rows}    :\n}}\n"


def differing(planned: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """Return the planned pages of the pools that have others now, by `nr_hugepages` path."""
    return {path: pages for path, pages in planned.items() if now.get(path) != pages}


def moves(wanted: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    """Return a line for each pool that changes.

    Raises HostError for a pool that the kernel does not have.
    """
    missing = sorted(set(wanted) - set(now))
    if missing:
        raise HostError(NO_SUCH_POOL, where=", ".join(missing), remedy=OTHER_SIZES)
    return [f"{path}: {now[path]} -> {pages}" for path, pages in sorted(wanted.items())]
