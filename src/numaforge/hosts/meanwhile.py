"""What a run needs once its hosts have answered, imported and made while it waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module

import gevent  # type: ignore[import-untyped]

from numaforge import lean_process


def get_ready() -> None:
    """Begin; each step is short, and between two of them go those that ask the hosts."""
    gevent.spawn(_get_ready)


def _get_ready() -> None:
    for step in steps():
        gevent.idle()
        step()
    lean_process.settle()


def steps() -> Iterator[Callable[[], object]]:
    """Yield what imports and makes it, a little each."""
    from numaforge.roles import ROLES

    for name in (
        "yaml.reader",
        "yaml",
        "jinja2.filters",
        "jinja2",
        "pydantic_core",
        "pydantic",
        "pydantic.types",
    ):
        yield partial(import_module, name)
    for name in (
        "kubelet.config.loading",
        "topology",
        "template",
        "sections.section",
        "sections.strict_yaml",
    ):
        yield partial(import_module, f"numaforge.{name}")
    for kind in ("section", "plan", "files", "part"):
        for role in ROLES:
            yield partial(getattr, role, kind)
    for name in (
        "planning.node",
        "profile",
        "roles.topology.decide",
        "roles.maintenance.target",
        "roles.maintenance.operations",
    ):
        yield partial(import_module, f"numaforge.{name}")
    from numaforge.roles.document import PLAN

    yield PLAN.prepare
