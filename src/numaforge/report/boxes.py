"""The boxes of pictures: texts measured before they are placed, devices as chips, links between them."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, groupby
from math import ceil
from typing import NamedTuple, TypeAlias

from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import counted
from numaforge.machine.topology.links import (
    Device,
    direct_nvlinks,
    gpu_names,
    nvlink_domains,
    only_numa_node,
    pcie_switches,
)
from numaforge.machine.topology.model import Gpu, Nic, NodeTopology, NvlinkDomain, Nvme
from numaforge.report.machine_wording import (
    accelerator_label,
    gpu_label,
    nic_label,
    nic_speed,
    pcie_link,
    rdma_roles,
    slicing_in_force,
)
from numaforge.report.near_gpus import linked_lines
from numaforge.report.slices import GpuPart, GpuParts, parts_of
from numaforge.report.wording import ELLIPSIS, human_bytes, joined

# Widths of DejaVu Sans in thousandths of the font size. It is the widest of the common sans-serif fonts: what
# fits in it fits in the others.
_NARROW, _USUAL, _WIDE = 420, 650, 1000
_NARROW_CHARACTERS = frozenset(" .,:;!|'()[]ijltfr-/·…")
_WIDE_CHARACTERS = frozenset("mwMWQO@%+=<>#&")


PADDING = 10
LINE = 1.45  # line height per font size
SMALL, BODY, HEADING, TITLE = 10, 11, 13, 20


class Text(NamedTuple):
    """One line of text in its box: `x` is the position of its anchor, `y` its baseline."""

    content: str
    x: float
    y: float
    size: float
    anchor: str = "start"
    bold: bool = False
    muted: bool = False

    @property
    def width(self) -> float:
        """The upper bound of its width."""
        return text_width(self.content, self.size, self.bold)


@dataclass(frozen=True)
class Box:
    """A rectangle in its parent's coordinates. `kinds` are its CSS classes, `title` its tooltip."""

    kinds: tuple[str, ...]
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0
    title: str = ""
    texts: tuple[Text, ...] = ()
    children: "tuple[Box, ...]" = ()
    data: Mapping[str, str] = field(default_factory=dict)

    def at(self, x: float, y: float) -> "Box":
        """Return the same box elsewhere in its parent."""
        return replace(self, x=x, y=y)


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Return an upper bound of a text's width in pixels."""
    thousandths = sum(_character_width(character) for character in text)
    return thousandths * size / 1000 * (1.1 if bold else 1.0)


def fitted(candidates: Iterable[str], width: float, size: float, bold: bool = False) -> str:
    """Return the first text that fits into `width`, else the last one cut short with an ellipsis."""
    last = ""
    for last in candidates:
        if text_width(last, size, bold) <= width:
            return last
    if not last:
        return ""
    too_long = bisect_left(
        range(1, len(last) + 1), True, key=lambda n: text_width(last[:n] + ELLIPSIS, size, bold) > width
    )
    last = last[:too_long]
    return last.rstrip(" ,·") + ELLIPSIS if last else ""


def broken(text: str, width: float, size: float) -> list[str]:
    """Return a text in lines that fit into `width`, broken after commas and spaces; a longer piece is cut."""
    lines = [""]
    for piece in re.findall(r"[^, ]*[, ]*", text):
        if lines[-1] and text_width(lines[-1] + piece.rstrip(" "), size) > width:
            lines.append("")
        lines[-1] += piece
    return [fitted([line.rstrip(" ")], width, size) for line in lines]


def _character_width(character: str) -> int:
    if character in _NARROW_CHARACTERS:
        return _NARROW
    if not character.isascii() or character in _WIDE_CHARACTERS:
        return _WIDE
    return _USUAL + 60 if character.isupper() else _USUAL


def in_grid(kind: str, boxes: Sequence[Box], columns: int, gap: float, stretched: bool = True) -> Box:
    """Return the boxes in rows of `columns`; stretched ones fill their column and their row."""
    columns = min(columns, len(boxes))
    widths = [max(box.width for box in boxes[column::columns]) for column in range(columns)]
    placed: list[Box] = []
    y = 0.0
    for start in range(0, len(boxes), columns):
        row = boxes[start : start + columns]
        height = max(box.height for box in row)
        for column, box in enumerate(row):
            sized = replace(box, width=widths[column], height=height) if stretched else box
            placed.append(sized.at(sum(widths[:column]) + column * gap, y))
        y += height + gap
    return Box((kind,), sum(widths) + gap * (columns - 1), y - gap, children=tuple(placed))


def stacked(boxes: Sequence[Box], gap: float) -> list[Box]:
    placed, y = [], 0.0
    for box in boxes:
        placed.append(box.at(0, y))
        y += box.height + gap
    return placed


def bottom(boxes: Sequence[Box]) -> float:
    return max((box.y + box.height for box in boxes), default=0.0)


