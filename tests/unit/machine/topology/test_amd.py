"""What amdgpu shows of its GPUs, and what it does not."""

from numaforge.machine.topology.amd import partition_names, with_amdgpu
from numaforge.machine.topology.model import Gpu, GpuPartition, RasErrors
from tests.fixtures.tables import cases

ADDRESS = "0000:05:00.0"
BARE = Gpu(ADDRESS, "1002", "74a1", 0)


def read(**files):
    return with_amdgpu(
        BARE, {f"/sys/bus/pci/drivers/amdgpu/{ADDRESS}/{name}": text for name, text in files.items()}
    )


@cases(
    "files, partition",
    {
        "all-of-it": (
            {
                "current_compute_partition": "CPX",
                "current_memory_partition": "NPS4",
                "available_compute_partition": "SPX, DPX, QPX, CPX",
                "available_memory_partition": "NPS1, NPS4",
            },
            GpuPartition("CPX", "NPS4", ("SPX", "DPX", "QPX", "CPX"), ("NPS1", "NPS4")),
        ),
        "available-modes-of-newer-kernels": (
            {
                "current_compute_partition": "SPX",
                "compute_partition_config/supported_xcp_configs": "SPX, CPX",
            },
            GpuPartition("SPX", None, ("SPX", "CPX")),
        ),
        "unknown-is-not-a-mode": (
            {"current_compute_partition": "UNKNOWN", "available_compute_partition": "SPX, CPX"},
            GpuPartition(None, None, ("SPX", "CPX")),
        ),
        "memory-modes-of-the-compute-mode-that-was-asked-for": (
            {
                "current_compute_partition": "SPX",
                "compute_partition_config/xcp_config": "CPX",
                "compute_partition_config/supported_nps_configs": "NPS1, NPS4",
            },
            GpuPartition("SPX", None, memory_of={"CPX": ("NPS1", "NPS4")}),
        ),
        "cannot-be-partitioned": ({"available_compute_partition": "Not supported"}, None),
        "an-older-gpu-has-no-such-files": ({}, None),
    },
)
def test_gpu_partition_is_read(files, partition):
    assert read(**files).partition == partition


GIB = 2**30
IN_FUNCTION, IN_FRONT = 1, 2**28  # where a partition's number stands, by the kernel's release


def node(number, location, *, domain=0, simds=152, size=24 * GIB):
    """Return the files of a compute node; one without SIMDs is a CPU."""
    folder = f"/sys/devices/virtual/kfd/kfd/topology/nodes/{number}"
    return {
        f"{folder}/properties": f"simd_count {simds}\nlocation_id {location}\ndomain {domain}",
        f"{folder}/mem_banks/0/properties": f"heap_type 1\nsize_in_bytes {size}\nflags 0",
    }


def cut(count, step, **more):
    """Return the nodes of a CPU, of this GPU's partitions and of another GPU."""
    found = node(0, 0, simds=0) | node(99, 0x600)
    for number in range(count):
        found |= node(1 + number, 0x500 + number * step, **more)
    return found


@cases(
    "mode, nodes, found",
    {
        "one-per-die": ("CPX", cut(8, IN_FRONT), (8, 24 * GIB)),
        "an-MI300A-has-six": ("CPX", cut(6, IN_FRONT), (6, 24 * GIB)),
        "numbered-as-functions": ("CPX", cut(8, IN_FUNCTION), (8, 24 * GIB)),
        "whole": ("SPX", cut(1, 0, size=192 * GIB), (1, 192 * GIB)),
        "unlike-ones": ("DPX", cut(2, IN_FRONT) | node(2, 0x500 + 2**28, size=7), (2, None)),
        "not-as-many-as-the-mode-has": ("QPX", cut(8, IN_FRONT), (None, None)),
        "of-another-PCI-domain": ("CPX", cut(8, IN_FRONT, domain=1), (None, None)),
        "no-such-kernel": ("CPX", {}, (None, None)),
    },
)
def test_partitions_are_counted_by_compute_nodes(mode, nodes, found):
    files = {f"/sys/bus/pci/drivers/amdgpu/{ADDRESS}/current_compute_partition": mode}
    partition = with_amdgpu(BARE, files | nodes).partition
    assert (partition.count, partition.memory_bytes) == found


def test_partitions_are_counted_without_a_mode_name():
    assert with_amdgpu(BARE, cut(8, IN_FRONT)).partition == GpuPartition(
        None, None, count=8, memory_bytes=24 * GIB
    )


def test_gpu_with_one_compute_node_does_not_count_as_partitionable():
    assert with_amdgpu(BARE, cut(1, 0)).partition is None


def test_name_memory_and_hive_are_read():
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


def test_xgmi_hive_of_zero_means_no_hive():
    assert read(**{"xgmi_hive_info/xgmi_hive_id": "0"}).xgmi_hive is None


def test_gpu_without_amdgpu_driver_stays_unchanged():
    assert read() == BARE


@cases(
    "present, named",
    {
        "underscores": ("/sys/devices/platform/amdgpu_xcp_29 /etc/cdi/a.yaml", "amdgpu_xcp_"),
        "dots": ("/sys/devices/platform/amdgpu_xcp.0", "amdgpu_xcp."),
        "both": ("/sys/devices/platform/amdgpu_xcp_1 /sys/devices/platform/amdgpu_xcp.2", None),
        "none": ("", None),
    },
)
def test_partition_names_are_read(present, named):
    assert partition_names(present) == named


def test_driver_error_counts_are_read():
    texts = {"ras/umc_err_count": "ue: 2\nce: 17\nde: 0\n", "ras/gfx_err_count": "query failed\n"}
    assert read(**texts).ras == (RasErrors("umc", 2, 17),)
