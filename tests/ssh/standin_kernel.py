"""What files in place of /sys lack: a kernel with only so much memory for huge pages."""

from collections.abc import Callable

from tests.ssh.sandbox import Sandbox

# It grants what was asked for when a pool is read, which comes between any two that are written.
_HEAD = """#!/bin/sh
grant() { # POOL OTHER KIB OTHERS-KIB
    asked=$(cat "$1/nr_hugepages")
    others=$(($(cat "$2/granted") * $4))
    room=$((GIBIBYTES * 1048576 - others))
    if [ FRAGMENTED = True ] && [ "$(cat /proc/sys/vm/compact_memory)" != 1 ]; then room=$((room / 2)); fi
    most=$((room / $3))
    if [ "$asked" -gt "$(cat "$1/granted")" ] && [ "$asked" -gt "$most" ]; then asked=$most; fi
    echo "$asked" > "$1/granted"
    echo "$asked" > "$1/nr_hugepages"
}
for path; do :; done
case $path in
*/nr_hugepages)
    small=${path%/*/*}/hugepages-2048kB large=${path%/*/*}/hugepages-1048576kB
    for pool in "$small" "$large"; do
        if [ ! -e "$pool/granted" ]; then cat "$pool/nr_hugepages" > "$pool/granted"; fi
    done
    grant "$small" "$large" 2048 1048576
    grant "$large" "$small" 1048576 2048
    ;;
esac
exec /usr/bin/head "$@"
"""


def memory_of_both_sizes(node: Sandbox, gibibytes: int, *, fragmented: bool = False) -> None:
    """Let each NUMA node have so much memory for its two pools; half of it until it is compacted."""
    program = node.path("/usr/local/bin/head")
    program.write_text(_HEAD.replace("GIBIBYTES", str(gibibytes)).replace("FRAGMENTED", str(fragmented)))
    program.chmod(0o755)


# A pool cannot shrink below what is in use: the number stays, and what is over goes as soon as it falls
# free. A number that is written again, be it the same, is what the pool is promised from then on.
_IN_USE_HEAD = """#!/bin/sh
for path; do :; done
if [ "$path" = POOL ]; then
    if [ "$(stat -c %y POOL)" != "$(cat POOL.read 2>/dev/null)" ]; then cat POOL > POOL.promised; fi
    shown=$(cat POOL.promised)
    if [ "$shown" -lt PAGES ]; then shown=PAGES; fi
    echo "$shown" > POOL
    stat -c %y POOL > POOL.read
fi
exec /usr/bin/head "$@"
"""


def pages_in_use(node: Sandbox, pool: str) -> Callable[[], int]:
    """Let all pages of a pool be in use; return what says how many the pool will have once they are not."""
    pages = node.path(pool).read_text().strip()
    program = node.path("/usr/local/bin/head")
    program.write_text(_IN_USE_HEAD.replace("POOL", pool).replace("PAGES", pages))
    program.chmod(0o755)
    return lambda: int(node.path(f"{pool}.promised").read_text())
