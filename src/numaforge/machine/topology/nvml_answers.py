"""The shape of NVML's answers (snapshot/nvml_probe.py), checked before they are read."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from numaforge.lib.errors import TopologyError
from numaforge.lib.mistakes import dotted, path_of, sentence


class _NvmlPart(BaseModel):
    model_config = ConfigDict(defer_build=True)  # one validator is made, that of all answers


class _OfferAnswer(_NvmlPart):
    id: int
    name: str | None
    slices: int
    limit: int
    memory_mib: int
    starts: list[int]
    size: int | None


class _InstanceAnswer(_NvmlPart):
    id: int
    profile: int
    start: Annotated[int, Field(ge=0)]
    size: Annotated[int, Field(ge=1)]


class _MigDeviceAnswer(_NvmlPart):
    gpu_instance: int | None
    compute_instance: int | None
    uuid: str | None
    slices: int | None


class _GpuAnswers(_NvmlPart):
    """What was asked of one GPU; a question that the driver did not answer has null."""

    index: int | None = None
    unanswered: str | None = None
    pci_address: str | None = None
    pci_device_id: int | None = None
    pci_subsystem_id: int | None = None
    memory_bytes: int | None = None
    minor: int | None = None
    uuid: str | None = None
    name: str | None = None
    architecture: int | None = None
    compute_capability: list[int] | None = None
    persistence: int | None = None
    ecc_mode: Annotated[list[int], Field(min_length=2, max_length=2)] | None = None
    ecc_uncorrected: Annotated[list[int | None], Field(min_length=2, max_length=2)] | None = None
    remapped_rows: Annotated[list[int], Field(min_length=4, max_length=4)] | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_max_generation: int | None = None
    pcie_max_width: int | None = None
    virtualization: int | None = None
    addressing_mode: int | None = None
    memory_numa_node: int | None = None
    gsp_firmware: str | None = None
    vbios: str | None = None
    max_mig_devices: int | None = None
    recovery_action: int | None = None
    processes: list[Annotated[list[int], Field(min_length=3, max_length=3)]] | None = None
    nvlinks: int | None = None
    nvlink_peers: dict[str, int] | None = None
    fabric: str | None = None
    fabric_state: int | None = None
    fabric_status: str | None = None
    fabric_health_mask: int | None = None
    mig_capable: bool | None = None
    mig_current: bool | None = None
    mig_pending: bool | None = None
    mig_profiles: list[_OfferAnswer] | None = None
    gpu_instances: list[_InstanceAnswer] | None = None
    mig_devices: list[_MigDeviceAnswer] | None = None


class _NvmlAnswers(_NvmlPart):
    error: str | None = None
    driver_version: str | None = None
    nvml_version: str | None = None
    cuda_version: int | None = None
    confidential_computing: Annotated[list[int], Field(min_length=3, max_length=3)] | None = None
    gpus: list[_GpuAnswers] = []


def check_answers(nvml: Mapping[str, Any]) -> None:
    """Raise TopologyError with the place of the first answer of the wrong kind."""
    try:
        _NvmlAnswers.model_validate(nvml, strict=True)
    except ValidationError as invalid:
        detail = invalid.errors(include_url=False)[0]
        raise TopologyError(sentence(detail), where=f"nvml.{dotted(path_of(detail))}") from invalid
