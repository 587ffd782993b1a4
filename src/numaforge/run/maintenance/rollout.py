"""The roll-out of one host within a run of pyinfra."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from numaforge.findings import Severity
from numaforge.lib.errors import HostError, NumaforgeError
from numaforge.lib.unfinished import Unfinished
from numaforge.preflight import Check, errors
from numaforge.preflight.cluster import permission_check
from numaforge.preflight.runner import verification_check
from numaforge.rollout import events
from numaforge.rollout.budget import Budget, CachedPool
from numaforge.rollout.fleet import EXIT_CODES, FAILED, GOOD
from numaforge.rollout.in_place import InPlaceChange, NodeOfHost
from numaforge.rollout.names import PLACE
from numaforge.rollout.node import NodeRollout, Progress
from numaforge.rollout.options import RolloutOptions, RunRole
from numaforge.rollout.record import Ending
from numaforge.rollout.runner import this_runner
from numaforge.rollout.same_machine import claimed_twice
from numaforge.rollout.steps import in_thread, run
from numaforge.run.hosts.display import show_end, show_progress
from numaforge.run.hosts.interrupts import INTERRUPTED, stopped

from .machine import PyinfraMachine
from .target import Target, claims, key_of_cluster
from .verification import verification_of

if TYPE_CHECKING:
    from pyinfra.api import Host

    from numaforge.rollout.kubectl import KubectlCluster


class _Clusters:
    """The clusters of a run, each opened once, and the hosts on which a roll-out failed."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._known: dict[str, KubectlCluster] = {}
        self._cached_pools: dict[tuple[KubectlCluster, Budget], CachedPool] = {}
        self.failed: dict[str, Ending] = {}
        self._lacking: dict[str, tuple[Check, ...]] = {}
        self._looking = threading.Lock()  # hosts run concurrently

    def of(self, options: RolloutOptions) -> KubectlCluster:
        key = key_of_cluster(options)
        if key not in self._known:
            self._known[key] = self._open.enter_context(options.cluster())
        return self._known[key]

    def lacking(self, options: RolloutOptions) -> tuple[Check, ...]:
        """Return what a roll-out lacks here and in the cluster; checked once per run."""
        key = f"{key_of_cluster(options)} {options.verify}"
        with self._looking:
            if key not in self._lacking:
                try:
                    checks = [permission_check(self.of(options), options)]
                except NumaforgeError as error:
                    checks = [Check("login", str(error), Severity.ERROR)]
                checks += [verification_check()] if options.verify else []
                self._lacking[key] = errors(checks)
        return self._lacking[key]

    def cached_pool(self, options: RolloutOptions) -> CachedPool:
        """Return this run's cached view of the pool."""
        key = self.of(options), options.budget()
        if key not in self._cached_pools:
            self._cached_pools[key] = CachedPool(*key, time.monotonic)
        return self._cached_pools[key]


_clusters = _Clusters()


def refuse_without_means(options: RolloutOptions) -> None:
    """Raise HostError where a roll-out could not finish here; `numaforge rollout` itself has checked it."""
    if events.heard():
        return
    lacking = _clusters.lacking(options)
    if lacking:
        raise HostError(
            "nothing was changed, a roll-out lacks what it needs:\n  " + "\n  ".join(map(str, lacking)),
            remedy="`numaforge doctor INVENTORY` shows it all",
        )


def roll_out(
    host: Host, target: Target, options: RolloutOptions, *, in_place: bool, unreadable: str | None
) -> None:
    """Change and prove the host, `in_place` if its pods may stay; raises NumaforgeError if that fails."""
    if twice := claimed_twice(claims(options)).get(host.name):
        raise HostError(twice)
    role = RunRole(**(host.data.get(f"{PLACE}_run") or {}))
    outcome = run(_in_place(host, target, options, role).run()) if in_place else None
    if outcome is None:
        outcome = run(_out_of_service(host, target, options, role, unreadable).run())
    show_progress(host, None)
    events.record("outcome", host.name, ending=outcome.ending, reason=outcome.reason, details=outcome.details)
    if outcome.ending in FAILED:
        _clusters.failed[host.name] = outcome.ending
    if outcome.ending is not Ending.HELD:
        PyinfraMachine(host, target, None).proved()
    if outcome.ending not in GOOD:
        failed = HostError("\n".join([f"{outcome.ending}: {outcome.reason}", *outcome.details]))
        failed.exit_code = EXIT_CODES.get(outcome.ending, failed.exit_code)
        raise failed
    show_end(host, outcome.reason)


def _in_place(host: Host, target: Target, options: RolloutOptions, role: RunRole) -> InPlaceChange:
    return InPlaceChange(
        host=host.name,
        machine=PyinfraMachine(host, target, None),
        node=NodeOfHost(_clusters.of(options), target.node) if target.joined else None,
        settings=options.for_node(),
        clock=time.monotonic,
        tell=partial(_report, host),
        may_reboot=options.says_how_many,
        veto=lambda: _veto(options, role),
    )


def _out_of_service(
    host: Host, target: Target, options: RolloutOptions, role: RunRole, unreadable: str | None
) -> NodeRollout:
    """Return the change of a node that is drained for it; raises HostError if the suite cannot reach it."""
    verification = verification_of(host) if options.verify and target.saves_plan else None
    return NodeRollout(
        cluster=_clusters.of(options),
        machine=PyinfraMachine(host, target, verification),
        name=target.node,
        runner=this_runner(),
        settings=options.for_node(),
        clock=time.monotonic,
        tell=partial(_report, host),
        veto=lambda: _veto(options, role),
        cached_pool=_clusters.cached_pool(options),
        rollout=role.name,
        unreadable=unreadable,
        beside=in_thread,
    )


def _report(host: Host, progress: Progress) -> None:
    events.record("progress", host.name, phase=progress.phase, waits_for=progress.waits_for)
    status = ": ".join(filter(None, (progress.phase, "; ".join(progress.waits_for))))
    show_progress(host, Unfinished(progress.node, "rolls out", status))
    host.log(status)


def _veto(options: RolloutOptions, role: RunRole) -> str | None:
    """Return why this run begins no further host: it only resumes, or too many hosts failed; else None."""
    if stopped():
        return f"not begun: {INTERRUPTED}"
    if not role.begins:
        return "not begun: this run only resumes a roll-out, and begins none"
    if len(_clusters.failed) <= options.max_failures:
        return None
    host, ending = list(_clusters.failed.items())[-1]
    return f"not begun: {host} is {ending}, and no more than {options.max_failures} may fail"
