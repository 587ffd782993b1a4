"""What a host needs of modules, NICs and limits, given what it says of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from numaforge.errors import HostError
from numaforge.node.part import Found, Goal, Look
from numaforge.node.parts import memlock, modules, nics
from numaforge.node.parts.nics import LINKS
from numaforge.planning.model import KernelPlan, ModulesPlan, NicSetting, RdmaHostPlan, RdmaPlan
from numaforge.planning.node import plan_node
from numaforge.profile import load_profile
from tests.fixtures.machines import kubeadm_kubelet, lab_node

OPTION = ModulesPlan(options={"ib_core": ("netns_mode=1",)})
MRRS = NicSetting("0000:17:00.0", "max_read_request", "4096")
TRUST = NicSetting("eth2", "trust", "dscp")


def goal(*, roles: tuple[str, ...] = ("modules", "rdma"), reboot: str = "never", **plans: Any) -> Goal:
    machine = replace(lab_node(), kubelet=kubeadm_kubelet())
    plan = plan_node(machine, load_profile({"memory": {"system_reserved": "512Mi"}}))
    host = RdmaPlan(host=plans.pop("host", RdmaHostPlan()))
    plan = replace(plan, kernel=KernelPlan((), reboot), rdma=host, **plans)
    return Goal(plan, machine, frozenset(roles))


def found(kind: Any, *said: str) -> Found:
    return Found({}, (), said={kind.NAME: said})


@pytest.mark.parametrize("kind", [modules, nics, memlock], ids=lambda kind: kind.NAME)
def test_another_role_asks_and_needs_nothing(kind: Any) -> None:
    other = goal(roles=("tuning",))
    assert kind.look(other) == Look()
    assert kind.need(other, found(kind), ()) is None


@pytest.mark.parametrize(
    ("plan", "said", "load", "unload"),
    [
        pytest.param(ModulesPlan(("a", "b")), ("loaded a",), "b\n", "", id="only-what-is-missing"),
        pytest.param(ModulesPlan(), ("recorded a", "loaded a"), "", "a\n", id="ours-goes"),
        pytest.param(
            ModulesPlan(("a",)), ("recorded a", "recorded b", "needed b"), "a\n", "", id="a-dependency-stays"
        ),
    ],
)
def test_modules_that_come_and_go(plan: ModulesPlan, said: tuple[str, ...], load: str, unload: str) -> None:
    part = modules.need(goal(modules=plan), found(modules, *said), ())
    assert part is not None
    assert (part.data["load"], part.data["unload"]) == (load, unload)


def test_what_is_loaded_already_needs_nothing() -> None:
    assert modules.need(goal(modules=ModulesPlan(("a",))), found(modules, "loaded a"), ()) is None


@pytest.mark.parametrize(
    ("now", "reboot", "late"),
    [
        pytest.param("Y", "allowed", None, id="y-is-1"),
        pytest.param("N", "allowed", "option ib_core netns_mode 1\n", id="a-boot-that-is-allowed"),
        pytest.param("N", "never", None, id="no-leave-to-boot"),
    ],
)
def test_an_option_of_a_loaded_module_waits_for_a_boot(now: str, reboot: str, late: str | None) -> None:
    on, files = goal(modules=OPTION, reboot=reboot), found(modules, f"parameter ib_core netns_mode {now}")
    part = modules.need(on, files, ())
    assert (part.data["late"] if part else None) == late
    assert part is None or (part.reboots and part.drains)
    waits = modules.pending(on, files)
    assert (waits is not None) is (now == "N" and reboot == "never")


def test_an_option_that_the_module_does_not_tell_is_believed() -> None:
    on = goal(modules=ModulesPlan(options={"nvidia": ("NVreg_X=1",)}), reboot="allowed")
    assert modules.need(on, found(modules), ()) is None
    assert modules.pending(on, found(modules)) is None


def test_the_mode_changes_at_once_where_there_is_one_namespace() -> None:
    on = goal(modules=OPTION)
    files = found(modules, "parameter ib_core netns_mode N", "netns free")
    part = modules.need(on, files, ())
    assert part is not None
    assert (part.settings["RDMA_NETNS"], part.reboots) == ("shared", False)
    assert modules.pending(on, files) is None


@pytest.mark.parametrize(
    ("plan", "said", "message"),
    [
        pytest.param(
            ModulesPlan(("a",)), ("absent a",), "a: is planned, and this kernel has no", id="absent"
        ),
        pytest.param(
            ModulesPlan(blocked=("mlx5_core",)),
            ("vital mlx5_core bond0 default-route",),
            "bond0 needs it, which has the default route",
            id="the-default-route",
        ),
        pytest.param(
            ModulesPlan(),
            ("recorded mlx5_core", "loaded mlx5_core", "vital mlx5_core eth0 connection"),
            "is to be unloaded, and eth0 needs it, which has our own connection",
            id="our-own-connection",
        ),
        pytest.param(
            ModulesPlan(blocked=("x",)), ("blind",), "without the program ip", id="it-cannot-be-told"
        ),
    ],
)
def test_what_would_cut_the_host_off_is_refused(
    plan: ModulesPlan, said: tuple[str, ...], message: str
) -> None:
    with pytest.raises(HostError, match=message):
        modules.need(goal(modules=plan), found(modules, *said), ())


def test_a_driver_that_stays_may_be_vital() -> None:
    files = found(modules, "loaded mlx5_core", "vital mlx5_core eth0 connection")
    assert modules.need(goal(modules=ModulesPlan(("mlx5_core",))), files, ()) is None


def values(*lines: str) -> Found:
    enabled = [f"enabled {link}" for path, link in LINKS.items() if "nics" in path]
    return found(nics, *lines, *enabled)


def nic_goal(*settings: NicSetting) -> Goal:
    on = goal(host=RdmaHostPlan(nics=settings))
    planned = next(path for path in LINKS if "nics" in path)
    return replace(on, plan=replace(on.plan, files=(*on.plan.files, replace(on.plan.files[0], path=planned))))


def test_settings_that_are_as_planned_need_nothing() -> None:
    files = values("value 0000:17:00.0 max_read_request 4096")
    assert nics.need(nic_goal(MRRS), files, ()) is None


@pytest.mark.parametrize(
    ("setting", "now", "drains"),
    [pytest.param(MRRS, "512", False, id="read-request"), pytest.param(TRUST, "pcp", True, id="trust")],
)
def test_only_what_ports_hold_needs_the_pods_gone(setting: NicSetting, now: str, drains: bool) -> None:
    part = nics.need(nic_goal(setting), values(f"value {setting.nic} {setting.name} {now}"), ())
    assert part is not None
    assert part.moves == (f"{setting.nic} {setting.name}: {now} -> {setting.value}",)
    assert part.drains is drains


def test_a_setting_without_its_tool_is_said_and_left_alone() -> None:
    files = values("value eth2 trust -")
    assert nics.need(nic_goal(TRUST), files, ()) is None
    assert nics.pending(nic_goal(TRUST), files) == (
        "left alone: trust of eth2, which takes mlnx_qos (DOCA-OFED or mlnx-tools)"
    )


def test_a_nic_that_has_gone_is_refused() -> None:
    with pytest.raises(HostError, match=r"0000:17:00\.0: is planned, and is not there now"):
        nics.need(nic_goal(MRRS), values(), ())


def test_what_is_no_longer_planned_is_put_back() -> None:
    part = nics.need(goal(), found(nics, "recorded eth2 trust pcp"), ())
    assert part is not None
    assert (part.data["planned"], part.data["returned"]) == ("", "eth2 trust pcp\n")


UNITS = RdmaHostPlan(memlock_units=("containerd.service", "kubelet.service"))


@pytest.mark.parametrize(
    ("said", "restarted", "kubelet"),
    [
        pytest.param(("containerd.service loaded infinity infinity",), None, False, id="as-planned"),
        pytest.param(("containerd.service not-found 65536 -",), None, False, id="no-such-unit"),
        pytest.param(
            ("containerd.service loaded infinity 65536",), "containerd.service", False, id="not-restarted-yet"
        ),
        pytest.param(
            ("crio.service loaded infinity infinity",), "crio.service", False, id="no-longer-planned"
        ),
        pytest.param(("kubelet.service loaded 65536 65536",), "", True, id="the-kubelet"),
    ],
)
def test_which_units_restart(said: tuple[str, ...], restarted: str | None, kubelet: bool) -> None:
    part = memlock.need(goal(roles=("rdma", "kubelet"), host=UNITS), found(memlock, *said), ())
    assert (part.settings["MEMLOCK_RUNTIME"] if part else None) == restarted
    assert part is None or part.restarts_kubelet is kubelet


@pytest.mark.parametrize("running", [pytest.param("65536", id="runs"), pytest.param("-", id="stopped")])
def test_the_reload_for_a_limit_needs_the_pods_gone_whether_the_runtime_runs_or_not(running: str) -> None:
    files = found(memlock, f"containerd.service loaded 65536 {running}")
    part = memlock.need(goal(host=UNITS), files, ())
    assert part is not None
    assert part.drains


def test_a_kubelet_that_may_not_restart_is_refused() -> None:
    with pytest.raises(HostError, match=r"deploys/rdma\.py"):
        memlock.need(goal(host=UNITS), found(memlock, "kubelet.service loaded 65536 65536"), ())
