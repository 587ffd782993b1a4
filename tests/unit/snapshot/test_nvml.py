"""NVML's answers: the real pynvml, whole or cut down, on a libnvidia-ml without a GPU."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from numaforge.snapshot import Snapshot, parse_output, script
from numaforge.snapshot.nvml_library import library_source, reduced
from numaforge.topology.nvidia import read_gpu_answers
from numaforge.topology.nvml import sysfs_address

MACHINE = """\
driver 580.95.05
gpu 0000:1b:00.0
  device 0x233010de
  name NVIDIA H100 80GB HBM3
  uuid GPU-00000000-0000-4000-8000-000000000000
  memory_bytes 85520809984
  mig disabled
  nvlinks 18
  fabric 00112233-4455-6677-8899-aabbccddeeff.7
gpu 10000:43:00.0
  device 0x26b910de
  name NVIDIA L40S
  uuid GPU-11111111-0000-4000-8000-000000000000
  memory_bytes 48305799168
gpu 0000:52:00.0
  device 0x233010de
  name NVIDIA H100 80GB HBM3
  uuid GPU-22222222-0000-4000-8000-000000000000
  memory_bytes 85520809984
  mig enabling
  nvlinks 17
  fabric in-progress
"""

ANSWERS = {
    "driver_version": "580.95.05",
    "gpus": [
        {
            "pci_address": "00000000:1B:00.0",
            "uuid": "GPU-00000000-0000-4000-8000-000000000000",
            "name": "NVIDIA H100 80GB HBM3",
            "memory_bytes": 85520809984,
            "nvlinks": 18,
            "fabric": "00112233-4455-6677-8899-aabbccddeeff.7",
            "mig_capable": True,
            "mig_current": False,
            "mig_pending": False,
        },
        {
            "pci_address": "00010000:43:00.0",
            "uuid": "GPU-11111111-0000-4000-8000-000000000000",
            "name": "NVIDIA L40S",
            "memory_bytes": 48305799168,
            "nvlinks": None,
            "fabric": None,
            "mig_capable": False,
            "mig_current": None,
            "mig_pending": None,
        },
        {
            "pci_address": "00000000:52:00.0",
            "uuid": "GPU-22222222-0000-4000-8000-000000000000",
            "name": "NVIDIA H100 80GB HBM3",
            "memory_bytes": 85520809984,
            "nvlinks": 17,
            "fabric": None,
            "mig_capable": True,
            "mig_current": False,
            "mig_pending": True,
        },
    ],
}


@pytest.fixture
def environment(nvml_library, tmp_path):
    machine = tmp_path / "machine.txt"
    machine.write_text(MACHINE)
    return {"LD_LIBRARY_PATH": nvml_library(), "FAKE_NVML_MACHINE": str(machine), "PATH": "/usr/bin:/bin"}


def ask_in_a_process(code, environment):
    finished = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(finished.stdout)


WHOLE = (
    "import json, pynvml; from numaforge.snapshot import nvml_probe\n"
    "print(json.dumps(nvml_probe.answers(pynvml)))"
)


def test_the_whole_pynvml_loads_the_library_and_answers(environment):
    assert ask_in_a_process(WHOLE, environment) == ANSWERS


def test_the_script_asks_nvml_on_a_host_that_has_python_and_the_library(shell, environment, tmp_path):
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.symlink_to("/usr/bin/python3")
    environment = {key: environment[key] for key in ("LD_LIBRARY_PATH", "FAKE_NVML_MACHINE")}
    snapshot = parse_output(shell(script(), environment | {"PATH_FIRST": str(python.parent)}).stdout)
    assert snapshot.nvml == ANSWERS
    assert snapshot.nvidia_smi is None


def test_a_driver_without_a_symbol_leaves_that_answer_unknown(nvml_library, environment):
    answers = ask_in_a_process(WHOLE, environment | {"LD_LIBRARY_PATH": nvml_library("-DOLD_DRIVER")})
    assert [gpu["fabric"] for gpu in answers["gpus"]] == [None, None, None]
    assert [gpu["nvlinks"] for gpu in answers["gpus"]] == [18, None, 17]


def test_a_library_without_a_driver_gives_no_answer(shell, environment, tmp_path):
    environment = {"LD_LIBRARY_PATH": environment["LD_LIBRARY_PATH"], "FAKE_NVML_MACHINE": "/nonexistent"}
    assert parse_output(shell(script(), environment).stdout).nvml is None


def test_structures_of_the_cut_down_pynvml_are_those_of_the_whole_one():
    code = """
