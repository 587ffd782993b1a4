"""Who runs IMEX: what is planned, what a node needs, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest

from numaforge.change.goal import Goal
from numaforge.commands.machine import machine_of
from numaforge.lib.errors import HostError
from numaforge.machine.snapshot.capture import from_root
from numaforge.machine.snapshot.redaction import checksum
from numaforge.machine.topology.model import NodeTopology, NvidiaInstall
from numaforge.machine.topology.trays import BY_HOST, NOT_BY_HOST
from numaforge.node.part import NodeState
from numaforge.planning.document import dumps, loads
from numaforge.planning.plan import NodePlan
from numaforge.roles.imex import part as imex
from numaforge.roles.imex.plan import ImexPlan
from numaforge.roles.imex.tray import planned_tray
from tests.fixtures.plans import notices, planned, refusal
from tests.fixtures.trees import write, write_tree

TRAYS = ("10.0.0.11", "10.0.0.12")
SOCKET = "/var/run/nvidia-imex-ctrl.sock"
HOST = {"mode": "host-managed", "nodes": list(TRAYS)}
BARE = {"mode": "bare", "nodes": list(TRAYS)}
BY_DRIVER = {"mode": "driver-managed"}


def tray(service: str | None = "enabled", *, dra: bool = False) -> NodeTopology:
    install = NvidiaInstall(loaded="580.95.05", compute_domains=dra, imex_service=service)
    return replace(machine_of("gb200", None), nvidia_install=install)


def plan(wish: dict[str, Any], machine: NodeTopology | None = None, **more: Any) -> NodePlan:
    return planned(machine or tray(), memory={"system_reserved": "1Gi"}, imex=wish, **more)


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        pytest.param({}, ImexPlan(), id="left-alone"),
        pytest.param(BY_DRIVER, ImexPlan("driver-managed"), id="the-dra-driver-runs-it"),
        pytest.param(HOST, ImexPlan("host-managed", TRAYS, SOCKET), id="the-host-runs-it-and-takes-commands"),
        pytest.param(BARE, ImexPlan("bare", TRAYS), id="without-kubernetes"),
    ],
)
def test_imex_plan_per_mode(wish, expected):
    chosen = plan(wish)
    assert loads(dumps(chosen)).imex == expected
    channel = {"nvidia": ("NVreg_CreateImexChannel0=1",)}
    assert chosen.modules.options == (channel if wish == BARE else {})


REFUSED = {
    "no-package": (BY_DRIVER, tray(None), "nvidia-imex is not installed"),
    "two-daemons": (BARE, tray(dra=True), "starts a daemon of its own"),
    "no-nodes": ({"mode": "bare"}, tray(), "needs nodes"),
    "whose": ({**BY_DRIVER, "nodes": ["10.0.0.1"]}, tray(), "names nodes"),
    "a-name": ({**HOST, "nodes": ["tray-1"]}, tray(), "'tray-1' is not an IP address"),
    "twice": ({**HOST, "nodes": ["10.0.0.1"] * 2}, tray(), "names 10.0.0.1 twice"),
    "no-path": ({**HOST, "socket": "x.sock"}, tray(), "not the path of a socket"),
}


@pytest.mark.parametrize(("wish", "machine", "message"), REFUSED.values(), ids=REFUSED)
def test_impossible_imex_profile_is_refused(wish, machine, message):
    assert message in refusal(machine, imex=wish)


DAEMONS = {
    "an-enabled-unit-beside-the-driver": ({}, True, "enabled", False, True),
    "one-that-takes-its-commands": ({}, True, "enabled", True, False),
    "an-older-snapshot": ({}, True, "enabled", None, False),
    "a-masked-unit": ({}, True, "masked", False, False),
    "no-driver": ({}, False, "enabled", False, False),
    "the-plan-masks-it": (BY_DRIVER, True, "enabled", False, False),
    "the-host-manages-it": (HOST, True, "enabled", False, False),
}


@pytest.mark.parametrize(("wish", "dra", "service", "commands", "noticed"), DAEMONS.values(), ids=DAEMONS)
def test_plan_that_leaves_two_imex_daemons_is_noticed(wish, dra, service, commands, noticed):
    install = replace(tray(service, dra=dra).nvidia_install, imex_commands=commands)
    said = notices(plan(wish, replace(tray(), nvidia_install=install)))
    assert ("imex-two-daemons" in said) is noticed


def goal(wish: dict[str, Any], *roles: str) -> Goal:
    return Goal(plan(wish), tray(), frozenset(roles or ("imex",)))


def found(*said: str) -> NodeState:
    return NodeState({}, (), said={imex.NAME: said})


RUNS = ("program yes", "unit enabled", "active yes", "host-daemon yes", "address 10.0.0.11")
NODES = tuple(f"node {address}" for address in TRAYS)
KEYS = (
    "key IMEX_NODE_CONFIG_FILE=/etc/nvidia-imex/nodes_config.cfg",
    "key IMEX_CMD_ENABLED=1",
    f"key IMEX_CMD_UNIX_DOMAIN_PATH={SOCKET}",
)
OFF = ("program yes", "unit disabled")


MASKED = ("program yes", "unit masked")
NEEDED = {
    "left-alone": ({}, RUNS, False),
    "no-longer-asked-for": ({}, (*RUNS, "recorded unit masked"), True),
    "host-managed-already": (HOST, (*RUNS, *NODES, *KEYS), False),
    "without-its-socket": (HOST, (*RUNS, *NODES, *KEYS[:2]), True),
    "nodes-in-another-order": (HOST, (*RUNS, *reversed(NODES), *KEYS), True),
    "bare": (BARE, (*RUNS, *NODES, *KEYS), False),
    "enabled": (BY_DRIVER, RUNS, True),
    "disabled-and-not-masked": (BY_DRIVER, OFF, True),
    "masked": (BY_DRIVER, MASKED, False),
    "masked-and-a-daemon-runs": (BY_DRIVER, (*MASKED, "host-daemon yes"), True),
    "masked-and-the-dra-driver-runs-its-own": (BY_DRIVER, (*MASKED, "pod-daemon yes"), False),
}


@pytest.mark.parametrize(("wish", "said", "needed"), NEEDED.values(), ids=NEEDED)
def test_needed_imex_change_drains_the_node(wish, said, needed):
    part = imex.need(goal(wish), found(*said), ())
    assert (part is not None) is needed
    assert part is None or part.drains


REFUSED_BY_THE_NODE = {
    "no-package": (HOST, ("unit disabled",), "there is no nvidia-imex"),
    "a-strangers-list": (HOST, ("program yes", "address 10.0.9.9"), "none of its addresses .10.0.9.9."),
    "alive": (BY_DRIVER, (*RUNS, "pod-daemon yes"), "a ComputeDomain is alive"),
    "alive-on-the-way-back": ({}, (*RUNS, "pod-daemon yes", "recorded unit enabled"), "alive"),
}


@pytest.mark.parametrize(("wish", "said", "message"), REFUSED_BY_THE_NODE.values(), ids=REFUSED_BY_THE_NODE)
def test_imex_change_that_the_node_cannot_make_is_refused(wish, said, message):
    with pytest.raises(HostError, match=message):
        imex.need(goal(wish), found(*said), ())


SHOWN = {"imex_service": "enabled", "imex_list": "ab" * 32, "imex_nodes": 18, "gpu_memory_mode": "numa"}
LISTED = replace(tray(), nvidia_install=NvidiaInstall(loaded="580.95.05", **SHOWN))


COMPARED = {
    "nothing-asked-is-as-it-is": ({}, {}, ("numa", BY_HOST, "ab" * 32, 18)),
    "by-the-dra-driver": (BY_DRIVER, {}, ("numa", NOT_BY_HOST, None, None)),
    "the-list-of-the-profile": (HOST, {}, ("numa", BY_HOST, checksum(TRAYS), 2)),
    "the-memory-mode-after-the-boot": (
        {},
        {"gpu_memory": "driver", "maintenance": {"reboot": "allowed"}},
        ("driver", BY_HOST, "ab" * 32, 18),
    ),
    "a-mode-that-waits-for-a-boot": ({}, {"gpu_memory": "driver"}, ("numa", BY_HOST, "ab" * 32, 18)),
}


@pytest.mark.parametrize(("wish", "more", "found"), COMPARED.values(), ids=COMPARED)
def test_tray_is_compared_as_planned(wish, more, found):
    there = planned_tray(LISTED, plan(wish, LISTED, **more))
    assert (there.memory_mode, there.imex, there.nodes, there.nodes_count) == found


def test_machine_outside_a_rack_is_not_a_tray():
    alone = replace(tray(), gpus=tuple(replace(gpu, fabric=None) for gpu in tray().gpus))
    assert planned_tray(alone, plan(HOST, alone)) is None


def test_written_node_list_has_the_planned_checksum(tmp_path):
    root = write_tree(tmp_path)
    write(root, imex.NODES, "".join(f"{each}\n" for each in TRAYS))
    assert from_root(root).commands["imex list"] == checksum(TRAYS)
