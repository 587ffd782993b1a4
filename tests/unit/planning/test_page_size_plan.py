"""The kernel's page size: told by its huge pages, demanded by a profile, never installed."""

import re
from dataclasses import replace

import pytest

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import HugepagePool, NodeTopology
from numaforge.machine.topology.page_size import page_size
from numaforge.machine.topology.read import read_topology
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from tests.fixtures.machines import machine
from tests.machines.files import stored

WISH = load_profile({"kernel": {"page_size": "64Ki"}})


def arm(*sizes: str, **os_release: str) -> NodeTopology:
    pools = {size: HugepagePool(0, 0) for size in sizes}
    built = machine(cores_per_numa_node=8, threads=1, architecture="aarch64", hugepages=pools)
    return replace(built, os_release=os_release)


@pytest.mark.parametrize(
    ("sizes", "size"),
    [
        (("64Ki", "2Mi", "32Mi", "1Gi"), "4Ki"),
        (("2Mi", "32Mi", "1Gi"), "4Ki"),
        (("2Mi", "32Mi"), "16Ki"),
        (("2Mi", "512Mi", "16Gi"), "64Ki"),
        (("2Mi",), None),
        ((), None),
    ],
)
def test_arm_page_size_follows_from_its_huge_page_sizes(sizes, size):
    assert page_size(arm(*sizes)) == size


@pytest.mark.parametrize(
    ("name", "size"),
    [("huawei-xa320-kunpeng920", "4Ki"), ("nvidia-dgx-h100", "4Ki"), ("ibm-ac922-power9-6-v100", None)],
)
def test_page_size_is_read_from_captures(name, size):
    assert page_size(read_topology(stored(name).snapshot())) == size


@pytest.mark.parametrize(
    ("release", "remedy"),
    [
        pytest.param({"ID": "ubuntu"}, "linux-nvidia-64k", id="ubuntu"),
        pytest.param({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, "package kernel-64k ", id="rhel"),
        pytest.param({"ID": "sles"}, "kernel-64kb", id="sles"),
        pytest.param({"ID": "arch"}, "a kernel with pages of 64Ki", id="another"),
    ],
)
def test_other_page_size_is_refused_with_the_package(release, remedy):
    with pytest.raises(PlanError, match="has pages of 4Ki, not 64Ki") as refused:
        plan_node(arm("64Ki", "2Mi", "1Gi", **release), WISH)
    assert remedy in (refused.value.remedy or "")


def test_other_page_size_on_x86_is_refused():
    with pytest.raises(PlanError) as refused:
        plan_node(machine(cores_per_numa_node=4), WISH)
    assert "only Arm" in (refused.value.remedy or "")


def test_matching_page_size_is_a_decision():
    decisions = {each.subject: each.value for each in plan_node(arm("2Mi", "512Mi"), WISH).decisions}
    assert decisions["kernel.page_size"] == "64Ki"


def test_unknown_page_size_is_noticed():
    assert "page-size-unknown" in {notice.id for notice in plan_node(arm("2Mi"), WISH).notices}


SMALL, LARGE = ("64Ki", "2Mi", "32Mi", "1Gi"), ("2Mi", "512Mi", "16Gi")


MISSING_SIZES = {
    "a-default-of-1G-on-64Ki": (
        LARGE,
        {"kernel": {"cmdline": ["default_hugepagesz=1G"]}},
        "default_hugepagesz=1G, and this kernel, with pages of 64Ki, has huge pages of 2Mi, 512Mi, 16Gi",
    ),
    "a-default-of-512M-on-4Ki": (
        SMALL,
        {"kernel": {"cmdline": ["default_hugepagesz=512M"]}},
        "this kernel, with pages of 4Ki, has huge pages of 64Ki, 2Mi, 32Mi, 1Gi",
    ),
    "a-pool-of-1Gi-on-64Ki": (
        LARGE,
        {"hugepages": [{"size": "1Gi", "count": 2}]},
        "no pool for pages of 1Gi: its kernel has pages of 64Ki",
    ),
}


@pytest.mark.parametrize(("sizes", "wish", "message"), MISSING_SIZES.values(), ids=MISSING_SIZES)
def test_huge_page_sizes_missing_at_this_page_size_are_refused(sizes, wish, message):
    with pytest.raises(PlanError, match=re.escape(message)):
        plan_node(arm(*sizes), load_profile(wish))


@pytest.mark.parametrize(
    ("sizes", "parameter"),
    [
        pytest.param(LARGE, "default_hugepagesz=512M", id="its-own-default"),
        pytest.param(LARGE, "default_hugepagesz=16G", id="its-largest"),
        pytest.param(SMALL, "default_hugepagesz=1G", id="1G-on-4Ki"),
        pytest.param((), "default_hugepagesz=1G", id="sizes-that-were-not-captured"),
    ],
)
def test_existing_default_huge_page_size_is_planned(sizes, parameter):
    plan = plan_node(arm(*sizes), load_profile({"kernel": {"cmdline": [parameter]}}))
    assert parameter in plan.kernel.cmdline
