"""Who runs IMEX: what is planned, what a node needs, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest

from numaforge.change.goal import Goal
from numaforge.commands.machine import machine_of
from numaforge.lib.errors import HostError, NumaforgeError
from numaforge.machine.snapshot import from_root
from numaforge.machine.snapshot.redaction import checksum
from numaforge.machine.topology.model import NodeTopology, NvidiaInstall
from numaforge.machine.topology.trays import BY_HOST, NOT_BY_HOST
from numaforge.node.part import NodeState
from numaforge.planning.document import dumps, loads
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile
from numaforge.roles.imex import part as imex
from numaforge.roles.imex.plan import ImexPlan
from numaforge.roles.imex.tray import planned_tray
from tests.fixtures.machines import lab_node
from tests.fixtures.trees import write, write_tree

TRAYS = ("10.0.0.11", "10.0.0.12")
SOCKET = "/var/run/nvidia-imex-ctrl.sock"
HOST = {"mode": "host-managed", "nodes": list(TRAYS)}
BARE = {"mode": "bare", "nodes": list(TRAYS)}


def tray(service: str | None = "enabled", *, dra: bool = False) -> NodeTopology:
    install = NvidiaInstall(loaded="580.95.05", compute_domains=dra, imex_service=service)
    return replace(machine_of("gb200", None), nvidia_install=install)


def planned(wish: dict[str, Any], machine: NodeTopology | None = None, **more: Any) -> NodePlan:
    profile = load_profile({"name": "t", "memory": {"system_reserved": "1Gi"}, "imex": wish, **more})
    return plan_node(machine or tray(), profile)


@pytest.mark.parametrize(
    ("wish", "plan"),
    [
        pytest.param({}, ImexPlan(), id="left-alone"),
        pytest.param({"mode": "driver-managed"}, ImexPlan("driver-managed"), id="the-dra-driver-runs-it"),
        pytest.param(HOST, ImexPlan("host-managed", TRAYS, SOCKET), id="the-host-runs-it-and-takes-commands"),
        pytest.param(BARE, ImexPlan("bare", TRAYS), id="without-kubernetes"),
    ],
)
def test_imex_plan_per_mode(wish, plan):
    assert loads(dumps(planned(wish))).imex == plan


def test_bare_mode_creates_channel_0_at_each_module_load():
    assert planned(BARE).modules.options == {"nvidia": ("NVreg_CreateImexChannel0=1",)}
    assert planned(HOST).modules.options == {}


@pytest.mark.parametrize(
    ("wish", "machine", "message"),
    [
        pytest.param({"mode": "driver-managed"}, tray(None), "nvidia-imex is not installed", id="no-package"),
        pytest.param(BARE, tray(dra=True), "starts a daemon of its own", id="two-daemons"),
        pytest.param({"mode": "bare"}, None, "needs nodes", id="no-nodes"),
        pytest.param({"mode": "driver-managed", "nodes": ["10.0.0.1"]}, None, "names nodes", id="whose"),
        pytest.param({**HOST, "nodes": ["tray-1"]}, None, "'tray-1' is not an IP address", id="a-name"),
        pytest.param({**HOST, "nodes": ["10.0.0.1"] * 2}, None, "names 10.0.0.1 twice", id="twice"),
        pytest.param({**HOST, "socket": "x.sock"}, None, "not the path of a socket", id="no-path"),
    ],
)
def test_impossible_imex_profile_is_refused(wish, machine, message):
    with pytest.raises(NumaforgeError, match=message):
        planned(wish, machine)


@pytest.mark.parametrize(
    ("wish", "dra", "service", "commands", "told"),
    [
        pytest.param(
            {}, True, "enabled", False, ["imex-two-daemons"], id="an-enabled-unit-beside-the-driver"
        ),
        pytest.param({}, True, "enabled", True, [], id="one-that-takes-its-commands"),
        pytest.param({}, True, "enabled", None, [], id="an-older-snapshot"),
        pytest.param({}, True, "masked", False, [], id="a-masked-unit"),
        pytest.param({}, False, "enabled", False, [], id="no-driver"),
        pytest.param({"mode": "driver-managed"}, True, "enabled", False, [], id="the-plan-masks-it"),
    ],
)
def test_plan_that_leaves_two_imex_daemons_is_noticed(wish, dra, service, commands, told):
    machine = tray(service, dra=dra)
    assert machine.nvidia_install is not None
    machine = replace(machine, nvidia_install=replace(machine.nvidia_install, imex_commands=commands))
    notices = planned(wish, machine).notices
    assert [each.id for each in notices if each.id.startswith("imex")] == told


def test_host_managed_daemon_is_allowed_with_the_dra_driver():
    assert planned(HOST, tray(dra=True)).imex.mode == "host-managed"


def goal(wish: dict[str, Any], *roles: str) -> Goal:
    return Goal(planned(wish), tray(), frozenset(roles or ("imex",)))


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


@pytest.mark.parametrize(
    ("wish", "said", "needed"),
    [
        pytest.param({}, RUNS, False, id="left-alone"),
        pytest.param({}, (*RUNS, "recorded unit masked"), True, id="no-longer-asked-for"),
        pytest.param(HOST, (*RUNS, *NODES, *KEYS), False, id="host-managed-already"),
        pytest.param(HOST, (*RUNS, *NODES, *KEYS[:2]), True, id="without-its-socket"),
        pytest.param(HOST, (*RUNS, *reversed(NODES), *KEYS), True, id="nodes-in-another-order"),
        pytest.param(BARE, (*RUNS, *NODES, *KEYS), False, id="bare"),
        pytest.param({"mode": "driver-managed"}, RUNS, True, id="enabled"),
        pytest.param({"mode": "driver-managed"}, OFF, True, id="disabled-and-not-masked"),
        pytest.param({"mode": "driver-managed"}, ("program yes", "unit masked"), False, id="masked"),
        pytest.param(
            {"mode": "driver-managed"},
            ("program yes", "unit masked", "host-daemon yes"),
            True,
            id="masked-and-a-daemon-runs",
        ),
        pytest.param(
            {"mode": "driver-managed"},
            ("program yes", "unit masked", "pod-daemon yes"),
            False,
            id="masked-and-the-dra-driver-runs-its-own",
        ),
    ],
)
def test_needed_imex_change_drains_the_node(wish, said, needed):
    part = imex.need(goal(wish), found(*said), ())
    assert (part is not None) is needed
    assert part is None or part.drains


REFUSED_BY_THE_NODE = {
    "no-package": (HOST, ("unit disabled",), "there is no nvidia-imex"),
    "a-strangers-list": (HOST, ("program yes", "address 10.0.9.9"), "none of its addresses .10.0.9.9."),
    "alive": ({"mode": "driver-managed"}, (*RUNS, "pod-daemon yes"), "a ComputeDomain is alive"),
    "alive-on-the-way-back": ({}, (*RUNS, "pod-daemon yes", "recorded unit enabled"), "alive"),
}


@pytest.mark.parametrize(("wish", "said", "message"), REFUSED_BY_THE_NODE.values(), ids=REFUSED_BY_THE_NODE)
def test_imex_change_that_the_node_cannot_make_is_refused(wish, said, message):
    with pytest.raises(HostError, match=message):
        imex.need(goal(wish), found(*said), ())


LISTED = replace(
    tray(),
    nvidia_install=NvidiaInstall(
        loaded="580.95.05", imex_service="enabled", imex_list="ab" * 32, imex_nodes=18, gpu_memory_mode="numa"
    ),
)


COMPARED = {
    "nothing-asked-is-as-it-is": ({}, {}, ("numa", BY_HOST, "ab" * 32, 18)),
    "by-the-dra-driver": ({"mode": "driver-managed"}, {}, ("numa", NOT_BY_HOST, None, None)),
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
    there = planned_tray(LISTED, planned(wish, LISTED, **more))
    assert (there.memory_mode, there.imex, there.nodes, there.nodes_count) == found


def test_machine_outside_a_rack_is_not_a_tray():
    alone = replace(tray(), gpus=tuple(replace(gpu, fabric=None) for gpu in tray().gpus))
    assert planned_tray(alone, planned(HOST, alone)) is None


def test_written_node_list_has_the_planned_checksum(tmp_path):
    root = write_tree(tmp_path, lab_node())
    write(root, imex.NODES, "".join(f"{each}\n" for each in TRAYS))
    assert from_root(root).commands["imex list"] == checksum(TRAYS)
