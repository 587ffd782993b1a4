"""Run a fleet to its end, and show its progress."""

import signal
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.report.live import LiveView
from numaforge.report.summary import report_document, results_text, summary
from numaforge.report.terminal import complain, echo_lines, screen, show, show_json_line
from numaforge.rollout.cluster import Cluster
from numaforge.rollout.fleet import Fleet, FleetReport, FleetSettings, Member
from numaforge.rollout.launch import Pyinfra, Survey
from numaforge.rollout.lead import Lead
from numaforge.rollout.options import RolloutOptions
from numaforge.rollout.shards import Shards
from numaforge.rollout.steps import run


def fleet(
    cluster: Cluster,
    program: Pyinfra,
    members: list[Member],
    options: RolloutOptions,
    lead: Lead | None,
    survey: Survey | None = None,
    refused: Collection[str] = (),
) -> Fleet:
    """Return the roll-out of members; `survey` covers all hosts, or is None to begin none."""
    shard, name = program.shard, program.role.name
    shards = survey.shards if survey else frozenset()
    return Fleet(
        cluster=cluster,
        members=members,
        settings=FleetSettings.of(options),
        launch=lambda member: program.launch(member, cluster),
        clock=time.monotonic,
        tell=lambda _reason: None,
        lead=lead,
        shards=Shards(name.removesuffix(shard.suffix), shard, shards) if shard and lead else None,
        outside=sum(not need.joined for need in survey.needs) if survey else None,
        refused=len(refused),
    )


def driven(fleet: Fleet, program: Pyinfra, output: str) -> FleetReport:
    """Run a fleet to its end, or as far as it gets, and show its progress."""
    view = LiveView(fleet, program.runs, as_json=output == "json")

    def sleep(seconds: float) -> None:
        with suppress(BrokenPipeError):  # a roll-out continues without a reader of its output
            view.refresh()
        time.sleep(seconds)

    try:
        with _interrupted(fleet), view:
            run(fleet.run(), sleep)
            view.refresh()
    except KeyboardInterrupt:
        fleet.stop("interrupted")
    except (NumaforgeError, OSError) as error:
        fleet.stop(str(error))
    except Exception:  # a bug in numaforge: what is known is still shown
        show_report(fleet.report(), program, output=output, verbose=True)
        raise
    return fleet.report()


@contextmanager
def _interrupted(fleet: Fleet) -> Iterator[None]:
    """Stop the fleet at the first interrupt, leave it at the second: hosts in progress continue alone."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 (a signal handler's signature)
        if fleet.stopped:
            raise KeyboardInterrupt
        fleet.stop("interrupted")
        complain("no further node begins; interrupt again to leave: hosts in progress continue")

    handlers = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def show_nothing(program: Pyinfra, output: str) -> ExitCode:
    """Report that a shard has no host, which is no failure."""
    nothing = f"no host of the inventory is in shard {program.shard}"
    show_report(FleetReport({}, {}), program, output=output, verbose=False, nothing=nothing)
    return ExitCode.YES


def save_report(report: FleetReport, program: Pyinfra) -> tuple[Path | None, list[str]]:
    """Write each host's result beside the logs; return the file, and a note where that failed."""
    file = program.folder / "report.txt"
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.write_text(results_text(report), encoding="utf-8")
    except OSError as trouble:
        return None, [f"the results of all hosts cannot be written to {file}: {trouble.strerror}"]
    return file, []


def show_report(
    report: FleetReport,
    program: Pyinfra,
    *,
    output: str,
    verbose: bool,
    notes: Sequence[str] = (),
    exit_code: ExitCode | None = None,
    nothing: str = "no changes needed",
) -> None:
    """Write each host's result to a file, and show a summary."""
    file, trouble = save_report(report, program)
    remarks = (*notes, *trouble)
    if output == "json":
        show_json_line(report_document(report, exit_code, remarks, file))
        return
    if verbose:
        echo_lines(results_text(report).split("\n"))
    show(summary(report, screen(), file, remarks, nothing), wrapped=True)
