"""The variables that processes get: all of a node's rails, or those of one GPU, on either kind of network."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from numaforge.lib.errors import PlanError

if TYPE_CHECKING:
    from numaforge.roles.rdma.planned import GpuRail, LibrariesPlan

NETWORKS = ("host", "overlay")

IB_HCA = "NCCL_IB_HCA"
SOCKET_IFNAME = "NCCL_SOCKET_IFNAME"
DMABUF_ENABLE = "NCCL_DMABUF_ENABLE"
UCX_DEVICES = "UCX_NET_DEVICES"
NVSHMEM_MAPPING = "NVSHMEM_ENABLE_NIC_PE_MAPPING"
NVSHMEM_LIST = "NVSHMEM_HCA_LIST"
NVSHMEM_COUNTS = "NVSHMEM_HCA_PE_MAPPING"
VLLM_MAPPING = "VLLM_GPU_NIC_PCIE_MAPPING"
VLLM_VARIABLES = "VLLM_NIC_SELECTION_VARS"


def environment(plan: LibrariesPlan, network: str | None = None, gpu: int | None = None) -> dict[str, str]:
    """Return the variables of a process by name, sorted.

    `network` is "host" or "overlay", None for the plan's. `gpu` is NVML's number, for a process with only
    this GPU. Raises PlanError for a GPU without a known port.
    """
    variables = {**plan.nccl, **plan.variables}
    if (network or plan.network) == "overlay":
        variables[SOCKET_IFNAME] = exactly([plan.overlay_interface])
    if gpu is not None:
        variables = _of_one_gpu(variables, rail_of(plan, gpu))
    return dict(sorted(variables.items()))


def exactly(names: Iterable[str]) -> str:
    """Return NCCL's list of exactly these names; without the sign, mlx5_1 would match mlx5_10, too."""
    return f"={','.join(names)}"


def rail_of(plan: LibrariesPlan, gpu: int) -> GpuRail:
    """Return the ports of a GPU by its number. Raises PlanError where none is known."""
    gpu_rail = next((rail for rail in plan.gpus if rail.gpu == f"GPU{gpu}"), None)
    if gpu_rail is None:
        gpu_numbers = ", ".join(rail.gpu.removeprefix("GPU") for rail in plan.gpus)
        raise PlanError(
            f"no RDMA port is known for GPU {gpu}",
            where="--gpu",
            remedy=f"known here: {gpu_numbers}" if gpu_numbers else "the plan's notices have the reason",
        )
    return gpu_rail


def _of_one_gpu(variables: dict[str, str], rail: GpuRail) -> dict[str, str]:
    ports = ",".join(rail.ports)
    by_worker = variables.get(VLLM_VARIABLES, "")
    remaining = {
        name: value for name, value in variables.items() if name not in (VLLM_MAPPING, VLLM_VARIABLES)
    }
    remaining[IB_HCA] = exactly(rail.ports)
    if UCX_DEVICES in remaining or UCX_DEVICES in by_worker:
        remaining[UCX_DEVICES] = ports
    if remaining.pop(NVSHMEM_COUNTS, None) or NVSHMEM_LIST in remaining or NVSHMEM_LIST in by_worker:
        remaining[NVSHMEM_LIST] = ports
    return remaining
