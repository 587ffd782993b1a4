"""Rails as a table, and as a picture: each RDMA device with lines to the GPUs nearest to it."""

from collections.abc import Mapping, Sequence

from rich.console import RenderableType

from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import counted
from numaforge.machine.topology.links import gpu_names
from numaforge.machine.topology.model import NodeTopology, RdmaDevice
from numaforge.machine.topology.rails import Rail, best_devices, rails
from numaforge.report.boxes import BODY, PADDING, SMALL, Box, Text, bottom, in_grid, panel, text_width
from numaforge.report.columns import add_row, columns
from numaforge.report.device_boxes import SMALL_CHIP, small_chip
from numaforge.report.machine_wording import rdma_roles
from numaforge.report.wording import joined

_GAP = 6.0
_LEAST_NIC_CHIP = 92.0


def rail_table(topology: NodeTopology) -> RenderableType:
    """Return a row for each RDMA device: those on rails with their GPUs, then those on none."""
    names, roles = gpu_names(topology.gpus), rdma_roles(topology)
    headers = ("Rail", "RDMA", "GPUs", "Distance", "Best of", "Ports", *(["Role"] if roles else []))
    table = columns(*headers, right=("Rail",), wraps={*headers} - {"RDMA"})
    best, listed = _best_of(topology), rails(topology)
    unlisted = [one for one in topology.rdma_devices if one.name not in {rail.device.name for rail in listed}]
    for rail in listed:
        gpus = [names[gpu] for gpu in best.get(rail.device.name, ())]
        add_row(
            table,
            str(rail.number) if rail.gpus else "",
            rail.device.name,
            ", ".join(names[gpu] for gpu in rail.gpus) or "none",
            rail.distance or "",
            ", ".join(gpus),
            _ports(rail.device),
            *([roles.get(rail.device.name, "")] if roles else []),
        )
    for device in unlisted:
        role = [roles.get(device.name, "")] if roles else []
        add_row(table, "", device.name, "none", "", "", _ports(device), *role)
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
    line_width = max(text_width(rail.distance or "", SMALL) for rail in listed) + 10
    room = max(1, int((inner - nic_width - line_width + _GAP) // (SMALL_CHIP + _GAP)))
    rows = []
    for rail in listed:
        notes = {names[gpu]: "best" for gpu in best.get(rail.device.name, ())} if shared else {}
        chips = [small_chip(names[gpu], notes.get(names[gpu], "")) for gpu in rail.gpus]
        rows.append(_row(rail, in_grid("device-row", chips, room, _GAP), nic_width, line_width, names))
    across = max(1, int((inner + 4 * _GAP) // (max(row.width for row in rows) + 4 * _GAP)))
    grid = in_grid("device-row", rows, across, 4 * _GAP, stretched=False)
    return panel("Rails: each RDMA device and the GPUs nearest to it", [grid], width)


def _row(rail: Rail, gpus: Box, nic_width: float, line_width: float, names: Mapping[str, str]) -> Box:
    nic = small_chip(rail.device.name, f"rail {rail.number}", "nic", nic_width)
    label = rail.distance or ""
    title = joined([f"rail {rail.number}", rail.device.name, label, *(names[gpu] for gpu in rail.gpus)])
    line = Box(("rail-link",), line_width, 3, x=nic_width, y=nic.height / 2, title=title)
    text = Text(label, nic_width + line_width / 2, nic.height / 2 - 4, SMALL, anchor="middle")
    placed = gpus.at(nic_width + line_width, 0)
    return Box(
        ("group",),
        nic_width + line_width + gpus.width,
        max(nic.height, bottom([placed])),
        texts=(text,),
        children=(nic, line, placed),
    )


def _best_of(topology: NodeTopology) -> dict[str, list[str]]:
    """Return the GPUs for which each device is the best, by its name."""
    return grouped((device.name, gpu) for gpu, device in best_devices(topology).items())


def _ports(device: RdmaDevice) -> str:
    states: Sequence[str] = [port.state or "unknown" for port in device.ports]
    return ", ".join(
        state
        if states.count(state) == len(states) == 1
        else f"{counted(states.count(state), 'port')} {state}"
        for state in dict.fromkeys(states)
    )
