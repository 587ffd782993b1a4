"""The ready machines of the wheel: what they are, and that their files are in the form of today."""

import re

import pytest

from lab.paths import REPOSITORY
from numaforge.lib.errors import TopologyError
from numaforge.lib.resources import machine_dir
from numaforge.machine.topology.gpu_models import MODELS, model_of
from numaforge.machine.topology.model import Gpu
from numaforge.machine.topology.saved import ready_machine, ready_machines
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from tests.fixtures.ready_machines import text_of
from tests.fixtures.tables import cases

MOST_KIB = 64


@pytest.mark.parametrize("name", ready_machines())
def test_ready_machine_file_has_the_current_format(name):
    text = (machine_dir() / f"{name}.json").read_text(encoding="utf-8")
    assert text == text_of(ready_machine(name)), "python -m tests.fixtures.ready_machines writes them"


@pytest.mark.parametrize("name", ready_machines())
def test_ready_machine_file_is_small(name):
    assert (machine_dir() / f"{name}.json").stat().st_size < MOST_KIB * 1024


@pytest.mark.parametrize("name", ready_machines())
def test_ready_machine_can_be_planned(name):
    assert plan_node(ready_machine(name), load_profile("cpu-only")).kubelet.version


def test_every_ready_machine_is_on_the_page():
    page = (REPOSITORY / "docs" / "command-line.md").read_text(encoding="utf-8")
    table = page.partition("| ready machine |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE) == list(ready_machines())


def test_unknown_name_is_refused_and_known_names_are_listed():
    with pytest.raises(TopologyError, match="dgx-h100, ") as refused:
        ready_machine("dgx-h10")
    assert "no ready machine 'dgx-h10'" in refused.value.message


@cases(
    "gpu, model",
    {
        "no driver": (("10de", "2330", None), "NVIDIA H100 80GB HBM3"),
        "AMD without a driver": (("1002", "74a1", None), "AMD Instinct MI300X"),
        "the driver's name first": (("10de", "2330", "NVIDIA H100 Test"), "NVIDIA H100 Test"),
        "an unknown device": (("10de", "ffff", None), "10de:ffff"),
        "an unknown maker": (("1a03", "2000", None), "1a03:2000"),
    },
)
def test_gpu_without_a_driver_gets_its_model_from_pci_ids(gpu, model):
    vendor, device, name = gpu
    assert model_of(Gpu("0000:01:00.0", vendor, device, 0, name=name)) == model


def test_every_partitionable_gpu_has_a_model():
    from numaforge.roles.mig.models import models

    devices = {f"10de:{device}" for model in models() for device in model.devices}
    assert devices - MODELS.keys() == set()
