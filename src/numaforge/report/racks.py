"""Racks whose trays disagree, in few words."""

from numaforge.lib.quantity import counted
from numaforge.machine.topology.trays import Disagreement
from numaforge.report.hostnames import in_short


def disagreement_text(disagreement: Disagreement) -> str:
    """Return what trays differ in: `NVLink clique 0011.7: list of IMEX nodes: 3f2a (18 nodes) on ...`."""
    groups = (
        f"{value} on {counted(len(hosts), 'tray')}, {in_short(hosts)}"
        for value, hosts in disagreement.groups.items()
    )
    return f"the trays of {disagreement.rack} do not agree on the {disagreement.what}: {'; '.join(groups)}"
