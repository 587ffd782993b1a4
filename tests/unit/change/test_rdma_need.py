"""What a host needs of modules, NICs and limits, given what it says of itself."""

from dataclasses import replace
from typing import Any

import pytest

from numaforge.change.goal import Goal
from numaforge.commands.machine import machine_of
from numaforge.lib.errors import HostError
from numaforge.machine.topology.model import NvidiaInstall
from numaforge.node.bundle import FileState
from numaforge.node.part import NodeState
from numaforge.planning.node import plan_node, with_files
from numaforge.planning.profiles import load_profile
from numaforge.roles.files import part as files
from numaforge.roles.host.memlock import part as memlock
from numaforge.roles.kernel_cmdline.plan import KernelPlan
from numaforge.roles.modules import part as modules
from numaforge.roles.modules.files import MODPROBE_PATH
from numaforge.roles.modules.plan import ModulesPlan
from numaforge.roles.rdma.nics import part as nics
from numaforge.roles.rdma.nics.part import LINKS
from numaforge.roles.rdma.planned import NicSetting, RdmaHostPlan, RdmaPlan
from tests.fixtures.machines import kubeadm_kubelet, lab_node
from tests.fixtures.tables import cases

OPTION = ModulesPlan(options={"ib_core": ("netns_mode=1",)})
MRRS = NicSetting("0000:17:00.0", "max_read_request", "4096")
TRUST = NicSetting("eth2", "trust", "dscp")


def goal(*, roles: tuple[str, ...] = ("modules", "rdma"), reboot: str = "never", **plans: Any) -> Goal:
    machine = replace(lab_node(), kubelet=kubeadm_kubelet())
    plan = plan_node(machine, load_profile({"memory": {"system_reserved": "512Mi"}}))
    host = RdmaPlan(host=plans.pop("host", RdmaHostPlan()))
    plan = replace(plan, kernel=KernelPlan((), reboot), rdma=host, **plans)
    return Goal(plan, machine, frozenset(roles))


def found(kind: Any, *said: str) -> NodeState:
    return NodeState({}, (), said={kind.NAME: said})


@cases(
    "plan, said, load, unload",
    {
        "only-what-is-missing": (ModulesPlan(("a", "b")), ("loaded a",), "b\n", ""),
        "ours-goes": (ModulesPlan(), ("recorded a", "loaded a"), "", "a\n"),
        "a-dependency-stays": (ModulesPlan(("a",)), ("recorded a", "recorded b", "needed b"), "a\n", ""),
    },
)
def test_missing_modules_are_loaded_and_dropped_ones_unloaded(plan, said, load, unload):
    part = modules.need(goal(modules=plan), found(modules, *said), ())
    assert (part.data["load"], part.data["unload"]) == (load, unload)


def test_loaded_module_needs_nothing():
    assert modules.need(goal(modules=ModulesPlan(("a",))), found(modules, "loaded a"), ()) is None


@cases(
    "now, reboot, late",
    {
        "Y is 1": ("Y", "allowed", None),
        "a boot that is allowed": ("N", "allowed", "option ib_core netns_mode 1\n"),
        "no leave to boot": ("N", "never", None),
    },
)
def test_option_of_a_loaded_module_waits_for_a_reboot(now, reboot, late):
    on, files = goal(modules=OPTION, reboot=reboot), found(modules, f"parameter ib_core netns_mode {now}")
    part = modules.need(on, files, ())
    assert (part.data["late"] if part else None) == late
    assert part is None or (part.reboots and part.drains)
    waits = modules.pending(on, files)
    assert (waits is not None) is (now == "N" and reboot == "never")


def told(text: str, *said: str) -> NodeState:
    """Return a node on which an earlier plan has told modprobe something."""
    state = FileState(text, "0644", "root", "root")
    return NodeState({MODPROBE_PATH: state}, (), said={modules.NAME: said})


NOUVEAU = "# header\nblacklist nouveau\ninstall nouveau /bin/false\n"
HIDDEN = ModulesPlan(options={"nvidia": ("NVreg_X=1",)})


