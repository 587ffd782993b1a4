"""Ask NVML about every GPU; sent to hosts, where it runs on the standard library and pynvml alone.

Numbers stay NVML's own; the reader of a snapshot interprets them. Functions are named in full, because pynvml
is cut down to the names that stand here.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

MOST_INSTANCES = 32

# The answers of one call, unchanged.
PLAIN = {
    "minor": "nvmlDeviceGetMinorNumber",
    "uuid": "nvmlDeviceGetUUID",
    "name": "nvmlDeviceGetName",
    "architecture": "nvmlDeviceGetArchitecture",
    "compute_capability": "nvmlDeviceGetCudaComputeCapability",
    "persistence": "nvmlDeviceGetPersistenceMode",
    "ecc_mode": "nvmlDeviceGetEccMode",
    "remapped_rows": "nvmlDeviceGetRemappedRows",
    "pcie_generation": "nvmlDeviceGetCurrPcieLinkGeneration",
    "pcie_width": "nvmlDeviceGetCurrPcieLinkWidth",
    "pcie_max_generation": "nvmlDeviceGetMaxPcieLinkGeneration",
    "pcie_max_width": "nvmlDeviceGetMaxPcieLinkWidth",
    "virtualization": "nvmlDeviceGetVirtualizationMode",
    "addressing_mode": "nvmlDeviceGetAddressingMode",
    "memory_numa_node": "nvmlDeviceGetNumaNodeId",
    "gsp_firmware": "nvmlDeviceGetGspFirmwareVersion",
    "vbios": "nvmlDeviceGetVbiosVersion",
    "max_mig_devices": "nvmlDeviceGetMaxMigDeviceCount",
}

# The newest version first: a driver without its symbol has the older one.
PROCESSES = (
    ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
    ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"),
    ("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2"),
)


def answers(nvml: ModuleType) -> dict[str, Any]:
    """Return NVML's answers as plain JSON data, None for a missing one; "error" is why it did not start."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError_FunctionNotFound:
        raise  # older than the binding: nvidia-smi, which came with the driver, knows it
    except nvml.NVMLError as error:
        return {"error": str(error), "gpus": []}
    probe = _Probe(nvml)
    try:
        state = probe.ask("nvmlSystemGetConfComputeState")
        return {
            "driver_version": probe.ask("nvmlSystemGetDriverVersion"),
            "nvml_version": probe.ask("nvmlSystemGetNVMLVersion"),
            "cuda_version": probe.ask("nvmlSystemGetCudaDriverVersion"),
            "confidential_computing": state and [state.environment, state.ccFeature, state.devToolsMode],
            "gpus": [probe.gpu(index) for index in range(nvml.nvmlDeviceGetCount())],
            "pids": sorted(probe.pids),
        }
    finally:
        nvml.nvmlShutdown()


