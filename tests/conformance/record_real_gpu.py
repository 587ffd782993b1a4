"""Record what a machine with a GPU answers: NVML, nvidia-smi, NVIDIA's device plugin and feature discovery.

`python -m tests.conformance.record_real_gpu NAME PROGRAMS VERSION` on that machine, as root, writes NAME.json
(answers), NAME.snapshot.json (of what `numaforge capture` saves, the files that tell of CPUs, memory, PCI and
the driver) and NAME.xml (nvidia-smi) below real_gpus/. PROGRAMS is a folder with nvidia-device-plugin and
gpu-feature-discovery, built from VERSION. All of them only ask: nothing is set on a GPU. Serial numbers and
UUIDs are replaced, as what is kept is public.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from numaforge.machine.snapshot.redaction import redact_nvidia_smi
from tests.conformance.checkouts import text_of
from tests.conformance.record_device_plugin import CONFIGS, answers_to
from tests.fakes.nvml.gpus import PREAMBLE

FOLDER = Path(__file__).with_name("real_gpus")
HARDWARE = (
    "/proc/cpuinfo",
    "/proc/driver/nvidia",
    "/proc/meminfo",
    "/sys/bus/pci",
    "/sys/devices/system",
    "/sys/module/nvidia",
)
PROFILE_KINDS = 17
"""The GPU instance profiles that every driver since 570 knows by number; one that is newer has more."""

ASK = (
    f"PROFILE_KINDS = {PROFILE_KINDS}\n"
    """
CALLS = (
    "nvmlDeviceGetName nvmlDeviceGetMinorNumber nvmlDeviceGetIndex nvmlDeviceGetArchitecture "
    "nvmlDeviceGetCudaComputeCapability nvmlDeviceGetPersistenceMode nvmlDeviceGetEccMode "
    "nvmlDeviceGetRemappedRows nvmlDeviceGetCurrPcieLinkGeneration nvmlDeviceGetCurrPcieLinkWidth "
    "nvmlDeviceGetMaxPcieLinkGeneration nvmlDeviceGetMaxPcieLinkWidth nvmlDeviceGetVirtualizationMode "
    "nvmlDeviceGetAddressingMode nvmlDeviceGetNumaNodeId nvmlDeviceGetGspFirmwareVersion "
    "nvmlDeviceGetVbiosVersion nvmlDeviceGetMaxMigDeviceCount nvmlDeviceGetMigMode "
    "nvmlDeviceGetGpuInstanceId nvmlDeviceGetComputeInstanceId nvmlDeviceGetAttributes_v2 "
    "nvmlDeviceIsMigDeviceHandle nvmlDeviceGetComputeRunningProcesses_v3 "
    "nvmlDeviceGetGraphicsRunningProcesses_v3 nvmlDeviceGetMPSComputeRunningProcesses_v3"
).split()

def said(call, *arguments):
    try:
        found = call(*arguments)
    except NVMLError as error:
        return "error " + type(error).__name__.removeprefix("NVMLError_")
    found = getattr(found, "value", found)
    return found.decode() if isinstance(found, bytes) else found

def fields(info):
    if isinstance(info, str):
        return info
    found = {name: getattr(info, name) for name, _ in info._fields_}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in found.items()}

def fabric():
    info = c_nvmlGpuFabricInfo_v3_t()
    failed = error_of(nvmlDeviceGetGpuFabricInfoV, gpu, byref(info))
    return failed or [info.state, info.status, info.cliqueId, info.healthMask]

def starts(profile):
    found, count = (c_nvmlGpuInstancePlacement_t * 16)(), c_uint()
    failed = error_of(nvmlDeviceGetGpuInstancePossiblePlacements, gpu, profile, found, byref(count))
    return failed or [[found[index].start, found[index].size] for index in range(count.value)]

