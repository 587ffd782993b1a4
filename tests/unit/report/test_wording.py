"""The words that tables and pictures share."""

import pytest

from numaforge.machine.topology.model import Gpu, GpuPartition, Nic, PciLink
from numaforge.report.machine_wording import nic_speed, pcie_link, slices_label
from numaforge.report.wording import human_bytes, wrapped_cpulist


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (None, "unknown"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (537 * 2**20, "537 MiB"),
        (2 * 2**30 - 2**27, "1.9 GiB"),
        (2**40 - 1, "1 TiB"),
        (1536 * 2**40, "1.5 PiB"),
    ],
)
def test_human_bytes(count, expected):
    assert human_bytes(count) == expected


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        pytest.param(None, "", id="unknown"),
        pytest.param(PciLink(32.0, 16, 32.0, 16), "Gen5 x16", id="as good as it gets"),
        pytest.param(PciLink(16.0, 8, 32.0, 16), "Gen4 x8 of Gen5 x16", id="below what it could be"),
        pytest.param(PciLink(None, None, 16.0, 16), "Gen4 x16", id="only the maximum is known"),
    ],
)
def test_pcie_link(link, expected):
    assert pcie_link(link) == expected


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({}, "", id="not-known-to-be-cut"),
        pytest.param({"mig_capable": False}, "no", id="always-whole"),
        pytest.param({"mig_capable": True, "mig_mode": "disabled"}, "MIG off", id="mig-off"),
        pytest.param({"mig_capable": True, "mig_mode": "enabled"}, "MIG on", id="mig-on"),
        pytest.param({"mig_capable": True}, "MIG unknown", id="the-mode-is-not-known"),
        *(
            pytest.param({"partition": GpuPartition(mode, "NPS1")}, label, id=mode.lower())
            for mode, label in {
                "SPX": "SPX NPS1",
                "DPX": "DPX NPS1 x2",
                "TPX": "TPX NPS1 x3",
                "QPX": "QPX NPS1 x4",
                "CPX": "CPX NPS1",
            }.items()
        ),
        pytest.param(
            {"partition": GpuPartition("CPX", "NPS4", count=8)}, "CPX NPS4 x8", id="the-kernel-counts-them"
        ),
        pytest.param({"partition": GpuPartition(None, "NPS4")}, "NPS4", id="amds-mode-is-not-known"),
        pytest.param({"partition": GpuPartition(None, None)}, "unknown", id="amds-modes-are-not-known"),
    ],
)
def test_gpu_partitioning_label(more, expected):
    assert slices_label(Gpu("0000:01:00.0", "10de", "2330", 0, **more)) == expected


def test_rate_is_shown_without_lanes():
    nic = Nic("0000:18:00.0", "ibp24s0", "mlx5_0", "InfiniBand", "400 Gb/sec (4X NDR)", "mlx5_core", 0)
    assert nic_speed(nic) == "InfiniBand 400 Gb/s"


@pytest.mark.parametrize(
    ("cpulist", "width", "expected"),
    [
        pytest.param("0-3", 16, ("0-3",), id="short"),
        pytest.param("0,2,4,6,8", 5, ("0,2,", "4,6,", "8"), id="broken after commas"),
        pytest.param("1000-2000", 4, ("1000-2000",), id="a range is never broken"),
        pytest.param("", 10, (), id="empty"),
    ],
)
def test_wrapped_cpulist(cpulist, width, expected):
    assert wrapped_cpulist(cpulist, width) == expected