def option(value: int) -> str:
    return f"options ib_core netns_mode={value}\n"


LOADED = ("loaded ib_core", "parameter ib_core netns_mode")
BRD = told("options brd rd_nr=2\n", "recorded brd", "loaded brd", "parameter brd rd_nr 2")
LATE, AT_ONCE = "option nvidia NVreg_X 1\n", {"nvidia": ("NVreg_X=1",)}
LOADING = replace(HIDDEN, load=("nvidia",))
VITAL = found(modules, "vital nvidia /data block-device")


@cases(
    "plan, now, late, at_once",
    {
        "a boot has to prove it": (HIDDEN, found(modules, "loaded nvidia"), LATE, {}),
        "what is not told was proved when it was written": (
            HIDDEN,
            told("options nvidia NVreg_X=1\n", "loaded nvidia"),
            None,
            AT_ONCE,
        ),
        "what is so already needs no boot": (
            OPTION,
            found(modules, LOADED[0], f"{LOADED[1]} Y"),
            None,
            {"ib_core": ("netns_mode=1",)},
        ),
        "a module that is loaded now takes it now": (LOADING, found(modules), "", AT_ONCE),
        "but not one that the node stands on": (LOADING, VITAL, LATE, {}),
        "until then the old value stays written": (
            OPTION,
            told(option(0), LOADED[0], f"{LOADED[1]} N"),
            "option ib_core netns_mode 1\n",
            {"ib_core": ("netns_mode=0",)},
        ),
        "an option leaves at a boot too": (
            ModulesPlan(),
            told(option(0), LOADED[0], f"{LOADED[1]} N"),
            "unset ib_core netns_mode\n",
            {"ib_core": ("netns_mode=0",)},
        ),
        "but not one that says what the kernel does by itself": (
            ModulesPlan(),
            told(option(1), LOADED[0], f"{LOADED[1]} Y"),
            None,
            {},
        ),
        "that of a module which is unloaded leaves with it": (ModulesPlan(), BRD, "", {}),
    },
)
def test_modprobe_options_wait_for_a_boot_that_proves_them(plan, now, late, at_once):
    needed = modules.need(goal(modules=plan, reboot="allowed"), now, ())
    assert (needed.data["late"] if needed else None) == late
    assert modules.at_once(goal(modules=plan), now).options == at_once
    assert (modules.pending(goal(modules=plan), now) is not None) is bool(late)


@cases(
    "blocked, now, late, at_once",
    {
        "one that is not loaded too": (("nouveau",), found(modules), "blocked nouveau\n", ()),
        "what a boot has proved stays": (("nouveau",), told(NOUVEAU), None, ("nouveau",)),
        "it is freed by a boot": ((), told(NOUVEAU), "freed nouveau\n", ("nouveau",)),
    },
)
def test_module_is_kept_out_by_a_reboot(blocked, now, late, at_once):
    plan = ModulesPlan(blocked=blocked)
    needed = modules.need(goal(modules=plan, reboot="allowed"), now, ())
    assert (needed.data["late"] if needed else None) == late
    assert modules.at_once(goal(modules=plan), now).blocked == at_once


def written(plan: ModulesPlan, reboot: str, now: NodeState) -> str | None:
    """Return what the part `files` does to what modprobe is told: its lines, "" removed, None untouched."""
    on = goal(roles=("modules",), reboot=reboot, modules=plan)
    on = replace(on, plan=with_files(on.plan))
    part = files.need(on, now, ())
    changes = {change.path: change.new for change in part.changed} if part else {}
    if MODPROBE_PATH not in changes:
        return None
    new = changes[MODPROBE_PATH]
    return "" if new is None else " ".join(new.text.splitlines()[1:])


KEPT_OUT = ModulesPlan(blocked=("nouveau",))


