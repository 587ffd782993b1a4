"""Real GPUs answered: the fake library answers alike, and so do our tables, readers and findings."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from numaforge.findings.engine import Verdict, check
from numaforge.findings.gpus.rules import RULES
from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import Gpu
from numaforge.machine.topology.nvidia_smi import read_smi_driver, read_smi_gpus
from numaforge.machine.topology.nvml import read_nvml_driver, read_nvml_gpus
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.roles.mig.models import MigProfile, model_named, model_of
from tests.conformance.real_gpus import RealGpu, real_gpus
from tests.conformance.record_real_gpu import ASK
from tests.fakes.nvml.gpus import FakeGpus, gpu_text

MODEL = {"h100-vm": "h100-80gb", "h200-vm": "h200-141gb"}
GPU_LINES = (
    "persistence enabled",
    "ecc enabled",
    "ecc_errors 0 0",
    "remapped 0 0 0 0",
    "pcie 5 16 5 16",
    "virtualization passthrough",
    "gsp 580.159.04",
    "addressing none",
    "c2c disabled",
    "fabric none",
    "recovery 0",
)

machines = pytest.mark.parametrize(
    ("name", "real"), [pytest.param(name, real, id=name) for name, real in real_gpus().items()]
)


def described(name: str, real: RealGpu) -> str:
    """Return the description of this machine for the fake library."""
    answers = real.record["nvml"]
    subsystem = answers["nvmlDeviceGetPciInfo"][3]
    lines = (*GPU_LINES, f"vbios {answers['nvmlDeviceGetVbiosVersion']}", f"subsystem {subsystem}")
    return "nvml 13.580.95.05\ncuda 13000\nconfidential disabled\n" + gpu_text(
        MODEL[name], "0000:00:06.0", *lines
    )


@machines
def test_fake_nvml_answers_like_the_real_library(tmp_path: Path, name: str, real: RealGpu) -> None:
    fake = FakeGpus(tmp_path, described(name, real))
    fake.describe(fake.description.read_text().replace("580.95.05", "580.159.04"))
    assert fake.ask(ASK) == real.record["nvml"]


ONLY_NVML = {"compute_capability", "max_mig_devices", "mig_profiles", "memory_bytes"}
"""What nvidia-smi does not print, and the memory, which it prints in whole MiB."""


@machines
def test_nvidia_smi_and_nvml_agree_on_a_gpu(name: str, real: RealGpu) -> None:
    assert real.snapshot.nvml is not None
    [nvml], [smi] = list(read_nvml_gpus(real.snapshot.nvml)), list(read_smi_gpus(real.smi))
    differ = {each.name for each in fields(Gpu) if getattr(nvml, each.name) != getattr(smi, each.name)}
    assert differ <= ONLY_NVML
    assert None not in (nvml.memory_bytes, smi.memory_bytes)
    assert (nvml.memory_bytes or 0) >> 20 == (smi.memory_bytes or 0) >> 20
    assert read_smi_driver(real.smi) == replace(
        read_nvml_driver(real.snapshot.nvml), nvml_version=None, confidential_computing=None
    )


def row(profile: MigProfile) -> tuple[Any, ...]:
    return (profile.name, profile.id, profile.slices, profile.size, profile.starts, profile.limit)


@machines
def test_mig_profile_table_matches_the_gpu(name: str, real: RealGpu) -> None:
    [gpu] = real.topology.gpus
    offered = {offer.id: offer for offer in gpu.mig_profiles}
    known = model_named(MODEL[name])
    assert {row(profile) for profile in known.profiles} == {
        (str(offer.name).removeprefix("MIG "), offer.id, offer.slices, offer.size, offer.starts, offer.limit)
        for offer in offered.values()
    }
    assert [row(profile) for profile in model_of(gpu).profiles] == [
        row(profile) for profile in known.profiles
    ]


@machines
def test_real_gpu_has_no_findings(name: str, real: RealGpu) -> None:
    judged = check(RULES, real.topology)
    assert [finding for judgement in judged for finding in judgement.findings] == []
    passed = {judgement.rule.id for judgement in judged if judgement.verdict is Verdict.PASSED}
    assert {"NG101", "NG102", "NG201", "NG401", "NG403", "NG405", "NG406", "NG503"} <= passed


@machines
def test_node_with_memory_not_yet_plugged_in_is_refused(name: str, real: RealGpu) -> None:
    """/proc/meminfo has 126 GiB, the NUMA node less than 5: what the kubelet would promise is not there."""
    with pytest.raises(PlanError, match=r"only 46\d+Ki are left .*\n.*\n  MemTotal is 131981020Ki, .* later"):
        plan_node(real.topology, load_profile("inference-mig"), kubelet_version="1.37.2")
