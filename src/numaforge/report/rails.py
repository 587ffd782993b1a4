"""Rails as a table, and as a picture: each RDMA device with lines to the GPUs nearest to it."""

from collections import Counter

from rich.console import RenderableType

from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import counted
from numaforge.machine.topology.links import gpu_names
from numaforge.machine.topology.model import NodeTopology, RdmaDevice
from numaforge.machine.topology.rails import best_devices, rails
from numaforge.report.boxes import (
    BODY,
    PADDING,
    SMALL,
    SMALL_CHIP,
    Box,
    in_grid,
    linked,
    panel,
    small_chip,
    text_width,
)
from numaforge.report.columns import add_row, columns
from numaforge.report.machine_wording import rdma_roles
from numaforge.report.wording import joined

_GAP = 6.0
_LEAST_NIC_CHIP = 92.0


def rail_table(topology: NodeTopology) -> RenderableType:
    """Return a row for each RDMA device: those on rails with their GPUs, then those on none."""
    names, roles = gpu_names(topology.gpus), rdma_roles(topology)
    headers = ("Rail", "RDMA", "GPUs", "Distance", "Best of", "Ports", *(["Role"] if roles else []))
    best, listed = _best_of(topology), rails(topology)
    rows = [
        (
            rail.number if rail.gpus else "",
            rail.device,
            ", ".join(names[gpu] for gpu in rail.gpus) or "none",
            rail.distance or "",
            ", ".join(names[gpu] for gpu in best.get(rail.device.name, ())),
        )
        for rail in listed
    ]
    on_rails = {rail.device.name for rail in listed}
    rows += [("", one, "none", "", "") for one in topology.rdma_devices if one.name not in on_rails]
    table = columns(*headers, right=("Rail",), wraps={*headers} - {"RDMA"})
    for number, device, *cells in rows:
        role = [roles.get(device.name, "")] if roles else []
        add_row(table, number, device.name, *cells, _ports(device), *role)
    return table


def rails_box(topology: NodeTopology, width: float) -> Box | None:
    """Return the rails that have GPUs: an RDMA device each, and lines to its GPUs."""
    listed = [rail for rail in rails(topology) if rail.gpus]
    if not listed:
        return None
    inner = width - 2 * PADDING
    names, best = gpu_names(topology.gpus), _best_of(topology)
    shared = sum(len(rail.gpus) for rail in listed) > sum(map(len, best.values()))
    nic_width = max(_LEAST_NIC_CHIP, *(text_width(rail.device.name, BODY, bold=True) + 8 for rail in listed))
    length = max(text_width(rail.distance or "", SMALL) for rail in listed) + 10
    room = max(1, int((inner - nic_width - length + _GAP) // (SMALL_CHIP + _GAP)))
    rows = []
    for rail in listed:
        own, label, on_rail = best.get(rail.device.name, ()), rail.distance or "", f"rail {rail.number}"
        chips = [small_chip(names[gpu], "best" if shared and gpu in own else "") for gpu in rail.gpus]
        nic = small_chip(rail.device.name, on_rail, "nic", nic_width)
        title = joined([on_rail, rail.device.name, label, *(names[gpu] for gpu in rail.gpus)])
        rows.append(linked(nic, label, in_grid("device-row", chips, room, _GAP), "rail-link", title, length))
    across = max(1, int((inner + 4 * _GAP) // (max(row.width for row in rows) + 4 * _GAP)))
    grid = in_grid("device-row", rows, across, 4 * _GAP, stretched=False)
    return panel("Rails: each RDMA device and the GPUs nearest to it", [grid], width)


def _best_of(topology: NodeTopology) -> dict[str, list[str]]:
    """Return the GPUs for which each device is the best, by its name."""
    return grouped((device.name, gpu) for gpu, device in best_devices(topology).items())


def _ports(device: RdmaDevice) -> str:
    states = Counter(port.state or "unknown" for port in device.ports)
    if len(device.ports) == 1:
        return next(iter(states))
    return ", ".join(f"{counted(count, 'port')} {state}" for state, count in states.items())
