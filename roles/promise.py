"""What a plan promises about its live node: one test for each entry of a promise's table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from numaforge.lib import shell
from numaforge.roles.expectation import Comparison, Expected

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.verification.live import VerifiedNode

HOSTNAME = "/proc/sys/kernel/hostname"
"""The file with the host name, read by every verification: the kubelet registers by it."""

Table = Mapping[str, Any]
"""The expected values, by the name that a test shows."""


def _nothing(_plan: NodePlan) -> tuple[str, ...]:
    return ()


class Promise(NamedTuple):
    """One kind of promise: the test `test_NAME` for each entry of the `table` of a plan.

    `holds` fails where the live node differs; it takes the node, the entry's name and the expected value,
    and may request the suite's fixtures by name. `values` are the files of the kernel that it needs, or the
    shell's patterns for them; systemd is asked whether `units` are active, and for their `properties`; `asks`
    are calls of shell functions (the role's probe.sh), which know systemd's answer.
    """

    name: str
    table: Callable[[NodePlan], Table]
    holds: Callable[..., None]
    values: Callable[[NodePlan], Iterable[str]] = _nothing
    units: Callable[[NodePlan], Iterable[str]] = _nothing
    properties: tuple[str, ...] = ()
    asks: Callable[[NodePlan], Iterable[str]] = _nothing


def values_of(table: Callable[[NodePlan], Table]) -> Callable[[NodePlan], Iterable[str]]:
    """Return the function that lists the paths of a table whose entries are a path and its expected text."""
    return lambda plan: [path for path, _ in table(plan).values()]


def asks_names(function: str, table: Callable[[NodePlan], Table]) -> Callable[[NodePlan], Iterable[str]]:
    """Return the function that calls a shell function with a table's names; no call where it has none."""
    return lambda plan: [shell.call(function, [*names])] if (names := table(plan)) else []


def asks_where(
    table: Callable[[NodePlan], Table], function: str, *words: str
) -> Callable[[NodePlan], Iterable[str]]:
    """Return the function that calls a shell function with these words where a table has entries."""
    return lambda plan: [shell.call(function, words)] if table(plan) else []


def require(kept: bool, why: str) -> None:
    """Fail with `why`, which says what is there and what is planned."""
    if not kept:
        pytest.fail(why, pytrace=False)


def require_equal(found: object, planned: object, place: str = "") -> None:
    """Fail where a found value is not the planned one: `33, planned 7`; None is found where there is none."""
    where = f" ({place})" if place else ""
    require(found == planned, f"{'absent' if found is None else found or 'empty'}, planned {planned}{where}")


def value_is(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    """Check the first line of a kernel file."""
    path, value = expected
    require_equal(node.value(path), value, path)


def unit_state(node: VerifiedNode, name: str, expected: tuple[str, ...]) -> None:
    """Check that a unit is in one of its allowed states."""
    state = node.live.of("active").get(name)
    require(state in expected, f"{state or 'unknown'}, planned {' or '.join(expected)}")


def unit_starts_at_boot(node: VerifiedNode, name: str, expected: str) -> None:
    """Check whether a unit is enabled, as systemd reports it."""
    require_equal(node.live.of("enabled").get(name), expected)


def kernel_value(expected: Callable[[NodePlan], Iterable[Expected]]) -> Promise:
    """Return the promise of a role's values of the kernel: a test for each row.

    The CPUs of interrupts are in other files than their paths name: the role's probe.sh prints them.
    """

    def table(plan: NodePlan) -> Table:
        rows = [*expected(plan)]
        shared = Counter(row.what for row in rows)
        return {row.what if shared[row.what] == 1 else f"{row.what}:{row.value}": row for row in rows}

    def patterns(plan: NodePlan) -> list[str]:
        return [row.pattern for row in expected(plan) if row.comparison is not Comparison.WITHIN]

    return Promise("kernel_value", table, _kernel_value, values=patterns)


def _kernel_value(node: VerifiedNode, name: str, expected: Expected) -> None:
    differences = expected.differences(node.live.values)
    require(not differences, f"{'; '.join(map(str, differences))}, planned {expected} ({expected.path})")
