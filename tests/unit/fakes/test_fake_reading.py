"""What the fake GPUs answer: each line of a description, through the real pynvml and through nvidia-smi."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from tests.fakes.nvml.gpus import FakeGpus, gpu_text

ADDRESS = "0009:01:00.0"
PEER = "0019:01:00.0"

LINES = [
    "subsystem 0x16c010de",
    "serial 1320000000001",
    "vbios 96.00.61.00.01",
    "gsp 580.95.05",
    "minor 3",
    "virtualization passthrough",
    "addressing ats",
    "c2c enabled",
    "numa_node 2",
    "persistence enabled",
    "ecc enabling",
    "remapped 0 1 1 0",
    "pcie 4 8 5 16",
    "nvlinks 17 of 18",
    f"nvlink 0-1 gpu {PEER}",
    "nvlink 2-15 switch 0000:c4:00.0",
    "nvlink 16 switch hidden",
    "fabric 00112233-4455-6677-8899-aabbccddeeff.7",
    "fabric_health 0x2",
    "process 4711 compute 1048576",
    "process 4712 graphics 2097152",
    "process 4713 mps 1048576",
]

ASKED = {
    "nvmlDeviceGetSerial(gpu)": "1320000000001",
    "nvmlDeviceGetVbiosVersion(gpu)": "96.00.61.00.01",
    "nvmlDeviceGetGspFirmwareVersion(gpu).decode()": "580.95.05",
    "nvmlDeviceGetMinorNumber(gpu)": 3,
    "nvmlDeviceGetIndex(gpu)": 0,
    "nvmlDeviceGetPciInfo(gpu).busId": "00000009:01:00.0",
    "hex(nvmlDeviceGetPciInfo(gpu).pciSubSystemId)": "0x16c010de",
    "nvmlDeviceGetIndex(nvmlDeviceGetHandleByPciBusId('0019:01:00.0'))": 1,
    "nvmlDeviceGetVirtualizationMode(gpu)": 1,
    "nvmlDeviceGetAddressingMode(gpu)": 2,
    "nvmlDeviceGetC2cModeInfoV(gpu).isC2cEnabled": 1,
    "nvmlDeviceGetNumaNodeId(gpu)": 2,
    "nvmlDeviceGetPersistenceMode(gpu)": 1,
    "nvmlDeviceGetEccMode(gpu)": [0, 1],
    "nvmlDeviceGetRemappedRows(gpu)": [0, 1, 1, 0],
    "nvmlDeviceGetCurrPcieLinkGeneration(gpu)": 4,
    "nvmlDeviceGetCurrPcieLinkWidth(gpu)": 8,
    "nvmlDeviceGetMaxPcieLinkGeneration(gpu)": 5,
    "nvmlDeviceGetMaxPcieLinkWidth(gpu)": 16,
    "[nvmlDeviceGetNvLinkState(gpu, link) for link in (0, 16, 17)]": [1, 1, 0],
    "[nvmlDeviceGetNvLinkRemoteDeviceType(gpu, link) for link in (0, 2, 16, 17)]": [0, 2, 2, 255],
    "[nvmlDeviceGetNvLinkRemotePciInfo(gpu, link).busId for link in (1, 2, 16)]": [
        "00000019:01:00.0",
        "00000000:C4:00.0",
        "FFFFFFFF:FF:FF.0",
    ],
    "error_of(nvmlDeviceGetNvLinkState, gpu, 18)": "InvalidArgument",
    "[value.value.uiVal for value in nvmlDeviceGetFieldValues(gpu, [91, 147])]": [18, 15],
    "nvmlDeviceGetFieldValues(gpu, [170])[0].nvmlReturn": 3,
    "nvmlDeviceGetArchitecture(gpu)": 9,
    "nvmlDeviceGetCudaComputeCapability(gpu)": [9, 0],
    "fabric(c_nvmlGpuFabricInfo_v2_t)": [3, 0, 7, 2, "00112233445566778899aabbccddeeff"],
    "fabric(c_nvmlGpuFabricInfo_v3_t)": [3, 0, 7, 2, "00112233445566778899aabbccddeeff"],
    "[process.pid for process in nvmlDeviceGetComputeRunningProcesses(gpu)]": [4711],
    "[process.pid for process in nvmlDeviceGetGraphicsRunningProcesses_v2(gpu)]": [4712],
    "[process.pid for process in nvmlDeviceGetMPSComputeRunningProcesses_v3(gpu)]": [4713],
    "nvmlDeviceGetComputeRunningProcesses(gpu)[0].gpuInstanceId": 0xFFFFFFFF,
    "nvmlDeviceGetMemoryInfo(gpu).used": 4 << 20,
    "nvmlSystemGetDriverVersion()": "580.95.05",
    "nvmlSystemGetNVMLVersion()": "13.580.95.05",
    "nvmlSystemGetCudaDriverVersion()": 13000,
    "nvmlSystemGetConfComputeState().ccFeature": 1,
}

FABRIC = """
def fabric(structure):
    info = structure()
    nvmlDeviceGetGpuFabricInfoV(gpu, byref(info))
    return [info.state, info.status, info.cliqueId, info.healthMask, bytes(bytearray(info.clusterUuid)).hex()]