class _Probe:
    def __init__(self, nvml: ModuleType) -> None:
        self.nvml = nvml
        self.trouble: str | None = None  # why the GPU at hand has stopped answering
        self.offers: dict[Any, list[dict[str, Any]]] = {}
        self.pids: set[int] = set()

    def ask(self, question: str, *arguments: Any) -> Any:
        try:
            answer = getattr(self.nvml, question)(*arguments)
        except (self.nvml.NVMLError_GpuIsLost, self.nvml.NVMLError_ResetRequired) as error:
            self.trouble = str(error)
            return None
        except self.nvml.NVMLError:
            return None
        return answer.decode("ascii", "replace") if isinstance(answer, bytes) else answer

    def gpu(self, index: int) -> dict[str, Any]:
        self.trouble = None
        try:
            device = self.nvml.nvmlDeviceGetHandleByIndex(index)
            pci = self.nvml.nvmlDeviceGetPciInfo(device)
        except self.nvml.NVMLError as error:
            return {"index": index, "unanswered": str(error)}
        memory = self.ask("nvmlDeviceGetMemoryInfo", device)
        answers = {
            "index": index,
            "pci_address": str(pci.busId),
            "pci_device_id": pci.pciDeviceId,
            "pci_subsystem_id": pci.pciSubSystemId,
            "memory_bytes": memory and memory.total,
            **{name: self.ask(question, device) for name, question in PLAIN.items()},
            "ecc_uncorrected": self.uncorrected(device),
            "recovery_action": self.recovery_action(device),
            "processes": self.processes(device),
            **self.nvlinks(device),
            **self.fabric(device),
        }
        answers.update(self.mig(device, answers))
        return {**answers, "unanswered": self.trouble}

    def uncorrected(self, device: Any) -> list[int | None]:
        """Return the uncorrected errors since the driver was loaded, and ever."""
        counters = (self.nvml.NVML_VOLATILE_ECC, self.nvml.NVML_AGGREGATE_ECC)
        kind = self.nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
        return [self.ask("nvmlDeviceGetTotalEccErrors", device, kind, counter) for counter in counters]

    def recovery_action(self, device: Any) -> int | None:
        field = self.nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
        values = self.ask("nvmlDeviceGetFieldValues", device, [field])
        return values[0].value.uiVal if values and values[0].nvmlReturn == self.nvml.NVML_SUCCESS else None

    def processes(self, device: Any) -> list[list[int]]:
        """Return process id, GPU instance and compute instance of each; the largest number is no instance."""
        triples: set[tuple[int, int, int]] = set()
        for questions in PROCESSES:
            answered = (self.ask(question, device) for question in questions)
            running = next((answer for answer in answered if answer is not None), ())
            triples.update((one.pid, one.gpuInstanceId, one.computeInstanceId) for one in running)
        self.pids.update(pid for pid, _, _ in triples)
        return [list(one) for one in sorted(triples)]

    def nvlinks(self, device: Any) -> dict[str, Any]:
        """Return how many links are active, None without NVLink, and how many lead to each peer."""
        active = None
        peers: dict[str, int] = {}
        for link in range(self.nvml.NVML_NVLINK_MAX_LINKS):
            try:
                state = self.nvml.nvmlDeviceGetNvLinkState(device, link)
            except self.nvml.NVMLError_InvalidArgument:
                break  # the board has no more
            except self.nvml.NVMLError:
                continue
            active = (active or 0) + state
            if state:
                peer = self.peer(device, link)
                peers[peer] = peers.get(peer, 0) + 1
        return {"nvlinks": active, "nvlink_peers": peers}

    def peer(self, device: Any, link: int) -> str:
        kind = self.ask("nvmlDeviceGetNvLinkRemoteDeviceType", device, link)
        if kind == self.nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            return "switch"
        if kind == self.nvml.NVML_NVLINK_DEVICE_TYPE_IBMNPU:
            return "npu"
        remote = self.ask("nvmlDeviceGetNvLinkRemotePciInfo", device, link)
        address = str(remote.busId) if remote else "FFFF"
        return "unknown" if address.upper().startswith("FFFF") else address

    def fabric(self, device: Any) -> dict[str, Any]:
        """Return "CLUSTER.CLIQUE" once the fabric manager has registered the GPU, and how that went."""
        nvml = self.nvml
        for question, info in (
            ("nvmlDeviceGetGpuFabricInfoV", nvml.c_nvmlGpuFabricInfoV_t()),
            ("nvmlDeviceGetGpuFabricInfo", nvml.c_nvmlGpuFabricInfo_t()),
        ):
            if self.ask(question, device, nvml.byref(info)) is not None:
                break
        else:
            return {"fabric": None, "fabric_state": None}
        cluster = bytes(bytearray(info.clusterUuid)).hex()
        completed = info.state == nvml.NVML_GPU_FABRIC_STATE_COMPLETED and cluster.strip("0")
        parts = (cluster[:8], cluster[8:12], cluster[12:16], cluster[16:20], cluster[20:])
        return {
            "fabric": "{}.{}".format("-".join(parts), info.cliqueId) if completed else None,
            "fabric_state": info.state,
            "fabric_status": self.ask("nvmlErrorString", info.status),
            "fabric_health_mask": getattr(info, "healthMask", None),
        }

    def mig(self, device: Any, gpu: dict[str, Any]) -> dict[str, Any]:
        try:
            current, pending = self.nvml.nvmlDeviceGetMigMode(device)
        except self.nvml.NVMLError_NotSupported:
            return {"mig_capable": False, "mig_current": None, "mig_pending": None}
        except self.nvml.NVMLError:
            return {"mig_capable": None, "mig_current": None, "mig_pending": None}
        # GPUs of one board offer the same; drivers before R550 show profiles only of a GPU in MIG mode.
        board = (gpu["pci_device_id"], gpu["pci_subsystem_id"], gpu["memory_bytes"], current)
        if board not in self.offers:
            self.offers[board] = self.profiles(device)
        return {
            "mig_capable": True,
            "mig_current": bool(current),
            "mig_pending": bool(pending),
            "mig_profiles": self.offers[board],
            "gpu_instances": self.gpu_instances(device, self.offers[board]) if current else [],
            "mig_devices": self.mig_devices(device, gpu["max_mig_devices"] or 0) if current else [],
        }

    def profiles(self, device: Any) -> list[dict[str, Any]]:
        offers = []
        for number in range(self.nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
            info = self.profile(device, number)
            if info is None:
                continue
            places = (self.nvml.c_nvmlGpuInstancePlacement_t * MOST_INSTANCES)()
            question = "nvmlDeviceGetGpuInstancePossiblePlacements"
            count = self.filled(question, device, info.id, places)
            offers.append(
                {
                    "id": info.id,
                    "name": getattr(info, "name", None),
                    "slices": info.sliceCount,
                    "limit": info.instanceCount,
                    "memory_mib": info.memorySizeMB,
                    "starts": sorted(placement.start for placement in places[: count or 0]),
                    "size": places[0].size if count else None,
                }
            )
        return offers

    def profile(self, device: Any, number: int) -> Any:
        too_new = (self.nvml.NVMLError_FunctionNotFound, self.nvml.NVMLError_ArgumentVersionMismatch)
        try:
            return self.nvml.nvmlDeviceGetGpuInstanceProfileInfo(device, number)
        except too_new:
            return self.ask("nvmlDeviceGetGpuInstanceProfileInfo", device, number, 1)
        except self.nvml.NVMLError:
            return None

    def filled(self, question: str, device: Any, profile: int, array: Any) -> int | None:
        """Return how many elements of the array NVML has filled, None where it may or can not."""
        count = self.nvml.c_uint(len(array))
        answered = self.ask(question, device, profile, array, self.nvml.byref(count))
        return None if answered is None else count.value

    def gpu_instances(self, device: Any, offers: list[dict[str, Any]]) -> list[dict[str, int]] | None:
        """Return the instances by id; None where this user may not list them."""
        instances = []
        for offer in offers:
            handles = (self.nvml.c_nvmlGpuInstance_t * MOST_INSTANCES)()
            count = self.filled("nvmlDeviceGetGpuInstances", device, offer["id"], handles)
            if count is None:
                return None
            for handle in handles[:count]:
                info = self.ask("nvmlGpuInstanceGetInfo", handle)
                if info is None:
                    return None
                at = info.placement
                row = {"id": info.id, "profile": info.profileId, "start": at.start, "size": at.size}
                instances.append(row)
        return sorted(instances, key=lambda one: one["id"])

    def mig_devices(self, device: Any, most: int) -> list[dict[str, Any]]:
        entries = []
        for index in range(most):
            mig = self.ask("nvmlDeviceGetMigDeviceHandleByIndex", device, index)
            if mig is None:
                continue  # a hole: indexes of devices that were destroyed are not filled again
            attributes = self.ask("nvmlDeviceGetAttributes_v2", mig)
            entries.append(
                {
                    "gpu_instance": self.ask("nvmlDeviceGetGpuInstanceId", mig),
                    "compute_instance": self.ask("nvmlDeviceGetComputeInstanceId", mig),
                    "uuid": self.ask("nvmlDeviceGetUUID", mig),
                    "slices": attributes and attributes.computeInstanceSliceCount,
                }
            )
        return entries
