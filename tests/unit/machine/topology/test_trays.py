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

RACK = "aaaa"
TRAY = Tray((f"{RACK}.1",), "branch 580", "driver", BY_HOST, "0123456789abcdef", 18)
LIST, SHORT = "01234567 (18 nodes)", "fedcba98 (17 nodes)"


def rack(*others: Tray, like: int = 3) -> dict[str, Tray]:
    """Return some trays that are alike, and others after them."""
    return {f"t{number}": tray for number, tray in enumerate((*[TRAY] * like, *others))}


@pytest.mark.parametrize(
    ("trays", "what", "groups"),
    [
        pytest.param(
            rack(replace(TRAY, nodes="fedcba9876543210", nodes_count=17)),
            NODE_LISTS,
            {LIST: ("t0", "t1", "t2"), SHORT: ("t3",)},
            id="lists-differ",
        ),
        pytest.param(
            {
                "old": TRAY,
                **{f"n{n}": replace(TRAY, nodes="fedcba9876543210", nodes_count=17) for n in (1, 2)},
            },
            NODE_LISTS,
            {SHORT: ("n1", "n2"), LIST: ("old",)},
            id="the-value-of-most-comes-first",
        ),
        pytest.param(
            rack(replace(TRAY, nodes="fedcba9876543210")),
            NODE_LISTS,
            {LIST: ("t0", "t1", "t2"), "fedcba98 (18 nodes)": ("t3",)},
            id="lists-of-one-length-differ",
        ),
        pytest.param(
            rack(replace(TRAY, driver="branch 615")),
            "driver",
            {"branch 580": ("t0", "t1", "t2"), "branch 615": ("t3",)},
            id="branches-differ",
        ),
        pytest.param(
            rack(replace(TRAY, memory_mode="numa")),
            "mode of the GPUs' memory",
            {"driver": ("t0", "t1", "t2"), "numa": ("t3",)},
            id="memory-modes-differ",
        ),
        pytest.param(
            rack(replace(TRAY, imex=NOT_BY_HOST, nodes=None)),
            "IMEX daemon",
            {BY_HOST: ("t0", "t1", "t2"), NOT_BY_HOST: ("t3",)},
            id="a-tray-without-a-list-runs-imex-otherwise",
        ),
        pytest.param(
            rack(replace(TRAY, cliques=(f"{RACK}.2",))),
            "clique",
            {f"{RACK}.1": ("t0", "t1", "t2"), f"{RACK}.2": ("t3",)},
            id="cliques-differ",
        ),
    ],
)
def test_disagreeing_trays_are_grouped_by_value(trays, what, groups):
    (found,) = disagreements(trays)
    assert (found.what, found.groups) == (what, groups)
    assert [*found.groups] == [*groups]
    assert {*found.hosts} == {*trays}


@pytest.mark.parametrize(
    "trays",
    [
        pytest.param(rack(), id="all-agree"),
        pytest.param(rack(Tray((f"{RACK}.1",))), id="what-is-not-known"),
        pytest.param(rack(replace(TRAY, cliques=("bbbb.1",), nodes="f" * 16)), id="another-rack"),
        pytest.param({"t0": TRAY}, id="one-tray"),
        pytest.param({}, id="no-tray"),
    ],
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


@pytest.mark.parametrize(
    ("machine", "found"),
    [
        pytest.param(
            tray(imex_service="enabled"),
            Tray((f"{RACK}.1",), "branch 580", "driver", BY_HOST, "ab" * 32, 18),
            id="the-host-runs-imex",
        ),
        pytest.param(
            tray(imex_service="masked"),
            Tray((f"{RACK}.1",), "branch 580", "driver", NOT_BY_HOST),
            id="a-list-that-no-daemon-of-the-host-reads-does-not-count",
        ),
        pytest.param(
            tray(imex_service=None),
            Tray((f"{RACK}.1",), "branch 580", "driver"),
            id="not-installed-or-not-captured",
        ),
        pytest.param(KINDS["h100-pcie"](), None, id="no-nvlink-domain"),
    ],
)
def test_tray_is_recognised_by_its_nvlink_domain(machine, found):
    assert tray_of(machine) == found


@pytest.mark.parametrize("found", [TRAY, None], ids=["a-tray", "none"])
def test_tray_survives_a_round_trip(found):
    said = found and {**asdict(found), "cliques": [*found.cliques]}
    assert tray_in(said) == found
