"""What is decided about PCIe access control, and how it reaches the kernel's command line."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.document import dumps, loads
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile
from numaforge.roles.gpudirect import part as pcie_acs
from numaforge.roles.kernel_cmdline import part as kernel_cmdline
from tests.fixtures.machines import two_cpu_vm
from tests.fixtures.pcie import MACHINES, connectx_switches, gb300, hgx_h100, machine_of

OPEN = "xx000x0"
PORTS = ("0000:17:00.0", "0000:17:02.0", "0000:99:00.0", "0000:99:02.0")
CONFIG_ACS = "config_acs=" + ";".join(f"{OPEN}@{port}" for port in PORTS)


def planned(machine: NodeTopology, acs: str = "correct", *cmdline: str, reboot: str = "allowed") -> NodePlan:
    wish: dict[str, Any] = {"name": "t", "rdma": {"gpudirect": {"acs": acs}}}
    return plan_node(
        machine,
        load_profile({**wish, "kernel": {"cmdline": [*cmdline]}, "maintenance": {"reboot": reboot}}),
    )


def running(machine: NodeTopology, *parameters: str, **os_release: str) -> NodeTopology:
    return replace(machine, kernel_cmdline=" ".join(("quiet", *parameters)), os_release=os_release)


def notices(plan: NodePlan) -> set[str]:
    return {notice.id for notice in plan.notices if notice.id.startswith("acs-")}


@pytest.fixture
def hgx(tmp_path: Path) -> NodeTopology:
    return machine_of(tmp_path, hgx_h100())


def test_only_ports_between_gpus_and_nics_are_set(hgx):
    plan = planned(hgx)
    assert plan.acs.masks == dict.fromkeys(PORTS, OPEN)
    assert plan.acs.bridges == dict.fromkeys(PORTS, "1000:c030")
    assert plan.kernel.cmdline == (f"pci={CONFIG_ACS}",)
    assert notices(plan) == {"acs-addresses"}
    assert loads(dumps(plan)) == plan


def test_acs_is_left_unchanged_by_default(hgx):
    plan = planned(hgx, "keep")
    assert (plan.acs.masks, plan.kernel.cmdline, notices(plan)) == ({}, (), set())


def test_plan_is_unchanged_after_its_own_reboot(tmp_path):
    before, after = (machine_of(tmp_path / str(control), hgx_h100(control)) for control in (0b0011101, 0))
    told = dumps(planned(running(before)))
    assert dumps(planned(running(after, f"pci={CONFIG_ACS}"))) == told


def test_machine_with_correct_acs_is_not_rebooted(tmp_path):
    plan = planned(running(machine_of(tmp_path, hgx_h100(0))))
    assert (plan.acs.masks, plan.kernel.cmdline) == ({}, ())
    assert [each.value for each in plan.decisions if each.subject == "rdma.gpudirect.acs"] == ["as it is"]


@pytest.mark.parametrize(
    ("profile", "host", "os_release", "expected"),
    [
        pytest.param(("pci=realloc=off",), (), {}, ("pci=realloc=off,{}",), id="with-the-profiles-own"),
        pytest.param(
            ("iommu=pt", "pci=realloc=off"), (), {}, ("iommu=pt", "pci=realloc=off,{}"), id="beside-others"
        ),
        pytest.param((), ("pci=realloc=off",), {"ID": "ubuntu"}, ("pci={}",), id="beside-the-hosts-own"),
        pytest.param(
            (), ("pci=realloc=off",), {"ID": "rocky", "ID_LIKE": "rhel centos fedora"},
            ("pci=realloc=off,{}",), id="with-the-hosts-own-where-grubby-keeps-one",
        ),
        pytest.param(
            (), (f"pci=realloc=off,{CONFIG_ACS}",), {"ID": "rhel"}, ("pci=realloc=off,{}",), id="after-a-boot"
        ),
    ],
)  # fmt: skip
def test_pci_options_are_merged_so_that_the_kernel_applies_all(hgx, profile, host, os_release, expected):
    plan = planned(running(hgx, *host, **os_release), "correct", *profile)
    assert plan.kernel.cmdline == tuple(each.format(CONFIG_ACS) for each in expected)


def test_profile_that_also_sets_the_option_is_refused(hgx):
    with pytest.raises(PlanError, match="gives config_acs, which"):
        planned(hgx, "correct", "pci=config_acs=xx000x0@0000:17:00.0")


@pytest.mark.parametrize(
    ("known", "kernel", "expected"),
    [
        pytest.param(True, "6.8.0-1030-nvidia", True, id="a-backport"),
        pytest.param(False, "6.14.0", False, id="a-kernel-that-has-it-no-more"),
        pytest.param(None, "6.11.0", True, id="new-enough"),
        pytest.param(None, "6.8.0", False, id="too-old"),
        pytest.param(None, None, False, id="not-known"),
    ],
)
def test_acs_parameter_is_left_out_on_kernels_without_support(hgx, known, kernel, expected):
    host = replace(hgx, kernel=kernel, peer_memory=replace(hgx.peer_memory, config_acs=known))
    plan = planned(host)
    assert bool(plan.kernel.cmdline) is expected
    assert ("acs-kernel" in notices(plan)) is not expected


@pytest.mark.parametrize(
    ("ats", "acs", "expected"),
    [
        pytest.param(False, "correct", OPEN, id="bare-metal-by-itself"),
        pytest.param(True, "correct", "1x111x1", id="guests-where-nics-translate"),
        pytest.param(True, "bare-metal", OPEN, id="bare-metal-as-said"),
        pytest.param(False, "virtual-machines", "1x111x1", id="guests-as-said"),
    ],
)
def test_acs_masks_follow_the_purpose_of_the_machine(tmp_path, ats, acs, expected):
    plan = planned(machine_of(tmp_path, connectx_switches(ats=ats)), acs)
    assert plan.acs.masks["0000:17:00.0"] == expected


def test_bare_metal_mode_is_refused_for_connectx_8_direct(tmp_path):
    machine = machine_of(tmp_path, gb300())
    assert set(planned(machine).acs.masks.values()) == {"xx110x1", "xx101x1", "xx111x0"}
    with pytest.raises(PlanError, match="bare-metal makes no difference"):
        planned(machine, "bare-metal")


def test_unreadable_acs_keeps_the_setting_of_the_earlier_plan(hgx):
    blind = replace(hgx, pci_functions=tuple(replace(f, access_control=None) for f in hgx.pci_functions))
    fresh = planned(blind)
    assert (fresh.kernel.cmdline, notices(fresh)) == ((), {"acs-unknown"})
    kept = planned(replace(blind, previous_plan=dumps(planned(hgx))))
    assert kept.kernel.cmdline == (f"pci={CONFIG_ACS}",)


@pytest.mark.parametrize(
    "machine", [pytest.param(two_cpu_vm, id="no-gpu"), pytest.param(None, id="in-a-guest")]
)
def test_machine_without_acs_to_set_is_noticed(hgx, machine):
    guest = replace(hgx, peer_memory=replace(hgx.peer_memory, virtual_machine=True))
    plan = planned(machine() if machine else guest)
    assert (plan.kernel.cmdline, notices(plan)) == ((), {"acs-not-here"})


def test_acs_change_waits_while_reboots_are_not_allowed(hgx):
    plan = planned(running(hgx), reboot="never")
    assert "reboot-pending" in {notice.id for notice in plan.notices}


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_masks_already_set_by_the_kernel_are_left_out(tmp_path, name):
    assert "xx111x1" not in planned(machine_of(tmp_path, MACHINES[name]())).acs.masks.values()


def test_part_checks_each_bridge_and_restores_the_hosts_own_options():
    part = pcie_acs.part({"0000:17:00.0": OPEN}, {"0000:17:00.0": "1000:c030"})
    assert part.data["masks"] == f"0000:17:00.0 1000:c030 {OPEN}\n"
    gone = kernel_cmdline.part((), (), (f"pci=realloc=off,{CONFIG_ACS}", f"pci={CONFIG_ACS}"), "grubby")
    assert gone.data["restored"] == "pci=realloc=off\n"
