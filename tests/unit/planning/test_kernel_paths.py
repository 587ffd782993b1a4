"""Where the kernel keeps what a plan sets."""

import pytest

from numaforge.roles.hugepages.expected import pool_pages
from numaforge.roles.kernel_values import paths as kernel_values_paths


@pytest.mark.parametrize(
    ("name", "path"),
    [
        pytest.param("vm.swappiness", "/proc/sys/vm/swappiness", id="dots"),
        pytest.param(
            "net/ipv4/conf/eth0.5/rp_filter", "/proc/sys/net/ipv4/conf/eth0.5/rp_filter", id="slashes"
        ),
        pytest.param("net.ipv4.conf.eth0/5.rp_filter", "/proc/sys/net/ipv4/conf/eth0.5/rp_filter", id="both"),
    ],
)
def test_sysctl_has_its_sysctl_d_name(name: str, path: str) -> None:
    assert kernel_values_paths.sysctl(name) == path


@pytest.mark.parametrize(("size", "folder"), [("2Mi", "hugepages-2048kB"), ("1Gi", "hugepages-1048576kB")])
def test_pool_is_named_by_its_page_size_in_kib(size: str, folder: str) -> None:
    assert pool_pages(3, size) == f"/sys/devices/system/node/node3/hugepages/{folder}/nr_hugepages"
