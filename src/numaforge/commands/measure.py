"""`numaforge measure`: whether a machine performs as its plan promises."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from numaforge.commands.options import (
    GroupedOption,
    data_option,
    limit_option,
    output_option,
    path_option,
    require_kubeconfig,
)
from numaforge.lib.errors import ExitCode
from numaforge.report.terminal import progress, save, screen, show_answer

if TYPE_CHECKING:
    from numaforge.commands.over_inventory import Answers
    from numaforge.fleet.measure.record import Measurement, MeasureOrder

_how = partial(
    click.option, cls=GroupedOption, heading="How long, and what counts as slow", show_default=True
)
_THIS = "@local"
_NOTHING = "has no saved measurement: measure without --last"


@click.command()
@click.argument("host", metavar="[HOST|INVENTORY]", required=False)
@limit_option
@data_option
@path_option(
    "--kubeconfig", help="Also measure nodes that are drained in this cluster, beside pods of DaemonSets."
)
@click.option("--in-use", is_flag=True, help="Also measure where pods run or GPUs are in use; disturbs them.")
@click.option("--last", is_flag=True, help="Show the last measurement saved on the hosts; measure nothing.")
@click.option(
    "--compare-misaligned",
    is_flag=True,
    help="Run one program pinned like a pod, then with remote memory; save nothing.",
)
@_how(
    "--seconds",
    type=click.IntRange(1, 60),
    default=3,
    help="Seconds of one run of a program, where it has such an option.",
)
@_how("--runs", type=click.IntRange(1, 9), default=3, help="Runs per figure.")
@_how(
    "--min-share",
    type=click.FloatRange(0.01, 1.0),
    default=0.8,
    help="Share of its siblings' median that a machine has to reach.",
)
@path_option("--to", help="Also save the JSON.")
@output_option("table", "json")
def measure(
    host: str | None,
    limits: tuple[str, ...],
    data: tuple[str, ...],
    kubeconfig: str | None,
    in_use: bool,
    last: bool,
    compare_misaligned: bool,
    seconds: int,
    runs: int,
    min_share: float,
    to: str | None,
    output: str,
) -> int:
    """Measure nodes, and find slow ones.

    Uses the installed programs, on drained or new nodes. HOST is named as for `numaforge capture` [default:
    this machine]. Of a pyinfra INVENTORY, measures all hosts at once, and compares each with others of its
    make. Measures memory by NUMA node, timer latency of the pods' CPUs, PCIe and NVLink by GPU, RDMA by port,
    and all-reduce; names what has no program. Writes only /var/lib/numaforge/measured.json.

    Exit codes: 1 a figure is worse than the siblings', or a host is refused, 6 hosts are unreachable.

    \b
    Examples:
      numaforge measure gpu-1
      numaforge measure inventory.py --limit gpu-017 --kubeconfig ~/.kube/fleet
      numaforge measure --last inventory.py
      numaforge measure --compare-misaligned gpu-1
    """
    from numaforge.commands.capture import inventories_of
    from numaforge.fleet.measure.record import MeasureOrder

    if last and (in_use or compare_misaligned or kubeconfig):
        raise click.UsageError(
            "--last measures nothing: leave out --in-use, --compare-misaligned and --kubeconfig"
        )
    drained = _drained(kubeconfig) if kubeconfig else ()
    order = MeasureOrder(seconds, runs, in_use, compare_misaligned, drained)
    if not inventories_of([host] if host else [], limits):
        results = _of_one(host or _THIS, data, order, last=last)
    elif data:
        raise click.UsageError("--data is for one HOST; an INVENTORY has its own data")
    else:
        results = _kept_of_all(str(host), limits) if last else _of_all(str(host), limits, order)
    return _report_results(results, min_share, to, output, aligned=compare_misaligned)


class Taken(NamedTuple):
    """The measurements by host, why others have none, and which of those did not answer."""

    machines: Mapping[str, Measurement]
    failed: Mapping[str, str]
    unreachable: frozenset[str] = frozenset()


def _of_one(host: str, data: Sequence[str], order: MeasureOrder, *, last: bool) -> Taken:
    from numaforge.commands.one_host import asked_of

    def ask(name: str, how: Mapping[str, str | int]) -> Measurement | None:
        # Imports pyinfra, for which gevent has patched this process by now.
        from numaforge.run.hosts.measuring import kept_of_host, measure_host

        return kept_of_host(name, how) if last else measure_host(name, how, order)

    measured = asked_of(host, data, ask, f"{'asking' if last else 'measuring'} {host}")
    return Taken({measured.hostname or host: measured}, {}) if measured else Taken({}, {host: _NOTHING})


def _of_all(inventory: str, limits: Sequence[str], order: MeasureOrder) -> Taken:
    """Measure hosts of an inventory, compare them with all others, and save each result on its host."""
    from numaforge.commands.over_inventory import ask_all
    from numaforge.fleet.measure.record import KEPT, MEASURED, MEASUREMENT, of_data
    from numaforge.fleet.measure.siblings import with_siblings

    function = "numaforge.run.hosts.measuring.measure"
    answers = ask_all(inventory, limits, function, MEASURED, "measuring every host", order.data())
    results = _results_of(answers)
    if order.aligned or not results.machines:
        return results
    records = _kept_of_all(inventory, ()).machines if limits else {}
    compared = with_siblings({**records, **results.machines})
    current = {name: compared[name] for name in results.machines}
    with tempfile.TemporaryDirectory(prefix="numaforge-") as folder:
        file = Path(folder, "kept.json")
        documents = {name: MEASUREMENT.encode(measured) for name, measured in current.items()}
        file.write_text(json.dumps(documents), encoding="utf-8")
        function, script_data = "numaforge.run.hosts.measuring.keep", of_data({"file": str(file)})
        recorded = ask_all(inventory, limits, function, KEPT, "keeping it on every host", script_data)
    lost = {name: why for name, why in recorded.failed.items() if name in current}
    unreachable = results.unreachable | (recorded.unreachable & lost.keys())
    return Taken(current, {**results.failed, **lost}, unreachable)


def _kept_of_all(inventory: str, limits: Sequence[str]) -> Taken:
    from numaforge.commands.over_inventory import ask_all
    from numaforge.fleet.measure.record import KEPT

    function = "numaforge.run.hosts.measuring.kept"
    return _results_of(ask_all(inventory, limits, function, KEPT, "asking every host what it keeps"))


def _results_of(answers: Answers) -> Taken:
    from numaforge.fleet.measure.record import MEASUREMENT

    documents, failed = answers.documents()
    failed = {**dict.fromkeys((name for name, one in documents.items() if one is None), _NOTHING), **failed}
    machines = {name: MEASUREMENT.decode(one) for name, one in documents.items() if one is not None}
    return Taken(machines, failed, answers.unreachable)


def _drained(kubeconfig: str) -> tuple[str, ...]:
    """Return the Nodes that are cordoned and have no pod left to drain."""
    from numaforge.rollout.drain import DrainSettings, sort_pods
    from numaforge.rollout.options import read_options

    require_kubeconfig(kubeconfig)
    with (
        progress("asking the cluster which nodes are drained"),
        read_options({"kubeconfig": kubeconfig}).cluster() as cluster,
    ):
        cordoned = [node.name for node in cluster.nodes() if node.unschedulable]
        return tuple(name for name in cordoned if sort_pods(cluster.pods(name), DrainSettings()).empty)


def _report_results(results: Taken, min_share: float, to: str | None, output: str, *, aligned: bool) -> int:
    from numaforge.fleet.measure.siblings import slow_of
    from numaforge.report import measure as report

    document = report.document(results.machines, results.failed, min_share, aligned=aligned)
    if to is not None:
        save(json.dumps(document, indent=2, ensure_ascii=False) + "\n", to)
    lines = partial(report.lines, results.machines, results.failed, min_share, screen(), aligned=aligned)
    show_answer(output, lambda: document, lines)
    slow = not aligned and any(slow_of(machine, min_share) for machine in results.machines.values())
    if slow or results.failed.keys() - results.unreachable:
        return ExitCode.NO
    return ExitCode.UNREACHABLE if results.failed else ExitCode.YES
