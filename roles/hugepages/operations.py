"""Fill hugepage pools, all of them or none."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from pyinfra import host
from pyinfra.api import StringCommand

from numaforge.errors import HostError
from numaforge.hosts import Commands, host_operation, kernel_values, show_lines
from numaforge.planning.files import HUGEPAGES_TMPFILES_PATH

FILES = (HUGEPAGES_TMPFILES_PATH,)

# Pools that shrink come first, so that their memory can serve the others. When one cannot be filled even
# after the kernel has compacted memory, every pool gets back what it had: a pool that is neither old nor new
# fits no plan.
_FILL = r"""
failed=
fill() { # PATH WANTED
    echo "$2" > "$1"
    read -r got < "$1"
    if [ "$got" != "$2" ]; then
        sync
        echo 1 > /proc/sys/vm/compact_memory 2>/dev/null
        echo "$2" > "$1"
        read -r got < "$1"
    fi
    [ "$got" = "$2" ] && return
    pool=${1%/nr_hugepages}
    node=${pool%/hugepages/*}
    read -r free < "$pool/free_hugepages"
    memory=
    while read -r _ _ name amount unit; do
        [ "$name" = MemFree: ] && memory=", $amount $unit of memory free on ${node##*/}"
    done < "$node/meminfo"
    echo "$1: wanted $2, got $got ($free of them free)$memory" >&2
    failed=yes
}
"""
_REMEDY = (
    "memory is too fragmented, or pages are in use; the pools are as they were. "
    f"Reboot: {HUGEPAGES_TMPFILES_PATH} fills them before anything else takes the memory. "
    "Then run again"
)


@host_operation
def hugepage_pools(pools: Mapping[str, int]) -> Commands:
    """Give every pool its number of pages.

    + pools: pages by `nr_hugepages` path
    """
    now = kernel_values(host, list(pools))
    missing = sorted(set(pools) - set(now))
    if missing:
        raise HostError(
            "this kernel has no such pool",
            where=", ".join(missing),
            remedy="choose a hugepage size that /sys/devices/system/node/node*/hugepages lists",
        )
    growth = {path: pages - int(now[path]) for path, pages in pools.items() if str(pages) != now[path]}
    if not growth:
        host.noop("the hugepage pools are already as planned" if pools else "the plan has no hugepage pools")
        return
    ordered = sorted(growth, key=lambda path: (growth[path], path))
    show_lines(host, [f"{path}: {now[path]} -> {pools[path]}" for path in ordered])
    fill = [f"fill {shlex.quote(path)} {pools[path]}" for path in ordered]
    put_back = [f"    echo {now[path]} > {shlex.quote(path)}" for path in reversed(ordered)]
    give_up = [
        'if [ -n "$failed" ]; then',
        *put_back,
        f"    echo {shlex.quote(_REMEDY)} >&2",
        "    exit 1",
        "fi",
    ]
    yield StringCommand("sh", "-s", _stdin="\n".join([_FILL, *fill, *give_up, ""]))
