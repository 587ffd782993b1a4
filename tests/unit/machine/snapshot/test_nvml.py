"""NVML's answers: the real pynvml, whole or cut down, on a libnvidia-ml without a GPU."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from numaforge.machine.snapshot.capture import _probe, parse_output, script
from numaforge.machine.snapshot.nvml_library import library_source, probe_source, reduced
from numaforge.machine.topology.gpus import read_driver, read_gpu_answers
from tests.fakes.nvml.gpus import FakeGpus, gpu_text
from tests.fixtures.tables import cases

CLUSTER = "00112233-4455-6677-8899-aabbccddeeff"
FIRST, SECOND, THIRD = "0000:1b:00.0", "0000:43:00.0", "0000:52:00.0"
PROBE = (
    "from numaforge.machine.snapshot import nvml_probe\nimport pynvml\npynvml.nvmlShutdown()\n"
    "answer(nvml_probe.answers(pynvml))"
)
H100 = gpu_text(
    "h100-80gb",
    FIRST,
    "subsystem 0x16c110de",
    "minor 3",
    "gsp 580.95.05",
    "vbios 96.00.61.00.01",
    "persistence enabled",
    "virtualization passthrough",
    "ecc enabled",
    "ecc_errors 1 2",
    "remapped 0 1 1 0",
    "pcie 4 16 5 16",
    "nvlinks 18",
    "nvlink 0-17 switch hidden",
    f"fabric {CLUSTER}.7",
    "fabric_health 0x6a6",
    "instance 9 4",
    "compute 0 2 0 0",
    "instance 19 0",
    "process 4711 compute 1024 2 0",
    "process 4712 mps 10",
    "process 4713 graphics 10",
    mig="enabled",
)
PLAIN = gpu_text("a100-80gb", SECOND, number=1)
L40S = """\
gpu 10000:43:00.0
  device 0x26b910de
  name NVIDIA L40S
  uuid GPU-11111111-0000-4000-8000-000000000000
  memory_bytes 48305799168
"""


@pytest.fixture
def gpus(tmp_path):
    """Describe GPUs, and give what the probe answers of them."""

    def describe(description, *flags):
        return FakeGpus(tmp_path, description, *flags)

    return describe


def first(fake, environment=None):
    return fake.ask(PROBE, environment)["gpus"][0]


def test_all_details_of_a_gpu_are_read(gpus):
    found = first(gpus(H100))
    profiles = {profile["id"]: profile for profile in found.pop("mig_profiles")}
    assert sorted(profiles) == [0, 5, 9, 14, 15, 19, 20]
    assert (profiles[15]["slices"], profiles[15]["limit"], profiles[15]["size"]) == (1, 4, 2)
    assert profiles[15]["starts"] == [0, 2, 4, 6]
    nowhere = 2**32 - 1
    (device,) = found.pop("mig_devices")
    assert device.pop("uuid").startswith("MIG-")
    assert device == {"gpu_instance": 1, "compute_instance": 0, "slices": 3}
    assert found == {
        "index": 0,
        "pci_address": "00000000:1B:00.0",
        "pci_device_id": 0x233010DE,
        "pci_subsystem_id": 0x16C110DE,
        "memory_bytes": 85520809984,
        "minor": 3,
        "uuid": "GPU-00000000-0000-4000-8000-000000000000",
        "name": "NVIDIA H100 80GB HBM3",
        "architecture": 9,
        "compute_capability": [9, 0],
        "persistence": 1,
        "ecc_mode": [1, 1],
        "ecc_uncorrected": [2, 2],
        "remapped_rows": [0, 1, 1, 0],
        "pcie_generation": 4,
        "pcie_width": 16,
        "pcie_max_generation": 5,
        "pcie_max_width": 16,
        "virtualization": 1,
        "addressing_mode": None,
        "memory_numa_node": None,
        "gsp_firmware": "580.95.05",
        "vbios": "96.00.61.00.01",
        "max_mig_devices": 7,
        "recovery_action": None,
        "processes": [[4711, 2, 0], [4712, nowhere, nowhere], [4713, nowhere, nowhere]],
        "nvlinks": 18,
        "nvlink_peers": {"switch": 18},
        "fabric": f"{CLUSTER}.7",
        "fabric_state": 3,
        "fabric_status": "Success",
        "fabric_health_mask": 0x6A6,
        "mig_capable": True,
        "mig_current": True,
        "mig_pending": True,
        "gpu_instances": [
            {"id": 1, "profile": 9, "start": 4, "size": 4},
            {"id": 11, "profile": 19, "start": 0, "size": 1},
        ],
        "unanswered": None,
    }


def test_driver_details_are_read(gpus):
    found = gpus(PLAIN).ask(PROBE)
    named = [found[name] for name in ("driver_version", "cuda_version", "confidential_computing")]
    assert named == ["580.95.05", 13000, None]


def test_reduced_and_full_pynvml_answer_alike(gpus):
    fake = gpus(H100 + PLAIN + L40S)
    finished = subprocess.run(
        [sys.executable, "-"],
        input=_probe(),
        env=fake.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(finished.stdout) == fake.ask(PROBE)


@pytest.fixture
def host(shell, live, tmp_path):
    """Capture a host whose driver runs, with python3, these GPUs' library, and no nvidia-smi."""
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.symlink_to("/usr/bin/python3")

    def capture(environment):
        kept = {key: text for key, text in environment.items() if key != "PATH"}
        return parse_output(shell(live(), kept | {"PATH_FIRST": str(python.parent)}).stdout)

    return capture


