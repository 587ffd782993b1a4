"""Import, while a run waits for its hosts, what it needs after their answers.

A host answers after 0.1 to 1 s, in which this process has nothing else to do; the imports take 0.3 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module

import gevent  # type: ignore[import-untyped]

_FEW_HOSTS = 8


def get_ready(hosts: int) -> None:
    """Begin; each step is short, and between two of them go those that ask the hosts.

    Few hosts leave time in which none has anything to do, and steps are taken then alone. Of many one always
    has, and what they leave in memory is not to wait.
    """
    gevent.spawn(_get_ready, gevent.idle if hosts <= _FEW_HOSTS else gevent.sleep)


def _get_ready(wait: Callable[[], object]) -> None:
    for step in steps():
        wait()
        step()


def steps() -> Iterator[Callable[[], object]]:
    """Yield what imports and makes it, a little each."""
    for name in ("pydantic_core", "pydantic", "pydantic.types"):
        yield partial(import_module, name)
    for name in (
        "kubelet.config.loading",
        "machine.topology.read",
        "roles.template",
        "lib.section",
        "lib.strict_yaml",
        "change.parts",
    ):
        yield partial(import_module, f"numaforge.{name}")
    for name in (
        "planning.node",
        "planning.profiles",
        "run.decide",
        "run.maintenance.target",
        "run.maintenance.operations",
    ):
        yield partial(import_module, f"numaforge.{name}")
    from numaforge.planning.document import PLAN

    yield PLAN.prepare
