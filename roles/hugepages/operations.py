"""Fill hugepage pools, all of them or none, where no kubelet counts on what they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pyinfra import host
from pyinfra.api import Host

from numaforge import bundle
from numaforge.bundle import FileContent
from numaforge.errors import HostError
from numaforge.hosts import (
    Commands,
    host_operation,
    roles_of,
    script_command,
    script_output,
    show_changes,
    show_lines,
)
from numaforge.hugepages import FUNCTIONS, differing, moves, pools_function
from numaforge.planning.files import HUGEPAGES_TMPFILES_PATH
from numaforge.planning.model import KubeletPlan
from numaforge.roles.kubelet.facts import kubelet_unit

from .facts import pools_question, pools_state

# A pool that is neither old nor new fits no plan.
_FILL = f"""
set_pools planned && exit
echo "$short" >&2
if set_pools earlier; then
    echo "memory is too fragmented, or pages are in use; the pools are as they were." >&2
else
    echo "memory is too fragmented, or pages are in use; and not every pool has what it had:" >&2
    echo "$short" >&2
fi
echo "Reboot: {HUGEPAGES_TMPFILES_PATH} fills them before anything else takes the memory. Then run again" >&2
exit 1
"""


@host_operation
def hugepage_pools(
    files: Sequence[FileContent], absent: Sequence[str], pools: Mapping[str, int], kubelet: KubeletPlan | None
) -> Commands:
    """Write the files for the next boot, and give every pool its number of pages.

    + files: what fills the pools at boot
    + absent: paths that must not exist
    + pools: pages by `nr_hugepages` path
    + kubelet: the kubelet that has to restart when they change
    """
    question = pools_question(files, absent, pools)
    found = pools_state(question, script_output(host, question.script))
    changed = bundle.changes(files, absent, found.files)
    wanted = differing(pools, found.pools)
    lines = moves(wanted, found.pools)
    if not changed and not wanted:
        host.noop("the hugepage pools are already as planned" if pools else "the plan has no hugepage pools")
        return
    if kubelet and kubelet_runs(host, kubelet):
        if "kubelet" in roles_of(host) and not host.state.is_executing:
            host.noop("the hugepage pools change together with the kubelet")
            return
        if wanted:
            raise beside_kubelet(wanted, found.pools)
    show_changes(host, changed)
    show_lines(host, lines)
    if changed:
        yield script_command(bundle.write_script(changed))
    if wanted:
        earlier = {path: found.pools[path] for path in wanted}
        steps = [FUNCTIONS, pools_function("planned", wanted), pools_function("earlier", earlier), _FILL]
        yield script_command("".join(steps))


def kubelet_runs(on: Host, kubelet: KubeletPlan) -> bool:
    """Ask the host whether its kubelet runs."""
    return kubelet_unit(partial(script_output, on), kubelet.unit).runs


def beside_kubelet(wanted: Mapping[str, int], now: Mapping[str, int]) -> HostError:
    """Return the refusal to change pools under a kubelet that runs."""
    path, pages = next(iter(sorted(wanted.items())))
    others = f" (one of {len(wanted)} pools that differ)" if len(wanted) > 1 else ""
    return HostError(
        f"{pages} huge pages are planned, and there are {now.get(path, 'none')}{others}; but the kubelet "
        "runs: it offers what it found when it started, and may not start again with anything else",
        where=path,
        remedy="deploys/site.py or deploys/kubelet.py changes both together, and drains the node for that",
    )