versions = [f"nvmlSystemGet{name}Version" for name in ("Driver", "NVML", "CudaDriver")]
found = {name: said(globals()[name]) for name in versions}
found["nvmlSystemGetConfComputeState"] = fields(said(nvmlSystemGetConfComputeState))
found.update((name, said(globals()[name], gpu)) for name in CALLS)
pci, memory = nvmlDeviceGetPciInfo(gpu), nvmlDeviceGetMemoryInfo(gpu)
found["nvmlDeviceGetPciInfo"] = [pci.busId, pci.busIdLegacy, hex(pci.pciDeviceId), hex(pci.pciSubSystemId)]
found["nvmlDeviceGetMemoryInfo"] = memory.total
found["nvmlDeviceGetC2cModeInfoV"] = fields(said(nvmlDeviceGetC2cModeInfoV, gpu))
found["nvmlDeviceGetTotalEccErrors"] = [said(nvmlDeviceGetTotalEccErrors, gpu, 1, since) for since in (0, 1)]
found["nvmlDeviceGetGpuFabricInfoV"] = fabric()
found["nvmlDeviceGetNvLinkState"] = [said(nvmlDeviceGetNvLinkState, gpu, link) for link in range(18)]
values = nvmlDeviceGetFieldValues(gpu, [NVML_FI_DEV_NVLINK_LINK_COUNT, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
found["nvmlDeviceGetFieldValues"] = [[value.nvmlReturn, value.value.uiVal] for value in values]
for kind in range(PROFILE_KINDS):
    info = fields(said(nvmlDeviceGetGpuInstanceProfileInfo, gpu, kind, 2))
    found[f"nvmlDeviceGetGpuInstanceProfileInfo {kind}"] = info
    if isinstance(info, dict):
        profile = info["id"]
        found[f"nvmlDeviceGetGpuInstancePossiblePlacements {profile}"] = starts(profile)
        left = said(nvmlDeviceGetGpuInstanceRemainingCapacity, gpu, profile)
        found[f"nvmlDeviceGetGpuInstanceRemainingCapacity {profile}"] = left
        there = said(instances, gpu, profile)
        found[f"nvmlDeviceGetGpuInstances {profile}"] = there if isinstance(there, str) else len(there)
answer(found)
"""
)
"""What NVML is asked, as code on pynvml: of a real GPU and of one that is not there."""


def main(name: str, programs: Path, version: str) -> None:
    """Ask, and write the three files."""
    FOLDER.mkdir(exist_ok=True)
    numaforge = ["-c", "from numaforge.cli import main; main()", "capture", "--to"]
    _run(sys.executable, *numaforge, f"{FOLDER / name}.snapshot.json")
    _keep_hardware(FOLDER / f"{name}.snapshot.json", name)
    xml = redact_nvidia_smi(_run("nvidia-smi", "-q", "-x"))
    (FOLDER / f"{name}.xml").write_text(
        re.sub(r"\n\s*<supported_clocks>[\s\S]*?</supported_clocks>", "", xml)
    )
    nvml = json.loads(_run(sys.executable, "-c", PREAMBLE + ASK))
    with tempfile.TemporaryDirectory() as made:
        answers = [answers_to(key, Path(made), programs, {}) for key in CONFIGS]
    record = {"version": version, "nvml": nvml, "answers": answers}
    (FOLDER / f"{name}.json").write_text(text_of(record, "nvml", "answers"))
    for file in FOLDER.glob(f"{name}.*"):
        file.write_text(_without_identity(file.read_text()))


def _keep_hardware(file: Path, name: str) -> None:
    """Cut a snapshot down to what is of the machine, not of the system that runs on it."""
    saved = json.loads(file.read_text())
    saved["commands"] = {}
    kept = {path: text for path, text in saved["files"].items() if path.startswith(HARDWARE)}
    saved["files"] = {**kept, "/proc/sys/kernel/hostname": name}
    saved["links"] = {path: to for path, to in saved["links"].items() if path.startswith(HARDWARE)}
    file.write_text(json.dumps(saved, indent=1, sort_keys=True) + "\n")


def _without_identity(text: str) -> str:
    uuid = r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    text = re.sub(uuid, "GPU-00000000-0000-4000-8000-000000000000", text)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
