"""Run a fleet to its end, and show where it is all the time."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

import click

from numaforge.errors import ExitCode, NumaforgeError
from numaforge.report.rollout import LiveView, report_document, report_tables
from numaforge.report.terminal import plain, show
from numaforge.rollout.cluster import Cluster
from numaforge.rollout.fleet import Fleet, FleetReport, Member
from numaforge.rollout.launch import Pyinfra
from numaforge.rollout.lead import Lead
from numaforge.rollout.options import RolloutOptions
from numaforge.rollout.steps import run


def fleet(
    cluster: Cluster, program: Pyinfra, members: list[Member], options: RolloutOptions, lead: Lead | None
) -> Fleet:
    return Fleet(
        cluster=cluster,
        members=members,
        settings=options.for_fleet(),
        launch=lambda member: program.launch(member, cluster),
        clock=time.monotonic,
        tell=lambda _reason: None,
        lead=lead,
    )


def driven(fleet: Fleet, program: Pyinfra, output: str) -> FleetReport:
    """Run a fleet to its end, or as far as it gets, and show where it is all the time."""
    view = LiveView(fleet, program, as_json=output == "json")

    def sleep(seconds: float) -> None:
        with suppress(BrokenPipeError):  # a roll-out goes on when nothing reads its output any more
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
    except Exception:  # a fault of ours, and no reason to keep to ourselves what is known
        show_report(fleet.report(), output)
        raise
    return fleet.report()


@contextmanager
def _interrupted(fleet: Fleet) -> Iterator[None]:
    """Let the first interrupt stop the fleet and the second leave it: what has begun goes on by itself."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 (a signal handler's signature)
        if fleet.stopped:
            raise KeyboardInterrupt
        fleet.stop("interrupted")
        click.echo(
            "no further node is begun; once more, and those under way are left to themselves", err=True
        )

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def show_report(
    report: FleetReport,
    output: str,
    exit_code: ExitCode | None = None,
    nothing: str = "no kubelet has to restart",
) -> None:
    if output == "json":
        click.echo(json.dumps(report_document(report, exit_code)))
    else:
        show(report_tables(report, nothing))


def show_addition(report: FleetReport, output: str, notes: Sequence[str]) -> None:
    """Show what has come to a report that was shown already; the last line of JSON is the whole of it."""
    if output == "json":
        click.echo(json.dumps(report_document(report, notes=notes)))
    failed = [f"{host} could not be changed: {why}" for host, why in report.failed.items()]
    for line in (*failed, *notes):
        click.echo(plain(line), err=True)
