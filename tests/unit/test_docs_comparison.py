"""The page is what `make bench-plans` writes, and the other tool's rules give all that it publishes."""

from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.comparison.profile_creator import PUBLISHED, Published, RefusedError, machine_of, reserved_cpus
from numaforge.lib.cpulist import format_cpulist


def answer(one: Published) -> str:
    try:
        reserved = reserved_cpus(
            machine_of(one.machine), one.count, split=one.split, disable_ht=one.disable_ht
        )
    except RefusedError as refused:
        return str(refused)
    return format_cpulist(reserved)


@pytest.mark.parametrize("one", [pytest.param(one, id=" ".join(map(str, astuple(one)))) for one in PUBLISHED])
def test_rules_reproduce_the_published_reservations(one):
    assert answer(one) == one.reserved


@given(st.integers(1, 6), st.integers(1, 8), st.integers(1, 40))
def test_exact_count_is_reserved_without_smt_or_remainder(nodes, cores, count):
    machine = [[(node * cores + core,) for core in range(cores)] for node in range(nodes)]
    if 0 < count < nodes * cores and count % nodes in (0, nodes - 1):
        assert len(reserved_cpus(machine, count, split=True)) == count