def panel(label: str, content: Sequence[Box], width: float) -> Box:
    """Return a box with a heading above the placed content."""
    heading = fitted([label], width - 2 * PADDING, HEADING, bold=True)
    text = Text(heading, PADDING, PADDING + HEADING - 1, HEADING, bold=True)
    top = PADDING + HEADING * LINE
    return framed("package", content, width, PADDING, top=top, title=label, texts=(text,))


def framed(
    kind: str,
    content: Sequence[Box],
    width: float,
    margin: float,
    *,
    top: float | None = None,
    title: str = "",
    texts: tuple[Text, ...] = (),
) -> Box:
    """Return a box around placed content, with a margin; `top` is the upper one, where it is another."""
    above = margin if top is None else top
    height = above + bottom(content) + margin
    children = tuple(box.at(box.x + margin, box.y + above) for box in content)
    return Box((kind,), width, height, title=title, texts=texts, children=children)


Drawn: TypeAlias = Device | Nvme
"""What has a chip in the picture."""
_LEAST_CHIP_WIDTH = 150.0
_GAP = 6.0
SMALL_CHIP = 62.0  # holds "GPU15" and "18 links"
_BAR = 20.0
_STUB = 10.0  # how long a line between a bar and a chip is
_PART = 12.0  # how high a part of a GPU is
_PART_FONT = 8.5


def all_devices(topology: NodeTopology) -> list[Drawn]:
    """Return GPUs, accelerators, NICs, NVMe drives, each by PCI address: one root complex after another."""
    kinds: tuple[Sequence[Drawn], ...] = (topology.gpus, topology.accelerators, topology.nics, topology.nvmes)
    return [device for kind in kinds for device in sorted(kind, key=lambda device: device.pci_address)]


class Chips(NamedTuple):
    """What the chips show: `names` by PCI address or RDMA device, `planned` GPUs by PCI address."""

    names: Mapping[str, str]
    planned: Mapping[str, Gpu]


def place_of(device: Drawn, topology: NodeTopology) -> int | None:
    """Return the NUMA node that a device is drawn on: the kernel's, else the only one that has CPUs."""
    return only_numa_node(topology) if device.numa_node is None else device.numa_node


def devices_box(
    devices: Sequence[Drawn], topology: NodeTopology, inner: float, planned: Mapping[str, Gpu]
) -> Box | None:
    """Return devices as chips, in a box per PCIe switch or in rows; `planned` has GPUs by PCI address."""
    if not devices:
        return None
    paths = {
        device.pci_address: pcie_switches(topology.pci_paths.get(device.pci_address, ()))
        for device in devices
    }
    chips = Chips(gpu_names(topology.gpus) | rdma_roles(topology), planned)
    content = stacked(_below(devices, paths, chips, inner), _GAP)
    return Box(("devices",), inner, bottom(content), children=tuple(content))