@cases(
    "plan, reboot, now, text",
    {
        "nothing is armed without leave": (KEPT_OUT, "never", found(modules), None),
        "all with leave": (
            KEPT_OUT,
            "allowed",
            found(modules),
            "blacklist nouveau install nouveau /bin/false",
        ),
        "what needs no boot alone": (
            replace(OPTION, blocked=("nouveau",)),
            "never",
            found(modules, LOADED[0], f"{LOADED[1]} 1"),
            option(1).strip(),
        ),
        "what a boot would lose stays": (ModulesPlan(), "never", told(NOUVEAU), None),
        "and goes with leave": (ModulesPlan(), "allowed", told(NOUVEAU), ""),
        "what is unloaded needs no leave": (ModulesPlan(), "never", BRD, ""),
    },
)
def test_modprobe_file_has_boot_changes_only_if_reboot_is_allowed(plan, reboot, now, text):
    assert written(plan, reboot, now) == text


def test_netns_mode_changes_at_once_with_only_one_namespace():
    on = goal(modules=OPTION)
    files = found(modules, "parameter ib_core netns_mode N", "netns free")
    part = modules.need(on, files, ())
    assert (part.settings["RDMA_NETNS"], part.reboots) == ("shared", False)
    assert modules.pending(on, files) is None


@cases(
    "said, message",
    {
        "the default route": ("mlx5_core bond0 default-route", "bond0 needs it, which has the default route"),
        "a file system": ("vfat /boot/efi file-system", "and the file system at /boot/efi needs it"),
        "a disk": ("nvme_core / block-device", "and what / is on needs it"),
        "what containers are made of": ("overlay - containers", "and container runtimes need it"),
        "storage over RDMA": ("mlx5_ib /scratch storage-network", "and /scratch is reached over it"),
    },
)
def test_blocking_a_vital_module_is_refused(said, message):
    plan = ModulesPlan(blocked=(said.split()[0],))
    with pytest.raises(HostError, match=message):
        modules.need(goal(modules=plan), found(modules, f"vital {said}"), ())


OURS = ("recorded mlx5_core", "loaded mlx5_core", "vital mlx5_core eth0 connection")


@cases(
    "plan, said, message",
    {
        "absent": (ModulesPlan(("a",)), ("absent a",), "a: is planned, and this kernel has no"),
        "our own connection": (
            ModulesPlan(),
            OURS,
            "must be unloaded, and eth0 needs it, which has our own connection",
        ),
        "it cannot be told": (ModulesPlan(blocked=("x",)), ("blind",), "without the program ip"),
    },
)
def test_impossible_module_change_is_refused(plan, said, message):
    with pytest.raises(HostError, match=message):
        modules.need(goal(modules=plan), found(modules, *said), ())


def test_unblocked_driver_may_be_vital():
    files = found(modules, "loaded mlx5_core", "vital mlx5_core eth0 connection")
    assert modules.need(goal(modules=ModulesPlan(("mlx5_core",))), files, ()) is None


def values(*lines: str) -> NodeState:
    enabled = [f"enabled {link}" for path, link in LINKS.items() if "nics" in path]
    return found(nics, *lines, *enabled)


def nic_goal(*settings: NicSetting) -> Goal:
    on = goal(host=RdmaHostPlan(nics=settings))
    planned = next(path for path in LINKS if "nics" in path)
    return replace(on, plan=replace(on.plan, files=(*on.plan.files, replace(on.plan.files[0], path=planned))))


def test_settings_as_planned_need_nothing():
    files = values("value 0000:17:00.0 max_read_request 4096")
    assert nics.need(nic_goal(MRRS), files, ()) is None


@cases("setting, now, drains", {"read request": (MRRS, "512", False), "trust": (TRUST, "pcp", True)})
def test_only_settings_held_by_ports_drain_the_node(setting, now, drains):
    part = nics.need(nic_goal(setting), values(f"value {setting.nic} {setting.name} {now}"), ())
    assert part.moves == (f"{setting.nic} {setting.name}: {now} -> {setting.value}",)
    assert part.drains is drains


def test_setting_without_its_tool_is_reported_and_left_unchanged():
    files = values("value eth2 trust -")
    assert nics.need(nic_goal(TRUST), files, ()) is None
    assert nics.pending(nic_goal(TRUST), files) == (
        "left alone: trust of eth2, which takes mlnx_qos (DOCA-OFED or mlnx-tools)"
    )


