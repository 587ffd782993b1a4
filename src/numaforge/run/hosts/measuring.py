"""Measure a host by name, or each of a pyinfra run: `numaforge_measure` has the fields of `MeasureOrder`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyinfra import host

from numaforge.fleet.measure.asking import (
    MEASUREMENT,
    Readiness,
    keep_script,
    kept_script,
    longest_seconds,
    measurement,
    read_kept,
    read_readiness,
    read_runs,
    readiness_script,
    run_script,
    split_of,
)
from numaforge.fleet.measure.record import DATA, KEPT, MEASURED, Measurement, MeasureOrder
from numaforge.fleet.measure.tasks import Effort, alignment_tasks, tasks
from numaforge.kubelet_minors.flags import registered_name
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import ExitCode, HostError, NumaforgeError
from numaforge.machine.snapshot.capture import parse_output, script
from numaforge.machine.topology.read import read_topology
from numaforge.node.pods import Pods, root_dirs
from numaforge.planning.document import saved_plan
from numaforge.run.hosts.capture import answer_of
from numaforge.run.hosts.facts import as_root
from numaforge.run.hosts.failures import record_answer
from numaforge.run.hosts.host_data import datum

if TYPE_CHECKING:
    from pyinfra.api import Host

    from numaforge.machine.topology.model import NodeTopology


class InUseError(HostError):
    """A host in use is not measured."""

    exit_code = ExitCode.NO


_IN_USE = (
    "drain the node first; with --kubeconfig FILE its cluster says that it is drained and only pods of "
    "DaemonSets are left; --in-use measures all the same, and disturbs what runs there"
)


def measure() -> None:
    """Measure the host of this deploy, keep it there, and record it for the process that started this run."""
    _record(MEASURED, lambda host: measured_on(host, _order(datum(host, DATA))))


def kept() -> None:
    """Record what the host of this deploy keeps of its last measurement."""
    _record(KEPT, kept_on)


def keep() -> None:
    """Keep on the host what the host data's `file` has of it: a document for each host, by name."""
    documents = json.loads(Path(datum(host, DATA)["file"]).read_text(encoding="utf-8"))
    if host.name in documents:
        _record(KEPT, lambda each: _keep(each, MEASUREMENT.decode(documents[each.name])))


def _record(kind: str, ask: Callable[[Host], Measurement | None]) -> None:
    def answer() -> object:
        measured = ask(host)
        return None if measured is None else MEASUREMENT.encode(measured)

    record_answer(host, kind, answer)


def _order(document: Mapping[str, Any]) -> MeasureOrder:
    return MeasureOrder(**{**document, "drained": tuple(document.get("drained", ()))})


def measure_host(name: str, data: Mapping[str, Any], order: MeasureOrder) -> Measurement:
    """Connect to one host, measure it, keep and return the result; raises HostError, InUseError."""
    return answer_of(name, data, lambda host: measured_on(host, order))


def kept_of_host(name: str, data: Mapping[str, Any]) -> Measurement | None:
    """Connect to one host and return its saved last measurement; None without one."""
    return answer_of(name, data, kept_on)


def measured_on(host: Host, order: MeasureOrder) -> Measurement:
    """Measure a host that is connected: its snapshot, then all programs in one round trip."""
    machine = read_topology(parse_output(as_root(host, script())))
    readiness = read_readiness(as_root(host, readiness_script(root_dirs(machine.kubelet, None))))
    if not order.in_use:
        refuse_in_use(readiness, drained=_node(machine) in order.drained)
    if "timeout" not in readiness.programs:
        raise HostError("the host lacks timeout, which ends a program that hangs", remedy="install coreutils")
    effort = Effort(order.seconds, order.runs)
    choose = alignment_tasks if order.aligned else tasks
    chosen, missing = choose(machine, split_of(machine, _reserved(machine)), readiness.programs, effort)
    answer = as_root(host, run_script(chosen, effort), longest_seconds(chosen, effort))
    figures, refused = read_runs(answer, chosen, effort)
    measured = measurement(machine, readiness, figures, [*refused, *missing])
    return measured if order.aligned else _keep(host, measured)


def refuse_in_use(readiness: Readiness, *, drained: bool) -> None:
    """Raise InUseError with the evidence of use; where it is `drained`, pods' processes do not count."""
    evidence = (readiness._replace(pods=Pods()) if drained else readiness).evidence
    if evidence:
        raise InUseError(f"was not measured, it is in use: {'; '.join(evidence)}", remedy=_IN_USE)


def _node(machine: NodeTopology) -> str | None:
    if not machine.kubelet or not machine.hostname:
        return None
    return registered_name(machine.kubelet.flags, machine.hostname)


def _reserved(machine: NodeTopology) -> str | None:
    """Return the CPUs that the saved plan reserves, as a cpulist; None without a plan that can be read."""
    try:
        plan = saved_plan(machine)
    except NumaforgeError:
        return None
    return format_cpulist(plan.cpus.reserved) if plan and plan.cpus.reserved else None


def _keep(host: Host, measured: Measurement) -> Measurement:
    as_root(host, keep_script(measured))
    return measured


def kept_on(host: Host) -> Measurement | None:
    """Return the saved last measurement of a connected host; None without one."""
    return read_kept(as_root(host, kept_script()))
