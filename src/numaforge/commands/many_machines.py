"""Read and audit many machines: saved ones in one process per core, hosts all at once."""

import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import click

from numaforge.commands.capture import captured_hosts, inventories_of
from numaforge.commands.machine import each_named, machine_of
from numaforge.fleet.audit.facts import text_of
from numaforge.fleet.audit.fleet import Failed, FleetAudit
from numaforge.fleet.audit.machine import AuditedMachine, audited
from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.lib.given import MOST_MIB as MOST_MIB_OF_ONE
from numaforge.lib.ordering import unlike
from numaforge.lib.quantity import counted
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.document import saved_plan
from numaforge.report.audit_page import Portrait
from numaforge.report.svg import draw
from numaforge.report.terminal import progress, verbosity
from numaforge.rollout.names import ANSWER_SECONDS
from numaforge.rollout.program import every_core

MOST_MIB = 16
"""Limit of a snapshot: more than ten times the largest of tests/machines."""

_FORK = multiprocessing.get_context("fork")  # keeps the modules that are imported already
_FEW = 8  # this few machines are read faster than processes start
_MOST_PORTRAITS = 40
# The rules that compare what a picture shows.
_DRAWN = ("NA110", "NA111", "NA113", "NA120", "NA121", "NA122", "NA125", "NA140", "NA145", "NA146", "NA164")


@dataclass(frozen=True)
class Source:
    """A machine's source; `argument` None is this machine, `host` its name in an inventory."""

    argument: str | None
    host: str | None = None

    @property
    def called(self) -> str:
        """The name of a machine whose own name is unknown."""
        if self.host or self.argument is None:
            return self.host or "this machine"
        name = Path(self.argument).name if is_saved(self.argument) else self.argument
        return name.removesuffix(".json").removesuffix(".snapshot")


@dataclass(frozen=True)
class ManyMachines:
    """The audited machines by the name to show, the others' failures, all sources, and unsaved machines."""

    read: Mapping[str, AuditedMachine]
    failed: Mapping[str, Failed]
    sources: Mapping[str, Source]
    unsaved: Mapping[str, NodeTopology]

    @property
    def refused(self) -> str | None:
        """Why the only named machine cannot be read; None for an unreachable host or one of an inventory."""
        if self.read or len(self.failed) != 1:
            return None
        (name, failed), *_ = self.failed.items()
        return None if failed.unreachable or self.sources[name].host else failed.reason

    def portraits(self, audit: FleetAudit) -> list[Portrait]:
        """Return a picture for each of the 40 largest groups of machines that look alike; asks no host."""
        alike: dict[object, list[str]] = {}
        for make, names in audit.makes.items():
            for name in names:
                facts = self.read[name].facts
                memory = text_of(facts.get("NA112", {}).get("", "")).partition(".")[0]
                alike.setdefault((make, memory, *(str(facts.get(rule)) for rule in _DRAWN)), []).append(name)
        groups = sorted(alike.values(), key=len, reverse=True)[:_MOST_PORTRAITS]
        drawn = ((names, self._picture(names)) for names in groups)
        return [Portrait(tuple(names), svg) for names, svg in drawn if svg]

    def _picture(self, names: Sequence[str]) -> str | None:
        """Return the picture of the first readable machine."""
        for name in names:
            with suppress(NumaforgeError):
                argument, machine = self.sources[name].argument, self.unsaved.get(name)
                if machine is None and argument and is_saved(argument):
                    machine = machine_of(argument, None, most_mib=MOST_MIB)
                if machine is not None:
                    with suppress(NumaforgeError):  # its plan may be another machine's
                        return draw(machine, saved_plan(machine))
                    return draw(machine)
        return None


def is_saved(source: str) -> bool:
    """Whether `named` is a file, not a host, folder or ready machine."""
    return source != "-" and Path(source).is_file()


