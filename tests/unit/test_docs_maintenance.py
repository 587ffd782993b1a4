"""docs/maintenance.md describes the parts, the outcomes and the paths that there are."""

import re

import pytest
import yaml

from lab.paths import REPOSITORY
from numaforge.change import transaction
from numaforge.change.parts import PARTS
from numaforge.machine.topology.model import Gpu
from numaforge.planning.profiles import load_profile
from numaforge.roles.amd_partitions import part as amd_partitions
from numaforge.roles.amd_partitions.instance import AmdGpu
from numaforge.roles.cpus.slices import part as system
from numaforge.roles.crio import part as crio
from numaforge.roles.files import part as files
from numaforge.roles.gpudirect import part as pcie_acs
from numaforge.roles.host import part as packages
from numaforge.roles.host.memlock import part as memlock
from numaforge.roles.hugepages import part as hugepages
from numaforge.roles.imex import part as imex
from numaforge.roles.imex.plan import ImexPlan
from numaforge.roles.interrupts import part as interrupts
from numaforge.roles.interrupts.plan import InterruptsPlan
from numaforge.roles.kernel_cmdline import part as kernel_cmdline
from numaforge.roles.kernel_values import part as kernel_values
from numaforge.roles.kernel_values.paths import online
from numaforge.roles.kubelet import part as kubelet
from numaforge.roles.mig import part as mig
from numaforge.roles.mig.instance import MigGpu
from numaforge.roles.mig.mode import part as mig_mode
from numaforge.roles.modules import part as modules
from numaforge.roles.rdma.nics import part as nics
from numaforge.roles.rdma.planned import NicSetting
from numaforge.roles.reboot import part as reboot
from numaforge.roles.watch import part as watch

PAGE = (REPOSITORY / "docs" / "maintenance.md").read_text(encoding="utf-8")
SHELL = "".join(path.read_text() for path in (REPOSITORY / "src/numaforge/node").glob("*.sh"))

# Each part in every form that decides whether pods have to be gone for it.
FORMS = {
    "files": [files.part([])],
    "packages": [packages.part("apt", ["kubelet"], [], ["kubelet"])],
    "kernel_cmdline": [kernel_cmdline.part(["iommu=pt"], ["iommu=pt"], [], "grub")],
    "modules": [modules.part(["ib_umad"], []), modules.part([], [], ["blocked nouveau"])],
    "nics": [nics.part([NicSetting("eth2", name, "3")]) for name in ("pfc", "max_read_request")],
    "crio": [crio.part(there=True, drains=drains) for drains in (True, False)],
    "memlock": [memlock.part([], [], runs=runs) for runs in (True, False)],
    "mig_mode": [mig_mode.part([], [])],
    "reboot": [reboot.part()],
    "pcie_acs": [pcie_acs.part({}, {})],
    "kernel_values": [kernel_values.part(values, {online(8): "1"}) for values in ({}, {online(8): "0"})],
    "interrupts": [interrupts.part(InterruptsPlan(), [])],
    "system": [system.part({}, {}, {})],
    "mig": [
        mig.part([], []),
        mig.part(
            [MigGpu("0000:1b:00.0", None, "disabled")],
            [Gpu("0000:1b:00.0", "10de", "2330", 0, mig_mode="enabled", gpu_instances=())],
        ),
    ],
    "amd_partitions": [
        amd_partitions.part([], []),
        amd_partitions.part([AmdGpu("0000:05:00.0", "CPX", "NPS4")], [AmdGpu("0000:05:00.0", "SPX", "NPS1")]),
    ],
    "imex": [imex.part(plan, {}) for plan in (ImexPlan(), ImexPlan("driver-managed"))],
    "hugepages": [hugepages.part({}, {})],
    "kubelet": [kubelet.part("kubelet.service", restart=restart) for restart in (True, False)],
    "watch": [watch.part((), watches=watches, leaves=not watches) for watches in (True, False)],
}


def table(heading: str) -> list[list[str]]:
    """Return the rows of the first table below a heading."""
    section = PAGE.partition(f"\n{heading}\n")[2]
    rows = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    return [line.strip("| ").split(" | ") for line in rows[0].splitlines()[2:]]


ROWS = {row[0].strip("`"): row for row in table("## The parts")}


def test_page_lists_every_part_in_maintenance_order():
    assert list(ROWS) == [part.name for part in PARTS]


@pytest.mark.parametrize("name", ROWS)
def test_row_states_whether_pods_must_leave(name):
    said = {"no": {False}, "yes": {True}}.get(ROWS[name][2], {True, False})
    assert {part.drains for part in FORMS[name]} == said


@pytest.mark.parametrize("name", ROWS)
def test_part_that_needs_a_reboot_is_marked(name):
    assert ROWS[name][3] == "yes" or not any(part.reboots for part in FORMS[name])


def test_every_transaction_outcome_is_explained():
    outcomes = set(re.findall(r"\b(?:finish |ended_as=)([a-z]+(?:-[a-z]+)*)\b", SHELL))
    assert {row[0].strip("`") for row in table("## The transaction")} == outcomes


PATHS = (
    transaction.TRANSACTIONS,
    transaction.CURRENT,
    transaction.BOOT_UNIT,
    kernel_cmdline.RECORD,
    kernel_cmdline.DROP_IN,
)


@pytest.mark.parametrize("path", PATHS)
def test_every_path_written_is_named_on_the_page(path):
    assert path in PAGE


def test_the_profile_on_the_page_lets_a_node_reboot():
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    profile = load_profile(yaml.safe_load(block))
    assert profile.maintenance.reboot == "allowed"
    assert profile.kernel.cmdline


def test_the_page_shows_the_roles_of_site_py():
    site = (REPOSITORY / "deploys" / "site.py").read_text(encoding="utf-8")
    shown = site[site.index("topology()\n") :]
    assert f"```python\n{shown}```\n" in PAGE
