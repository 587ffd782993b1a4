"""Which GPUs belong together, by NVLink and by PCIe switch: in words and as JSON."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

from numaforge.lib.ordering import natural
from numaforge.lib.quantity import counted
from numaforge.machine.topology.links import direct_nvlinks, gpu_names, nvlinks_between
from numaforge.machine.topology.model import Gpu, NodeTopology
from numaforge.machine.topology.near_gpus import most_linked, nics_below_switches, nvlinks_among, whole_gpus
from numaforge.report.wording import some_of

USUAL_SIZES = (2, 4)


def near_lines(topology: NodeTopology, sizes: Sequence[int]) -> Iterator[str]:
    """Yield the sets of GPUs with the most NVLinks on one NUMA node, and the NICs below their switches."""
    yield from linked_lines(topology, sizes)
    gpus = whole_gpus(topology.gpus)
    if below := _below(gpus, topology):
        yield f"below one PCIe switch: {below}"


def linked_lines(topology: NodeTopology, sizes: Sequence[int] = USUAL_SIZES) -> Iterator[str]:
    """Yield for each size the sets of GPUs of one NUMA node with the most NVLinks."""
    names = gpu_names(topology.gpus)
    for size in sizes:
        best = most_linked(topology, size)
        if best is not None and best.alike:
            gpus = [gpu for gpu in topology.gpus if gpu.pci_address in best.sets[0]]
            yield f"any {size} GPUs of one NUMA node: {_between(gpus)}"
        elif best is not None:
            sets = some_of((_listed(gpus, names) for gpus in best.sets), 2)
            yield f"{size} GPUs of one NUMA node with the most NVLinks ({best.nvlinks}): {sets}"


def granted_lines(topology: NodeTopology, gpus: Sequence[Gpu]) -> Iterator[str]:
    """Yield how the GPUs of one container are linked, what would be the most, and the NICs beside them."""
    names, own = gpu_names(topology.gpus), nvlinks_among(gpus)
    granted = tuple(sorted(gpu.pci_address for gpu in gpus))
    best = most_linked(topology, len(gpus)) if len(gpus) > 1 else None
    if best is not None or own:
        line = f"{_listed(granted, names)}: {_between(gpus)}"
        if best is None or best.alike:
            yield line
        elif granted in best.sets:
            yield f"{line}, the most that {len(gpus)} GPUs of one NUMA node have"
        else:
            sets = some_of((_listed(one, names) for one in best.sets), 2)
            yield f"{line}; the most on one NUMA node are {best.nvlinks}: {sets}"
    if below := _below(gpus, topology):
        yield f"below one PCIe switch: {below}"


def granted_document(topology: NodeTopology, gpus: Sequence[Gpu]) -> dict[str, Any]:
    """Return the GPUs of one container, how they are linked, and what would be the most, as JSON data."""
    names = gpu_names(topology.gpus)
    return {
        "gpus": [names[gpu.pci_address] for gpu in gpus],
        "nvlinks": nvlinks_among(gpus),
        **near_document(topology, (len(gpus),), gpus),
    }


def near_document(
    topology: NodeTopology, sizes: Sequence[int], gpus: Sequence[Gpu] | None = None
) -> dict[str, Any]:
    """Return the best sets of GPUs and the NICs beside `gpus`, or beside all, as JSON data."""
    names = gpu_names(topology.gpus)
    below = nics_below_switches(topology)
    best = {size: most_linked(topology, size) for size in sizes if size > 1}
    return {
        "most_nvlinks_on_one_numa_node": [
            {
                "gpus": size,
                "nvlinks": linked.nvlinks,
                "sets": [[names[gpu] for gpu in one] for one in linked.sets],
            }
            for size, linked in best.items()
            if linked is not None
        ],
        "nics_below_the_switch": {
            names[gpu.pci_address]: list(below[gpu.pci_address])
            for gpu in (whole_gpus(topology.gpus) if gpus is None else gpus)
            if gpu.pci_address in below
        },
    }


def _between(gpus: Sequence[Gpu]) -> str:
    """Return the NVLinks of GPUs in words: between each two where a switch joins all of them."""
    pairs = [*combinations(gpus, 2)]
    each = {nvlinks_between(one, peer) for one, peer in pairs}
    if len(each) == 1 and not any(direct_nvlinks(one, peer) for one, peer in pairs):
        count = counted(each.pop(), "NVLink")
        return f"{count} between each two (NVSwitch)" if count[0] != "0" else "no NVLink"
    return counted(nvlinks_among(gpus), "NVLink")


def _below(gpus: Sequence[Gpu], topology: NodeTopology) -> str:
    """Return each GPU with the NICs below its switch; nothing where no NIC is below one."""
    names, nics = gpu_names(topology.gpus), nics_below_switches(topology)
    if not any(nics.get(gpu.pci_address) for gpu in gpus):
        return ""
    return "; ".join(
        f"{names[gpu.pci_address]} with {', '.join(nics.get(gpu.pci_address, ())) or 'no NIC'}"
        for gpu in sorted(gpus, key=lambda gpu: natural(names[gpu.pci_address]))
    )


def _listed(addresses: Sequence[str], names: dict[str, str]) -> str:
    """Return the names of GPUs, three and more in a row as `GPU0-GPU3`."""
    listed = sorted((names[address] for address in addresses), key=natural)
    numbers = [int(name.removeprefix("GPU")) for name in listed if name.removeprefix("GPU").isdecimal()]
    if len(numbers) == len(listed) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{listed[0]}-{listed[-1]}"
    return "+".join(listed)