def _below(
    devices: Sequence[Drawn], paths: Mapping[str, tuple[str, ...]], chips: Chips, inner: float
) -> list[Box]:
    """Return boxes of the outermost switches that several devices share, then rows of the other devices."""
    by_switch = grouped((switch, device) for device in devices for switch in paths[device.pci_address][:1])
    shared = {switch: below for switch, below in by_switch.items() if len(below) > 1}
    columns = max(1, int((inner + _GAP) // (2 * (_LEAST_CHIP_WIDTH + 2 * _GAP))))
    width = (inner - _GAP * (columns - 1)) / columns
    deeper = {address: path[1:] for address, path in paths.items()}
    switches = [_switch(switch, below, deeper, chips, width) for switch, below in sorted(shared.items())]
    boxes = [in_grid("device-row", switches, columns, _GAP)] if switches else []
    loose = [device for device in devices if not shared.keys() & set(paths[device.pci_address][:1])]
    return boxes + _rows(loose, chips, inner)


def _switch(
    switch: str, devices: Sequence[Drawn], paths: Mapping[str, tuple[str, ...]], chips: Chips, width: float
) -> Box:
    inner = width - 2 * _GAP
    further = {paths[device.pci_address][:1] for device in devices}
    if len(further) == 1 and further != {()}:  # nothing else is below this switch
        deeper = {address: path[1:] for address, path in paths.items()}
        return _switch(further.pop()[0], devices, deeper, chips, width)
    label = f"PCIe switch {switch}"
    text = Text(fitted([label, switch], inner, SMALL), _GAP, _GAP + SMALL - 2, SMALL, muted=True)
    title = f"{label}: {counted(len(devices), 'device')}"
    content = stacked(_below(devices, paths, chips, inner), _GAP)
    return framed("pcie-switch", content, width, _GAP, top=_GAP + SMALL * LINE, title=title, texts=(text,))


def _rows(devices: Sequence[Drawn], chips: Chips, inner: float) -> list[Box]:
    """Return balanced rows of chips; each kind starts a new row, unless one row holds all devices."""
    most = max(1, int((inner + _GAP) // (_LEAST_CHIP_WIDTH + _GAP)))
    kinds = [list(devices)] if len(devices) <= most else [list(g) for _, g in groupby(devices, key=type)]
    rows = []
    for alike in filter(None, kinds):
        columns = most if len(alike) <= most else ceil(len(alike) / ceil(len(alike) / most))
        width = (inner - _GAP * (columns - 1)) / columns
        drawn = [_device(device, chips, width) for device in alike]
        rows.append(in_grid("device-row", drawn, columns, _GAP, stretched=False))
    return rows


def _device(device: Drawn, chips: Chips, width: float) -> Box:
    address = device.pci_address
    if isinstance(device, Gpu):
        return _gpu(device, chips, width)
    if isinstance(device, Nic):
        role = chips.names.get(device.rdma_device or "", "")
        return _chip("nic", nic_label(device), [role, address, nic_speed(device)], width)
    if isinstance(device, Nvme):
        return _chip("nvme", "NVMe", [address], width)
    return _chip("accelerator", accelerator_label(device), [address, device.driver or ""], width)


def _gpu(gpu: Gpu, chips: Chips, width: float) -> Box:
    """Return the chip of a GPU, with its current and planned parts below it."""
    memory = human_bytes(gpu.memory_bytes) if gpu.memory_bytes is not None else ""
    current, planned = parts_of(gpu), chips.planned.get(gpu.pci_address)
    then = parts_of(planned) if planned else current
    details = [gpu.pci_address, memory, "" if current else slicing_in_force(gpu), pcie_link(gpu.link)]
    chip = _chip("gpu", f"{chips.names[gpu.pci_address]} {gpu_label(gpu)}", details, width)
    shown = [("", current)] if current == then else [("now ", current), ("planned ", then)]
    boxes = [_parts(when, parts, width - 18) for when, parts in shown if parts is not None]
    if not boxes:
        return chip
    below = [box.at(9, box.y + chip.height + 1) for box in stacked(boxes, 5)]
    return replace(chip, height=bottom(below) + 7, children=tuple(below))


def _parts(when: str, parts: GpuParts, width: float) -> Box:
    """Return what a GPU is cut into: modes in words, then a row of boxes for each kind of part."""
    unit = width / parts.units
    rows = []
    if parts.units > 1:
        drawn = [tuple(_part(row.kind, part, unit) for part in row.parts) for row in parts.rows]
        rows = [Box(("parts",), width, _PART, children=boxes) for boxes in drawn]
    content = tuple(box.at(0, box.y + SMALL * LINE) for box in stacked(rows, 2))
    words = [f"{when}{parts.modes}: {words}" for words in (parts.words, parts.short)]
    text = Text(fitted([*words, f"{when}{parts.modes}"], width, SMALL), 0, SMALL, SMALL)
    height = max(bottom(content), SMALL * LINE - 2)
    return Box(("parts",), width, height, title=words[0], texts=(text,), children=content)


def _part(kind: str, part: GpuPart, unit: float) -> Box:
    width = part.size * unit - 1
    fits = part.label and text_width(part.label, _PART_FONT) <= width - 2
    text = Text(part.label, width / 2, _PART - 3, _PART_FONT, anchor="middle")
    kinds, texts = ("part", f"part-{kind}"), (text,) if fits else ()
    return Box(kinds, width, _PART, x=part.start * unit, title=part.title, texts=texts)


def _chip(kind: str, name: str, details: Sequence[str], width: float) -> Box:
    room = width - 14
    shown = [detail for detail in details if detail]
    shorter = [joined(shown[:count]) for count in range(len(shown), 0, -1)]
    texts = (
        Text(fitted([name], room, BODY, bold=True), 9, 13.5, BODY, bold=True),
        Text(fitted(shorter, room, SMALL), 9, 27, SMALL, muted=True),
    )
    return Box(("device", kind), width, 33, title=joined([name, *shown]), texts=texts)


def links_box(topology: NodeTopology, width: float) -> Box | None:
    """Return how NVLink or XGMI joins the GPUs: a bar for each switch or hive, a line for each bridge."""
    inner = width - 2 * PADDING
    names = gpu_names(topology.gpus)
    parts = [
        part for domain in nvlink_domains(topology.gpus) for part in _domain(domain, topology, names, inner)
    ]
    hives = grouped((gpu.xgmi_hive, gpu) for gpu in topology.gpus if gpu.xgmi_hive is not None)
    parts += [_link_bar(["XGMI"], gpus, names, inner) for gpus in hives.values() if len(gpus) > 1]
    if not parts:
        return None
    if not any("switch" in gpu.nvlink_peers for gpu in topology.gpus):  # a bar says that all are linked alike
        lines = [Text(fitted([line], inner, SMALL), 0, SMALL, SMALL) for line in linked_lines(topology)]
        parts += [Box(("group",), inner, SMALL * LINE, texts=(line,)) for line in lines]
    return panel("Links between GPUs", stacked(parts, 2 * _GAP), width)


def _domain(
    domain: NvlinkDomain, topology: NodeTopology, names: Mapping[str, str], inner: float
) -> list[Box]:
    gpus = [gpu for gpu in topology.gpus if gpu.pci_address in domain.gpus]
    switched = [gpu for gpu in gpus if "switch" in gpu.nvlink_peers or gpu.fabric is not None]
    parts = []
    if switched:
        beyond = ["NVSwitch · also to other hosts of the fabric"] if domain.fabric else []
        parts.append(_link_bar([*beyond, "NVSwitch"], switched, names, inner, domain.fabric or ""))
    pairs = [
        _pair(names[one.pci_address], names[peer.pci_address], count)
        for one, peer in combinations(gpus, 2)
        if (count := direct_nvlinks(one, peer))
    ]
    if pairs:
        columns = max(1, int((inner + 4 * _GAP) // (max(pair.width for pair in pairs) + 4 * _GAP)))
        parts.append(in_grid("device-row", pairs, columns, 4 * _GAP, stretched=False))
    return parts


def _link_bar(
    labels: Sequence[str], gpus: Sequence[Gpu], names: Mapping[str, str], inner: float, fabric: str = ""
) -> Box:
    """Return a bar with a line to each GPU below it; further GPUs get a further bar."""
    chips = []
    for gpu in gpus:
        links = gpu.nvlink_peers.get("switch", 0)
        chips.append(small_chip(names[gpu.pci_address], counted(links, "link") if links else ""))
    columns = max(1, int((inner + _GAP) // (SMALL_CHIP + _GAP)))
    title, starts = joined([labels[-1], fabric]), range(0, len(chips), columns)
    rows = [_bar_row(labels, chips[start : start + columns], inner, title) for start in starts]
    content = stacked(rows, 2 * _GAP)
    return Box(("group",), max(row.width for row in rows), bottom(content), children=tuple(content))


def _bar_row(labels: Sequence[str], chips: Sequence[Box], inner: float, title: str) -> Box:
    inner_width = min(inner, text_width(labels[0], BODY, bold=True) + 16)
    width = max(len(chips) * (SMALL_CHIP + _GAP) - _GAP, inner_width)
    step = (width + _GAP) / len(chips)
    first = (step - _GAP - SMALL_CHIP) / 2
    placed = [chip.at(first + number * step, _BAR + _STUB) for number, chip in enumerate(chips)]
    middles = [(chip.x + SMALL_CHIP / 2 - 1.5, chip.title) for chip in placed]
    lines = [Box(("gpu-link",), 3, _STUB, x=x, y=_BAR, title=name) for x, name in middles]
    label = fitted(labels, width - 16, BODY, bold=True)
    text = Text(label, width / 2, _BAR - 6, BODY, anchor="middle", bold=True)
    bar = Box(("gpu-switch",), width, _BAR, title=title, texts=(text,))
    return Box(("group",), width, bottom(placed), children=(bar, *lines, *placed))


def _pair(one: str, peer: str, count: int) -> Box:
    """Return two GPUs with a line between them, labelled with the number of their NVLinks."""
    title = f"{one} and {peer}: {counted(count, 'NVLink')}"
    return linked(small_chip(one), f"NV{count}", small_chip(peer), "gpu-link", title)


def linked(left: Box, label: str, right: Box, kind: str, title: str, length: float | None = None) -> Box:
    """Return two boxes with a line between them that has a label; `length` is the label's without one."""
    length = text_width(label, SMALL) + 10 if length is None else length
    line = Box((kind,), length, 3, x=left.width, y=left.height / 2, title=title)
    text = Text(label, left.width + length / 2, left.height / 2 - 4, SMALL, anchor="middle")
    placed = right.at(left.width + length, 0)
    width, height = placed.x + right.width, max(left.height, right.height)
    return Box(("group",), width, height, texts=(text,), children=(left, line, placed))


def small_chip(name: str, note: str = "", kind: str = "gpu", width: float = SMALL_CHIP) -> Box:
    """Return a chip with a name, and a few words below it where given."""
    room, middle = width - 6, width / 2
    texts = [Text(fitted([name], room, BODY, bold=True), middle, 14.5, BODY, anchor="middle", bold=True)]
    if note:
        texts.append(Text(fitted([note], room, SMALL), middle, 27, SMALL, anchor="middle", muted=True))
    height = 33.0 if note else 22.0
    return Box(("device", kind), width, height, title=joined([name, note]), texts=tuple(texts))
