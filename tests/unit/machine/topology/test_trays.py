"""What the trays of a rack have to agree in."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from numaforge.machine.topology.model import NodeTopology, NvidiaInstall
from numaforge.machine.topology.trays import (
    BY_HOST,
    NODE_LISTS,
    NOT_BY_HOST,
    Tray,
    disagreements,
    tray_in,
    tray_of,
)
from tests.fixtures.gpu_machines import KINDS
from tests.fixtures.tables import cases

RACK = "aaaa"
TRAY = Tray((f"{RACK}.1",), "branch 580", "driver", BY_HOST, "0123456789abcdef", 18)
LIST, SHORT = "01234567 (18 nodes)", "fedcba98 (17 nodes)"


def rack(*others: Tray, like: int = 3) -> dict[str, Tray]:
    """Return some trays that are alike, and others after them."""
    return {f"t{number}": tray for number, tray in enumerate((*[TRAY] * like, *others))}


@cases(
    "trays, what, groups",
    {
        "lists-differ": (
            rack(replace(TRAY, nodes="fedcba9876543210", nodes_count=17)),
            NODE_LISTS,
            {LIST: ("t0", "t1", "t2"), SHORT: ("t3",)},
        ),
        "the-value-of-most-comes-first": (
            {
                "old": TRAY,
                **{f"n{n}": replace(TRAY, nodes="fedcba9876543210", nodes_count=17) for n in (1, 2)},
            },
            NODE_LISTS,
            {SHORT: ("n1", "n2"), LIST: ("old",)},
        ),
        "lists-of-one-length-differ": (
            rack(replace(TRAY, nodes="fedcba9876543210")),
            NODE_LISTS,
            {LIST: ("t0", "t1", "t2"), "fedcba98 (18 nodes)": ("t3",)},
        ),
        "branches-differ": (
            rack(replace(TRAY, driver="branch 615")),
            "driver",
            {"branch 580": ("t0", "t1", "t2"), "branch 615": ("t3",)},
        ),
        "memory-modes-differ": (
            rack(replace(TRAY, memory_mode="numa")),
            "mode of the GPUs' memory",
            {"driver": ("t0", "t1", "t2"), "numa": ("t3",)},
        ),
        "a-tray-without-a-list-runs-imex-otherwise": (
            rack(replace(TRAY, imex=NOT_BY_HOST, nodes=None)),
            "IMEX daemon",
            {BY_HOST: ("t0", "t1", "t2"), NOT_BY_HOST: ("t3",)},
        ),
        "cliques-differ": (
            rack(replace(TRAY, cliques=(f"{RACK}.2",))),
            "clique",
            {f"{RACK}.1": ("t0", "t1", "t2"), f"{RACK}.2": ("t3",)},
        ),
    },
)
def test_disagreeing_trays_are_grouped_by_value(trays, what, groups):
    (found,) = disagreements(trays)
    assert (found.what, found.groups) == (what, groups)
    assert [*found.groups] == [*groups]
    assert {*found.hosts} == {*trays}


@cases(
    "trays",
    {
        "all-agree": rack(),
        "what-is-not-known": rack(Tray((f"{RACK}.1",))),
        "another-rack": rack(replace(TRAY, cliques=("bbbb.1",), nodes="f" * 16)),
        "one-tray": {"t0": TRAY},
        "no-tray": {},
    },
)
def test_agreeing_trays_give_no_disagreement(trays):
    assert disagreements(trays) == ()


def test_trays_of_different_cliques_may_differ_in_imex_list_and_driver():
    other = replace(TRAY, cliques=(f"{RACK}.2",), nodes="f" * 16, driver="branch 615")
    assert {each.what for each in disagreements(rack(other))} == {"clique"}


INSTALL = {"loaded": "580.95.05", "imex_list": "ab" * 32, "imex_nodes": 18, "gpu_memory_mode": "driver"}


def tray(**install: Any) -> NodeTopology:
    built = KINDS["gb200-nvl72-tray"]()
    gpus = tuple(replace(gpu, fabric=f"{RACK}.1") for gpu in built.gpus)
    return replace(built, gpus=gpus, nvidia_install=NvidiaInstall(**{**INSTALL, **install}))


@cases(
    "machine, found",
    {
        "the-host-runs-imex": (
            tray(imex_service="enabled"),
            Tray((f"{RACK}.1",), "branch 580", "driver", BY_HOST, "ab" * 32, 18),
        ),
        "a-list-that-no-daemon-of-the-host-reads-does-not-count": (
            tray(imex_service="masked"),
            Tray((f"{RACK}.1",), "branch 580", "driver", NOT_BY_HOST),
        ),
        "not-installed-or-not-captured": (
            tray(imex_service=None),
            Tray((f"{RACK}.1",), "branch 580", "driver"),
        ),
        "no-nvlink-domain": (KINDS["h100-pcie"](), None),
    },
)
def test_tray_is_recognised_by_its_nvlink_domain(machine, found):
    assert tray_of(machine) == found


@pytest.mark.parametrize("found", [TRAY, None], ids=["a-tray", "none"])
def test_tray_survives_a_round_trip(found):
    said = found and {**asdict(found), "cliques": [*found.cliques]}
    assert tray_in(said) == found
