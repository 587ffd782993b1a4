"""Look at the host and decide; every other role reads the plan.

The modules that decide are imported after a host has answered, so that a deploy asks its hosts at once.
"""

import time
from pathlib import Path

from pyinfra import host

from numaforge.lib.errors import HostError
from numaforge.machine.snapshot.capture import script
from numaforge.preflight import host as preflight
from numaforge.rollout import events
from numaforge.run.hosts.facts import as_root, detect, detect_for_change, right
from numaforge.run.hosts.failures import fail_host
from numaforge.run.hosts.host_data import datum
from numaforge.run.hosts.roles import planned, role

__all__ = ["capture", "examine", "record", "removal", "topology"]

CAPTURED = "captured"  # the kind of the event that names the file of a host's snapshot
PREFLIGHT = "preflight"  # the kind of the event that says whether a host can be changed
RECORDED = "recorded"  # the kind of the event that names the files of a host's snapshot and plan


@role("Topology")
def topology() -> None:
    """Detect the machine and plan it by the host data `numaforge_profile`.

    The plan is saved on the host together with its changes. A host that lacks what a maintenance needs is
    refused here, before any change.
    """
    snapshot = detect_for_change(host)
    from .decide import remember_plan

    remember_plan(snapshot)


@role("Topology")
def removal() -> None:
    """Detect the machine and plan it without numaforge, which undoes the changes of earlier runs.

    Of the host data `numaforge_profile`, only the section `maintenance` counts.
    """
    snapshot = detect_for_change(host)
    from .decide import remember_removal

    remember_removal(snapshot)


@role("Record")
def record() -> None:
    """Detect and plan, change nothing on the host; save OUT/HOST.snapshot.json and OUT/HOST.plan.json here.

    OUT is the host data `out` (`--data out=DIR`), by default `numaforge-out`. The snapshot is saved even
    without a plan, where the profile is missing or refused.
    """
    snapshot = detect(host)
    saved = _save("snapshot", snapshot.to_json())
    from numaforge.planning.document import dumps

    from .decide import remember_plan

    remember_plan(snapshot)
    plan = _save("plan", dumps(planned(host)))
    events.record(RECORDED, host.name, file=str(saved), plan=str(plan))


def examine() -> None:
    """Record, for the program that started the run, whether the host can be changed, and its plan."""
    if host in host.state.failed_hosts:
        return
    begun = time.time()
    try:
        answer = as_root(host, script() + preflight.script())
    except HostError as error:
        fail_host(host, error)
        return
    answered = time.time()
    from .decide import foreseen

    events.record(
        PREFLIGHT,
        host.name,
        right=right(answer),
        answer=preflight.answer_lines(answer),
        asked_at=begun,
        answered_at=answered,
        **foreseen(answer),
    )


@role("Capture")
def capture() -> None:
    """Save OUT/HOST.snapshot.json here, as `record` does, and tell the process that started this run."""
    events.record(CAPTURED, host.name, file=str(_save("snapshot", detect(host).to_json())))


def _save(kind: str, text: str) -> Path:
    folder = Path(datum(host, "out"))
    file = folder / f"{host.name.replace('/', '_')}.{kind}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.touch(0o600)
        file.chmod(0o600)  # also one that was there: it has what root reads of a machine
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise HostError(
            f"cannot be written: {error.strerror}",
            where=f"out={folder}",
            remedy="name another folder: --data out=DIR",
        ) from error
    host.log(f"saved {file}")
    return file