def read_machines(sources: Sequence[str], limits: Sequence[str], folder: Path, within_s: int) -> ManyMachines:
    """Read and audit machines; an inventory's are captured into `folder`, each within `within_s` seconds."""
    inventories = inventories_of(sources, limits)
    entries: list[_Entry] = []
    places: list[Source] = []
    for number, inventory in enumerate(inventories):
        data = {ANSWER_SECONDS: within_s}
        answers, files = captured_hosts(inventory, limits, folder / str(number), data)
        places += [Source(file, name) for name, file in files.items()]
        for name, why in answers.failed.items():
            failed = Failed(why.removeprefix(f"{name}: "), name in answers.unreachable)
            entries.append(_Entry(Source(None, name), failed))
    names = each_named([source for source in sources if source not in inventories])
    places += map(Source, names) if sources else [Source(None)]
    if not places and not entries:
        raise click.UsageError(
            "contains no machines: give snapshots, a folder of snapshots, hosts or an INVENTORY"
        )
    return _by_name([*entries, *_all_read(places)])


class _Entry(NamedTuple):
    """A source's audit, and its machine where reading it again would ask a host."""

    source: Source
    read: AuditedMachine | Failed
    machine: NodeTopology | None = None


def _by_name(entries: Sequence[_Entry]) -> ManyMachines:
    """Return the entries by hostname where unique; others, and inventories' hosts, by source."""
    hostnames = [entry.read.hostname if isinstance(entry.read, AuditedMachine) else None for entry in entries]
    counts = Counter(hostnames)
    entries_by_name: dict[str, _Entry] = {}
    for entry, hostname in zip(entries, hostnames, strict=True):
        unique_hostname = hostname if hostname and counts[hostname] == 1 and not entry.source.host else None
        name = unique_hostname or entry.source.called
        entries_by_name[unlike(name, entries_by_name)] = entry
    read = {name: entry.read for name, entry in entries_by_name.items()}
    return ManyMachines(
        read={name: one for name, one in read.items() if isinstance(one, AuditedMachine)},
        failed={name: one for name, one in read.items() if isinstance(one, Failed)},
        sources={name: entry.source for name, entry in entries_by_name.items()},
        unsaved={name: entry.machine for name, entry in entries_by_name.items() if entry.machine is not None},
    )


def _all_read(places: Sequence[Source]) -> Iterator[_Entry]:
    """Yield each source's audit in order; processes read the saved ones first."""
    saved = [source.argument for source in places if source.argument and is_saved(source.argument)]
    read = _in_processes(saved)
    for source in places:
        if source.argument is not None and source.argument in read:
            yield _Entry(source, read[source.argument])
        else:
            yield _Entry(source, *_looked_at(source.argument, MOST_MIB_OF_ONE))


def _read_file(path: str) -> AuditedMachine | Failed:
    return _looked_at(path, MOST_MIB)[0]


def _looked_at(source: str | None, most_mib: int) -> tuple[AuditedMachine | Failed, NodeTopology | None]:
    """Return the audit of one machine, and the machine; an exception becomes its failure."""
    machine = None
    try:
        machine = machine_of(source, None, most_mib=most_mib)
        return audited(machine), machine
    except NumaforgeError as error:
        return Failed(str(error), error.exit_code == ExitCode.UNREACHABLE), machine
    except Exception as fault:
        if os.environ.get("NUMAFORGE_TRACEBACK"):
            raise
        return Failed(f"internal error: {type(fault).__name__}: {fault}"), machine


def _in_processes(paths: Sequence[str]) -> dict[str, AuditedMachine | Failed]:
    """Return the audit of each file; reads a file again alone if it killed its process."""
    unique = list(dict.fromkeys(paths))
    if len(unique) <= _FEW or every_core() == 1:
        return {path: _read_file(path) for path in unique}
    audited = _together(unique, every_core())
    for path in unique:
        if path not in audited:
            audited |= _together([path], 1)
    lost = Failed("the process that read it was ended: it may be too large")
    return {path: audited.get(path, lost) for path in unique}


def _together(paths: Sequence[str], processes: int) -> dict[str, AuditedMachine | Failed]:
    """Return the audits by `processes` processes; omits those left when a process was killed."""
    audited: dict[str, AuditedMachine | Failed] = {}
    with ProcessPoolExecutor(processes, _FORK) as pool:
        # Processes fork here, before the progress starts a thread; with -v they print lines themselves.
        running = {path: pool.submit(_read_file, path) for path in paths}
        title = f"reading {counted(len(paths), 'machine')}"
        with nullcontext(str) if verbosity() else progress(title) as show_far:
            for path, future in running.items():
                with suppress(BrokenProcessPool):
                    audited[path] = future.result()
                    show_far(str(len(audited)))
    return audited