def test_script_queries_nvml_where_python_and_the_library_exist(host, gpus):
    fake = gpus(H100.replace("4711", str(os.getpid())))
    snapshot = host(fake.environment)
    assert snapshot.nvml == fake.ask(PROBE)
    assert snapshot.nvidia_smi is None
    # What the process is comes with it; those that are not there are left out.
    assert snapshot.files[f"/proc/{os.getpid()}/comm"].strip() == Path("/proc/self/comm").read_text().strip()
    assert f"/proc/{os.getpid()}/cgroup" in snapshot.files
    assert "/proc/4712/comm" not in snapshot.files


def test_nvml_and_nvidia_smi_are_not_queried_without_a_driver(shell, gpus, tmp_path):
    asked = tmp_path / "asked"
    for name in ("python3", "nvidia-smi"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n: > {asked}\n")
        program.chmod(0o755)
    environment = {key: text for key, text in gpus(PLAIN).environment.items() if key != "PATH"}
    shown = shell(script(), environment | {"PATH_FIRST": str(tmp_path / "bin")}).stdout
    assert parse_output(shown).nvml == {"error": "Driver Not Loaded", "gpus": []}
    assert not asked.exists()


@cases(
    "call, lost",
    {
        "firmware": ("nvmlDeviceGetGspFirmwareVersion", {"gsp_firmware": None}),
        "field-values": ("nvmlDeviceGetFieldValues", {"recovery_action": None}),
        "state-of-nvlinks": ("nvmlDeviceGetNvLinkState", {"nvlinks": None, "nvlink_peers": {}}),
        "remote-of-nvlinks": ("nvmlDeviceGetNvLinkRemoteDeviceType", {"nvlink_peers": {"unknown": 18}}),
        "instances": ("nvmlDeviceGetGpuInstances", {"gpu_instances": None}),
        "placement-of-an-instance": ("nvmlGpuInstanceGetInfo", {"gpu_instances": None}),
        "mig": ("nvmlDeviceGetMigMode", {"mig_capable": None, "mig_current": None, "mig_pending": None}),
    },
)
def test_missing_driver_symbol_loses_only_its_answer(gpus, call, lost):
    fake = gpus(H100)
    whole = first(fake)
    fake.add(FIRST, f"fail {call} every NVML_ERROR_FUNCTION_NOT_FOUND")
    found = first(fake)
    gone = set(whole) - set(found)
    assert found == {name: value for name, value in whole.items() if name not in gone} | lost
    assert gone <= {"mig_profiles", "gpu_instances", "mig_devices"}


def test_old_driver_is_queried_through_older_functions(gpus):
    fake = gpus(H100)
    whole = first(fake)
    for call in ("nvmlDeviceGetGpuInstanceProfileInfoV", "nvmlDeviceGetGpuFabricInfoV"):
        fake.add(FIRST, f"fail {call} every NVML_ERROR_ARGUMENT_VERSION_MISMATCH")
    found = first(fake)
    # The older structure of a profile has no name.
    assert [(one["id"], one["name"]) for one in found["mig_profiles"]] == [
        (one["id"], None) for one in whole["mig_profiles"]
    ]
    assert found["gpu_instances"] == whole["gpu_instances"]


def test_driver_before_550_reports_a_fabric_without_health(gpus):
    found = first(gpus(H100, "-DOLD_DRIVER"))
    assert (found["fabric"], found["fabric_state"], found["fabric_status"]) == (f"{CLUSTER}.7", 3, "Success")
    assert found["fabric_health_mask"] is None


def test_mig_devices_are_visible_without_permission_to_list_instances(gpus):
    fake = gpus("privileged nobody\n" + H100)
    found = first(fake)
    assert found["gpu_instances"] is None
    assert [device["gpu_instance"] for device in found["mig_devices"]] == [1]
    assert [profile["starts"] for profile in found["mig_profiles"]] == [[]] * 7


@pytest.mark.parametrize("how", ["yes", "off-the-bus"])
def test_lost_gpu_does_not_affect_other_gpus(gpus, how):
    fake = gpus(H100 + PLAIN + L40S)
    before = fake.ask(PROBE)["gpus"]
    fake.add(SECOND, f"lost {how}")
    found = fake.ask(PROBE)["gpus"]
    assert [found[0], found[2]] == [before[0], before[2]]
    assert (found[1]["index"], found[1]["unanswered"]) == (1, "GPU is lost")


def test_gpu_that_stops_answering_reports_the_error(gpus):
    fake = gpus(H100)
    fake.add(FIRST, "fail nvmlDeviceGetMemoryInfo every NVML_ERROR_GPU_IS_LOST")
    found = first(fake)
    assert (found["unanswered"], found["memory_bytes"], found["minor"]) == ("GPU is lost", None, 3)


def test_board_without_mig_and_nvlink_reports_neither(gpus):
    found = first(gpus(L40S))
    assert (found["pci_address"], found["nvlinks"], found["fabric"]) == ("00010000:43:00.0", None, None)
    assert (found["mig_capable"], found["mig_current"]) == (False, None)
    assert "gpu_instances" not in found


def test_vgpu_guest_is_recognised(gpus):
    found = first(gpus(gpu_text("h100-80gb", FIRST, "virtualization vgpu", mig="unsupported")))
    assert (found["virtualization"], found["mig_capable"], found["nvlinks"]) == (2, False, None)
    assert (found["name"], found["unanswered"]) == ("NVIDIA H100 80GB HBM3", None)


def test_nvlinks_name_their_peer_gpus(gpus):
    links = ["nvlinks 11 of 12", f"nvlink 0-5 gpu {SECOND}", f"nvlink 6-11 gpu {THIRD}", "nvlink 11 down"]
    found = first(gpus(gpu_text("a100-80gb", FIRST, *links)))
    assert found["nvlinks"] == 11
    assert found["nvlink_peers"] == {"00000000:43:00.0": 6, "00000000:52:00.0": 5}


def test_instances_are_not_listed_when_mig_is_off(gpus):
    fake = gpus(PLAIN)
    fake.add(SECOND, "fail nvmlDeviceGetGpuInstances every NVML_ERROR_NO_PERMISSION")
    found = first(fake)
    assert (found["gpu_instances"], found["mig_devices"]) == ([], [])


def test_destroyed_mig_device_does_not_end_the_listing(gpus):
    holed = H100.replace("compute 0 2 0 0", "compute 0 2 0 3")
    assert [device["gpu_instance"] for device in first(gpus(holed))["mig_devices"]] == [1]


def test_old_nvml_library_leaves_the_answer_to_nvidia_smi(host, gpus):
    older = gpus(PLAIN, "-DnvmlInitWithFlags=nvmlInitWithoutFlags")
    assert host(older.environment).nvml is None


def test_profiles_are_queried_once_per_board_type(gpus):
    count = """
import pynvml
from numaforge.machine.snapshot import nvml_probe
asked = []
real = pynvml.nvmlDeviceGetGpuInstanceProfileInfo
pynvml.nvmlDeviceGetGpuInstanceProfileInfo = lambda *of: asked.append(of[1]) or real(*of)
answers = nvml_probe.answers(pynvml)
answer([len(asked), [len(gpu["mig_profiles"]) for gpu in answers["gpus"]]])
"""
    fake = gpus(PLAIN + gpu_text("a100-80gb", THIRD, number=2) + gpu_text("a30-24gb", "0000:61:00.0"))
    profiles, offered = fake.ask(count)
    assert profiles == 2 * 18
    assert offered[0] == offered[1] != offered[2]


def test_nvml_without_a_driver_gives_the_reason(host, gpus):
    snapshot = host(gpus(PLAIN).environment | {"FAKE_NVML_MACHINE": "/nonexistent"})
    assert snapshot.nvml == {"error": "Driver Not Loaded", "gpus": []}
    assert read_driver(snapshot).error == "Driver Not Loaded"
    assert list(read_gpu_answers(snapshot)) == []


def test_reduced_and_full_pynvml_have_the_same_structures():
    code = """
import ctypes, json, pynvml, sys, types
from numaforge.machine.snapshot.nvml_library import library_source
cut = sys.modules["cut"] = types.ModuleType("cut")
exec(compile(library_source(), "cut", "exec"), cut.__dict__)
names = [name for name, held in vars(cut).items() if isinstance(held, type) and hasattr(held, "_fields_")]
print(json.dumps({name: [ctypes.sizeof(getattr(m, name)) for m in (cut, pynvml)] for name in names}))
"""
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    sizes = json.loads(finished.stdout)
    assert {name for name, (cut, whole) in sizes.items() if cut != whole} == set()
    expected = {"nvmlPciInfo_t": 68, "c_nvmlGpuFabricInfo_v2_t": 36, "c_nvmlGpuInstanceProfileInfo_v2_t": 152}
    assert {name: sizes[name][0] for name in expected} == expected


def test_probe_is_small_and_keeps_the_pynvml_licence():
    assert len(_probe()) < 14_000
    assert library_source().count("Redistributions of source code must retain") == 1


def test_reduced_pynvml_has_every_function_of_the_probe():
    kept = library_source()
    named = set(re.findall(r"\bnvml(?:Device|System|GpuInstance)[A-Z]\w+", probe_source()))
    assert len(named) > 40
    assert [name for name in sorted(named) if f"def {name}(" not in kept] == []


def test_reduction_keeps_reachable_code_and_import_time_code():
    head = "import os\nA = 1\nB = A\nNVML_ERROR_X = 2\n"
    reached = "@wraps\ndef f(\n    a,\n):\n    return B\n"
    unreached = "@wraps\ndef g():\n    return A\n"
    tail = "try:\n    pass\nexcept OSError:\n    f2 = f\nf2 = f\nprint(A)\n"
    assert reduced(head + reached + unreached + tail, "library.f2()") == head + reached + tail