def test_missing_nic_is_refused():
    with pytest.raises(HostError, match=r"0000:17:00\.0: is planned, and is not there now"):
        nics.need(nic_goal(MRRS), values(), ())


def test_setting_no_longer_planned_is_restored():
    part = nics.need(goal(), found(nics, "recorded eth2 trust pcp"), ())
    assert (part.data["planned"], part.data["returned"]) == ("", "eth2 trust pcp\n")


UNITS = RdmaHostPlan(memlock_units=("containerd.service", "kubelet.service"))


@cases(
    "said, restarted, kubelet",
    {
        "as-planned": (("containerd.service loaded infinity infinity",), None, False),
        "no-such-unit": (("containerd.service not-found 65536 -",), None, False),
        "not-restarted-yet": (("containerd.service loaded infinity 65536",), "containerd.service", False),
        "no-longer-planned": (("crio.service loaded infinity infinity",), "crio.service", False),
        "the-kubelet": (("kubelet.service loaded 65536 65536",), "", True),
    },
)
def test_units_restart_when_their_limit_differs(said, restarted, kubelet):
    part = memlock.need(goal(roles=("rdma", "kubelet"), host=UNITS), found(memlock, *said), ())
    assert (part.settings["MEMLOCK_RUNTIME"] if part else None) == restarted
    assert part is None or part.restarts_kubelet is kubelet


@pytest.mark.parametrize("running", [pytest.param("65536", id="runs"), pytest.param("-", id="stopped")])
def test_limit_reload_needs_a_drain_even_with_a_stopped_runtime(running):
    files = found(memlock, f"containerd.service loaded 65536 {running}")
    part = memlock.need(goal(host=UNITS), files, ())
    assert part.drains


def test_limit_change_without_kubelet_restart_is_refused():
    with pytest.raises(HostError, match=r"deploys/rdma\.py"):
        memlock.need(goal(host=UNITS), found(memlock, "kubelet.service loaded 65536 65536"), ())


MODE = "NVreg_CoherentGPUMemoryMode"


@pytest.mark.parametrize(
    ("driver", "now", "wish", "late"),
    [
        pytest.param("580.95.05", '""', "driver", f"option nvidia {MODE} driver\n", id="580 takes numa"),
        pytest.param("580.95.05", '""', "numa", None, id="what-580-takes-is-pinned-without-a-boot"),
        pytest.param("615.10.01", '""', "driver", None, id="what-615-takes-too"),
        pytest.param("615.10.01", '""', "numa", f"option nvidia {MODE} numa\n", id="615 takes driver"),
        pytest.param("580.95.05", "driver", "driver", None, id="so-already"),
        pytest.param("580.95.05", "driver", "numa", f"option nvidia {MODE} numa\n", id="otherwise"),
        pytest.param("580.95.05", "driver", None, f"unset nvidia {MODE}\n", id="no-longer-pinned"),
        pytest.param("615.10.01", "driver", None, None, id="no-longer-pinned-and-the-same"),
    ],
)
def test_gpu_memory_mode_needs_a_reboot_if_the_driver_has_another(driver, now, wish, late):
    said = None if now == '""' else now
    install = NvidiaInstall(loaded=driver, gpu_memory_mode=said or "")
    machine = replace(machine_of("gb200", None), nvidia_install=install)
    options = {} if wish is None else {"nvidia": (f"{MODE}={wish}",)}
    on = replace(goal(modules=ModulesPlan(options=options), reboot="allowed"), machine=machine)
    held = FileState(f"options nvidia {MODE}=driver\n", "0644", "root", "root")
    there = NodeState(
        {MODPROBE_PATH: held} if wish is None else {},
        (),
        said={modules.NAME: ("loaded nvidia", f"parameter nvidia {MODE} {now}")},
    )
    part = modules.need(on, there, ())
    assert (part and part.data["late"]) == late