import ctypes, json, pynvml, sys, types
from numaforge.snapshot.nvml_library import library_source
cut = sys.modules["cut"] = types.ModuleType("cut")
exec(compile(library_source(), "cut", "exec"), cut.__dict__)
used = ["nvmlPciInfo_t", "c_nvmlMemory_t", "c_nvmlGpuFabricInfo_v2_t"]
print(json.dumps([[name, *(ctypes.sizeof(getattr(m, name)) for m in (cut, pynvml))] for name in used]))
"""
    sizes = ask_in_a_process(code, {"PATH": "/usr/bin:/bin"})
    assert sorted(sizes) == [
        ["c_nvmlGpuFabricInfo_v2_t", 36, 36],
        ["c_nvmlMemory_t", 24, 24],
        ["nvmlPciInfo_t", 68, 68],
    ]


def test_the_cut_down_pynvml_is_small_and_keeps_its_licence():
    source = library_source()
    assert len(source) < 30_000
    assert "Redistributions of source code must retain" in source


def test_reduction_keeps_what_is_reached_and_what_runs_on_import():
    head = "import os\nA = 1\nB = A\nNVML_ERROR_X = 2\n"
    reached = "@wraps\ndef f(\n    a,\n):\n    return B\n"
    unreached = "@wraps\ndef g():\n    return A\n"
    tail = "try:\n    pass\nexcept OSError:\n    f2 = f\nf2 = f\nprint(A)"
    assert reduced(head + reached + unreached + tail, "library.f2()") == head + reached + tail


@pytest.mark.parametrize(
    ("bus_id", "address"),
    [
        pytest.param("00000000:1B:00.0", "0000:1b:00.0", id="eight-digits-of-zeros"),
        pytest.param("0000:1b:00.0", "0000:1b:00.0", id="legacy-form"),
        pytest.param("00000009:01:00.0", "0009:01:00.0", id="a-domain-of-its-own-as-on-grace"),
        pytest.param("00010000:43:00.0", "10000:43:00.0", id="a-domain-of-five-digits-as-behind-vmd"),
    ],
)
def test_bus_ids_become_sysfs_addresses(bus_id, address):
    assert sysfs_address(bus_id) == address


SMI = """\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <gpu id="00000000:1B:00.0">
    <product_name>NVIDIA H100 80GB HBM3</product_name>
    <mig_mode><current_mig>Enabled</current_mig><pending_mig>Enabled</pending_mig></mig_mode>
    <uuid>GPU-00000000-0000-4000-8000-000000000000</uuid>
    <fb_memory_usage><total>81559 MiB</total></fb_memory_usage>
    <fabric><state>Completed</state><cliqueId>7</cliqueId>
      <clusterUuid>00112233-4455-6677-8899-aabbccddeeff</clusterUuid></fabric>
  </gpu>
  <gpu id="00000000:43:00.0">
    <product_name>NVIDIA L40S</product_name>
    <mig_mode><current_mig>N/A</current_mig><pending_mig>N/A</pending_mig></mig_mode>
    <uuid>GPU-11111111-0000-4000-8000-000000000000</uuid>
    <fabric><state>N/A</state><cliqueId>N/A</cliqueId><clusterUuid>N/A</clusterUuid></fabric>
  </gpu>
</nvidia_smi_log>
"""


def test_nvidia_smi_answers_where_nvml_did_not():
    first, second = read_gpu_answers(Snapshot(files={}, nvidia_smi=SMI))
    assert (first.pci_address, first.mig_capable, first.mig_mode) == ("0000:1b:00.0", True, "enabled")
    assert first.memory_bytes == 81559 * 2**20
    assert first.fabric == "00112233-4455-6677-8899-aabbccddeeff.7"
    assert (second.name, second.mig_capable, second.mig_mode) == ("NVIDIA L40S", False, None)
    assert (second.memory_bytes, second.fabric) == (None, None)


def test_nvml_is_believed_before_nvidia_smi():
    answers = read_gpu_answers(Snapshot(files={}, nvml=ANSWERS, nvidia_smi=SMI))
    assert [answer.pci_address for answer in answers] == ["0000:1b:00.0", "10000:43:00.0", "0000:52:00.0"]
