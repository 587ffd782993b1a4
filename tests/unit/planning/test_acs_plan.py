"""What is decided about PCIe access control, and how it reaches the kernel's command line."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.document import dumps, loads
from numaforge.planning.plan import NodePlan
from numaforge.roles.gpudirect import part as pcie_acs
from numaforge.roles.kernel_cmdline import part as kernel_cmdline
from tests.fixtures.machines import two_cpu_vm
from tests.fixtures.pcie import MACHINES, connectx_switches, gb300, hgx_h100, machine_of
from tests.fixtures.plans import after, decided, notices, planned, refusal

OPEN = "xx000x0"
PORTS = ("0000:17:00.0", "0000:17:02.0", "0000:99:00.0", "0000:99:02.0")
CONFIG_ACS = "config_acs=" + ";".join(f"{OPEN}@{port}" for port in PORTS)


def plan(machine: NodeTopology, acs: str = "correct", *cmdline: str, reboot: str = "allowed") -> NodePlan:
    return planned(machine, **wished(acs, *cmdline, reboot=reboot))


def wished(acs: str = "correct", *cmdline: str, reboot: str = "allowed") -> dict[str, Any]:
    kernel, maintenance = {"cmdline": [*cmdline]}, {"reboot": reboot}
    return {"rdma": {"gpudirect": {"acs": acs}}, "kernel": kernel, "maintenance": maintenance}


def noticed(plan: NodePlan) -> set[str]:
    return {name for name in notices(plan) if name.startswith("acs-")}


def running(machine: NodeTopology, *parameters: str, **os_release: str) -> NodeTopology:
    return replace(machine, kernel_cmdline=" ".join(("quiet", *parameters)), os_release=os_release)


@pytest.fixture
def hgx(tmp_path: Path) -> NodeTopology:
    return machine_of(tmp_path, hgx_h100())


def test_only_ports_between_gpus_and_nics_are_set(hgx):
    chosen = plan(hgx)
    assert chosen.acs.masks == dict.fromkeys(PORTS, OPEN)
    assert chosen.acs.bridges == dict.fromkeys(PORTS, "1000:c030")
    assert chosen.kernel.cmdline == (f"pci={CONFIG_ACS}",)
    assert noticed(chosen) == {"acs-addresses"}
    assert loads(dumps(chosen)) == chosen
    kept = plan(hgx, "keep")
    assert (kept.acs.masks, kept.kernel.cmdline, noticed(kept)) == ({}, (), set())


def test_plan_is_unchanged_after_its_own_reboot(tmp_path):
    before, after = (machine_of(tmp_path / str(control), hgx_h100(control)) for control in (0b0011101, 0))
    assert dumps(plan(running(after, f"pci={CONFIG_ACS}"))) == dumps(plan(running(before)))


def test_machine_with_correct_acs_is_not_rebooted(tmp_path):
    chosen = plan(running(machine_of(tmp_path, hgx_h100(0))))
    assert (chosen.acs.masks, chosen.kernel.cmdline) == ({}, ())
    assert decided(chosen, "rdma.gpudirect.acs")[0] == "as it is"


UBUNTU, ROCKY = {"ID": "ubuntu"}, {"ID": "rocky", "ID_LIKE": "rhel centos fedora"}
WHOLE = ("pci=realloc=off,{}",)
MERGED = {
    "with-the-profiles-own": (("pci=realloc=off",), (), {}, WHOLE),
    "beside-others": (("iommu=pt", "pci=realloc=off"), (), {}, ("iommu=pt", *WHOLE)),
    "beside-the-hosts-own": ((), ("pci=realloc=off",), UBUNTU, ("pci={}",)),
    "with-the-hosts-own-where-grubby-keeps-one": ((), ("pci=realloc=off",), ROCKY, WHOLE),
    "after-a-boot": ((), (f"pci=realloc=off,{CONFIG_ACS}",), {"ID": "rhel"}, WHOLE),
}


@pytest.mark.parametrize(("profile", "host", "os_release", "expected"), MERGED.values(), ids=MERGED)
def test_pci_options_are_merged_so_that_the_kernel_applies_all(hgx, profile, host, os_release, expected):
    chosen = plan(running(hgx, *host, **os_release), "correct", *profile)
    assert chosen.kernel.cmdline == tuple(each.format(CONFIG_ACS) for each in expected)


def test_profile_that_also_sets_the_option_is_refused(hgx):
    wish = wished("correct", "pci=config_acs=xx000x0@0000:17:00.0")
    assert "gives config_acs, which" in refusal(hgx, **wish)


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
    chosen = plan(replace(hgx, kernel=kernel, peer_memory=replace(hgx.peer_memory, config_acs=known)))
    assert bool(chosen.kernel.cmdline) is expected
    assert ("acs-kernel" in noticed(chosen)) is not expected


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
    chosen = plan(machine_of(tmp_path, connectx_switches(ats=ats)), acs)
    assert chosen.acs.masks["0000:17:00.0"] == expected


def test_bare_metal_mode_is_refused_for_connectx_8_direct(tmp_path):
    machine = machine_of(tmp_path, gb300())
    assert set(plan(machine).acs.masks.values()) == {"xx110x1", "xx101x1", "xx111x0"}
    assert "bare-metal makes no difference" in refusal(machine, **wished("bare-metal"))


def test_unreadable_acs_keeps_the_setting_of_the_earlier_plan(hgx):
    blind = replace(hgx, pci_functions=tuple(replace(f, access_control=None) for f in hgx.pci_functions))
    fresh = plan(blind)
    assert (fresh.kernel.cmdline, noticed(fresh)) == ((), {"acs-unknown"})
    assert plan(after(blind, plan(hgx))).kernel.cmdline == (f"pci={CONFIG_ACS}",)


def test_machine_without_acs_to_set_is_noticed(hgx):
    guest = replace(hgx, peer_memory=replace(hgx.peer_memory, virtual_machine=True))
    for chosen in (plan(two_cpu_vm()), plan(guest)):
        assert (chosen.kernel.cmdline, noticed(chosen)) == ((), {"acs-not-here"})


def test_acs_change_waits_while_reboots_are_not_allowed(hgx):
    assert "reboot-pending" in notices(plan(running(hgx), reboot="never"))


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_masks_already_set_by_the_kernel_are_left_out(tmp_path, name):
    assert "xx111x1" not in plan(machine_of(tmp_path, MACHINES[name]())).acs.masks.values()


def test_part_checks_each_bridge_and_restores_the_hosts_own_options():
    part = pcie_acs.part({"0000:17:00.0": OPEN}, {"0000:17:00.0": "1000:c030"})
    assert part.data["masks"] == f"0000:17:00.0 1000:c030 {OPEN}\n"
    gone = kernel_cmdline.part((), (), (f"pci=realloc=off,{CONFIG_ACS}", f"pci={CONFIG_ACS}"), "grubby")
    assert gone.data["restored"] == "pci=realloc=off\n"
