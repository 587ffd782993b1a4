"""The notes below the table of GPUs: instances, users, pending changes, faults, missing answers."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.text import Text

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import counted
from numaforge.machine.topology.holders import pods_on, uuids_of
from numaforge.machine.topology.model import Gpu, NodeTopology, NvidiaDriver
from numaforge.report.columns import assembled
from numaforge.report.slices import parts_of
from numaforge.report.wording import some_of

_Say = Callable[[Gpu, NodeTopology], str]


def gpu_notes(topology: NodeTopology) -> list[Text]:
    """Return a line for each note that applies to some GPUs: `In use: GPU 0: team-a/train-0`."""
    notes = ((title, "; ".join(_alike(topology, note_of))) for title, note_of in NOTES.items())
    return [assembled((f"{title}: ", "bold"), words) for title, words in notes if words]


def driver_words(driver: NvidiaDriver | None) -> str:
    """Return the driver in one line, "" without one: `580.95.05, CUDA 13.0`."""
    if driver is None:
        return ""
    cuda = f"CUDA {driver.cuda_version}" if driver.cuda_version else ""
    computing = driver.confidential_computing
    confidential = f"confidential computing {computing}" if computing not in (None, "off") else ""
    return ", ".join(words for words in (driver.version, cuda, confidential, driver.error) if words)


def gpu_names(gpus: Sequence[Gpu]) -> str:
    """Return NVML's indexes as a list, `GPU 0-3`; PCI addresses where an index is not known."""
    indexes = [gpu.index for gpu in gpus if gpu.index is not None]
    if len(indexes) == len(gpus):
        return f"GPU {format_cpulist(indexes)}"
    return ", ".join(gpu.pci_address for gpu in gpus)


def _alike(topology: NodeTopology, note_of: _Say) -> Iterator[str]:
    """Yield each note once, with the GPUs that share it."""
    gpus_of = grouped(
        (note_of(gpu, topology), gpu) for gpu in sorted(topology.gpus, key=lambda gpu: gpu.pci_address)
    )
    for words, alike in gpus_of.items():
        if words:
            numbered = any(gpu.index is not None for gpu in alike)
            every = len(alike) == len(topology.gpus) and len(alike) > 1 and not numbered
            yield f"{'every GPU' if every else gpu_names(alike)}: {words}"


def _instance_counts(gpu: Gpu, _: NodeTopology) -> str:
    """Return a GPU's MIG profiles with counts, or its number of MIG devices where only that is known."""
    if gpu.mig_mode != "enabled":
        return ""
    if gpu.gpu_instances is None:
        return f"{counted(len(gpu.mig_devices), 'MIG device')}, placement not known"
    names = {offer.id: offer.name for offer in gpu.mig_profiles}
    in_place = sorted(gpu.gpu_instances, key=lambda one: one.start)
    counts = Counter(names.get(one.profile_id) or f"profile {one.profile_id}" for one in in_place)
    return ", ".join(f"{count} x {name}" for name, count in counts.items()) or "none"


def _partitions(gpu: Gpu, _: NodeTopology) -> str:
    """Return the partitions of an AMD GPU with their memory; "" for a whole GPU."""
    parts = parts_of(gpu) if gpu.partition else None
    return parts.words if parts and parts.units > 1 else ""


def _pending(gpu: Gpu, _: NodeTopology) -> str:
    mig = gpu.mig_pending if gpu.mig_pending not in (None, gpu.mig_mode) else None
    ecc = gpu.ecc if gpu.ecc and None not in (gpu.ecc.enabled, gpu.ecc.pending) else None
    waits = [
        f"MIG {mig}" if mig else "",
        f"ECC {'on' if ecc.pending else 'off'}" if ecc and ecc.pending != ecc.enabled else "",
        "rows to remap" if gpu.remapped_rows and gpu.remapped_rows.pending else "",
    ]
    return ", ".join(filter(None, waits))


def _fabric(gpu: Gpu, _: NodeTopology) -> str:
    fabric = gpu.fabric_state
    if fabric is None:
        return ""
    status = fabric.status if (fabric.status or "").lower() != "success" else None
    return ", ".join(filter(None, (fabric.state, status, *(fabric.faults or ()))))


def _faults(gpu: Gpu, _: NodeTopology) -> str:
    errors = gpu.ecc and gpu.ecc.uncorrected_volatile
    faults = [
        counted(errors, "uncorrected memory error") if errors else "",
        "row remapping failed" if gpu.remapped_rows and gpu.remapped_rows.failed else "",
        f"the driver asks for {gpu.recovery_action}" if gpu.recovery_action not in (None, "none") else "",
    ]
    return ", ".join(filter(None, faults))


def _users(gpu: Gpu, topology: NodeTopology) -> str:
    """Return a GPU's users: pods by name, then units, then processes."""
    reported = set(pods_on(topology.device_holders or (), uuids_of(gpu)))
    pods, processes = set(), set()
    for pid in gpu.pids:
        process = topology.gpu_processes.get(pid)
        if process is not None and process.pod is not None:
            pods.add(process.pod)
        else:
            processes.add((process and (process.unit or process.name)) or f"process {pid}")
    doubt = " (may have ended)" if topology.holders_doubt else ""
    return some_of(sorted(pods | {f"{pod}{doubt}" for pod in reported - pods}) + sorted(processes))


NOTES: Mapping[str, _Say] = {
    "MIG instances": _instance_counts,
    "Partitions": _partitions,
    "Waiting for a reset or a reboot": _pending,
    "In use": _users,
    "NVLink fabric": _fabric,
    "Faults": _faults,
    "No answer": lambda gpu, _: gpu.unanswered or "",
}
"""The notes in order, each with the function that words it for one GPU; "" is no note."""
