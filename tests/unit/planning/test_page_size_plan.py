"""The kernel's page size: told by its huge pages, demanded by a profile, never installed."""

from dataclasses import replace

import pytest

from numaforge.machine.topology.model import HugepagePool, NodeTopology
from numaforge.machine.topology.numa import page_size
from numaforge.machine.topology.read import read_topology
from tests.fixtures.machines import machine
from tests.fixtures.plans import decided, notices, planned, refusal
from tests.machines.files import stored

WISH = {"kernel": {"page_size": "64Ki"}}


def arm(*sizes: str, **os_release: str) -> NodeTopology:
    pools = {size: HugepagePool(0, 0) for size in sizes}
    built = machine(cores_per_numa_node=8, threads=1, architecture="aarch64", hugepages=pools)
    return replace(built, os_release=os_release)


PAGE_SIZES = [
    (arm("64Ki", "2Mi", "32Mi", "1Gi"), "4Ki"),
    (arm("2Mi", "32Mi", "1Gi"), "4Ki"),
    (arm("2Mi", "32Mi"), "16Ki"),
    (arm("2Mi", "512Mi", "16Gi"), "64Ki"),
    (arm("2Mi"), None),
    (arm(), None),
    (read_topology(stored("huawei-xa320-kunpeng920").snapshot()), "4Ki"),
    (read_topology(stored("nvidia-dgx-h100").snapshot()), "4Ki"),
    (read_topology(stored("ibm-ac922-power9-6-v100").snapshot()), None),
]


@pytest.mark.parametrize(("topology", "size"), PAGE_SIZES)
def test_page_size_follows_from_the_huge_page_sizes(topology, size):
    assert page_size(topology) == size


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
    message = refusal(arm("64Ki", "2Mi", "1Gi", **release), **WISH)
    assert "has pages of 4Ki, not 64Ki" in message
    assert remedy in message
    assert "only Arm" in refusal(machine(cores_per_numa_node=4), **WISH)


def test_matching_page_size_is_a_decision_and_an_unknown_one_noticed():
    assert decided(planned(arm("2Mi", "512Mi"), **WISH), "kernel.page_size")[0] == "64Ki"
    assert "page-size-unknown" in notices(planned(arm("2Mi"), **WISH))


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
    assert message in refusal(arm(*sizes), **wish)


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
    assert parameter in planned(arm(*sizes), kernel={"cmdline": [parameter]}).kernel.cmdline