"""


@pytest.fixture(scope="module")
def gpus(tmp_path_factory):
    fake = FakeGpus(
        tmp_path_factory.mktemp("gpus"),
        gpu_text("h100-80gb", ADDRESS, *LINES)
        + gpu_text("h100-80gb", PEER, "ecc enabled", "ecc_errors 5 1", number=1)
        + "gpu 0029:01:00.0\n  device 0x26b910de\n  name NVIDIA L40S\n",
    )
    fake.describe("confidential enabled\n" + fake.description.read_text())
    return fake


@pytest.fixture(scope="module")
def answers(gpus):
    return gpus.ask(FABRIC + "answer([" + ",\n".join(ASKED) + "])")


@pytest.mark.parametrize(("number", "question"), list(enumerate(ASKED)), ids=list(ASKED))
def test_a_line_of_the_description_is_what_nvml_answers(answers, number, question):
    assert answers[number] == ASKED[question]


def test_ecc_errors_are_counted_where_ecc_is_on(gpus):
    code = """
peer = nvmlDeviceGetHandleByIndex(1)
counts = [nvmlDeviceGetTotalEccErrors(peer, kind, 0) for kind in (0, 1)]
answer([*counts, error_of(nvmlDeviceGetTotalEccErrors, gpu, 0, 0)])
"""
    assert gpus.ask(code) == [5, 1, "NotSupported"]


NOT_DESCRIBED = """
board = nvmlDeviceGetHandleByIndex(2)
calls = [
    (nvmlDeviceGetMigMode,), (nvmlDeviceSetMigMode, 1), (nvmlDeviceGetMigDeviceHandleByIndex, 0),
    (nvmlDeviceGetGpuInstanceProfileInfo, 0), (nvmlDeviceGetEccMode,), (nvmlDeviceGetRemappedRows,),
    (nvmlDeviceGetNumaNodeId,), (nvmlDeviceGetC2cModeInfoV,), (nvmlDeviceGetAddressingMode,),
    (nvmlDeviceGetSerial,), (nvmlDeviceGetUUID,), (nvmlDeviceGetMaxPcieLinkWidth,),
    (nvmlDeviceGetNvLinkState, 0), (nvmlDeviceGetGpuFabricInfoV, byref(c_nvmlGpuFabricInfo_v2_t())),
    (nvmlDeviceGetArchitecture,), (nvmlDeviceGetCudaComputeCapability,),
]
errors = {error_of(call, board, *rest) for call, *rest in calls}
answer([sorted(errors), nvmlDeviceGetMaxMigDeviceCount(board)])
"""


def test_what_is_not_described_is_not_supported(gpus):
    assert gpus.ask(NOT_DESCRIBED) == [["NotSupported"], 0]


def test_nvidia_smi_says_in_xml_what_nvml_says(gpus):
    root = ElementTree.fromstring(gpus.smi("-q", "-x").stdout)  # noqa: S314
    first, second, third = root.findall("gpu")
    said = {
        "minor_number": "3",
        "mig_mode/current_mig": "Disabled",
        "persistence_mode": "Enabled",
        "addressing_mode": "ATS",
        "gpu_virtualization_mode/virtualization_mode": "Pass-Through",
        "pci/pci_bus_id": "00000009:01:00.0",
        "pci/pci_gpu_link_info/link_widths/current_link_width": "8x",
        "pci/pci_gpu_link_info/pcie_gen/max_link_gen": "5",
        "ecc_mode/pending_ecc": "Enabled",
        "remapped_rows/remapped_row_pending": "Yes",
        "fabric/clusterUuid": "00112233-4455-6677-8899-aabbccddeeff",
        "fabric/status": "Success",
        "fb_memory_usage/used": "4 MiB",
    }
    assert {path: first.findtext(path) for path in said} == said
    assert [process.findtext("type") for process in first.findall("processes/process_info")] == [
        "C",
        "G",
        "M+C",
    ]
    assert second.findtext("ecc_errors/volatile/dram_uncorrectable") == "1"
    assert (third.get("id"), third.findtext("mig_mode/current_mig"), third.findtext("fabric/state")) == (
        "00000029:01:00.0",
        "N/A",
        "N/A",
    )
