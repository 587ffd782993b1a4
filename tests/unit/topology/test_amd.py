"""What amdgpu shows of its GPUs, and what it does not."""

from __future__ import annotations

import pytest

from numaforge.topology.amd import with_amdgpu
from numaforge.topology.model import Gpu, GpuPartition

ADDRESS = "0000:05:00.0"
BARE = Gpu(ADDRESS, "1002", "74a1", 0)


def read(**files):
    return with_amdgpu(
        BARE, {f"/sys/bus/pci/drivers/amdgpu/{ADDRESS}/{name}": text for name, text in files.items()}
    )


@pytest.mark.parametrize(
    ("files", "partition"),
    [
        pytest.param(
            {
                "current_compute_partition": "CPX",
                "current_memory_partition": "NPS4",
                "available_compute_partition": "SPX, DPX, QPX, CPX",
                "available_memory_partition": "NPS1, NPS4",
            },
            GpuPartition("CPX", "NPS4", ("SPX", "DPX", "QPX", "CPX"), ("NPS1", "NPS4")),
            id="all-of-it",
        ),
        pytest.param(
            {
                "current_compute_partition": "SPX",
                "compute_partition_config/supported_xcp_configs": "SPX, CPX",
            },
            GpuPartition("SPX", None, ("SPX", "CPX")),
            id="available-modes-of-newer-kernels",
        ),
        pytest.param(
            {"current_compute_partition": "UNKNOWN", "available_compute_partition": "SPX, CPX"},
            GpuPartition(None, None, ("SPX", "CPX")),
            id="unknown-is-not-a-mode",
        ),
        pytest.param({"available_compute_partition": "Not supported"}, None, id="cannot-be-partitioned"),
        pytest.param({}, None, id="an-older-gpu-has-no-such-files"),
    ],
)
def test_partitions(files, partition):
    assert read(**files).partition == partition


def test_name_memory_and_hive():
    gpu = read(
        product_name="AMD Instinct MI300X OAM",
        mem_info_vram_total="206141652992",
        **{"xgmi_hive_info/xgmi_hive_id": "5409271046711119660"},
    )
    assert (gpu.name, gpu.memory_bytes, gpu.xgmi_hive) == (
        "AMD Instinct MI300X OAM",
        206141652992,
        "5409271046711119660",
    )


def test_a_hive_of_zero_is_none():
    assert read(**{"xgmi_hive_info/xgmi_hive_id": "0"}).xgmi_hive is None


def test_a_gpu_that_amdgpu_has_not_bound_stays_as_it_was():
    assert read() == BARE
