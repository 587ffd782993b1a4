"""NVIDIA's device plugin and feature discovery ran with these machines: our checks say what they answered."""

import json
from dataclasses import replace
from typing import Any

import pytest

from numaforge.findings import Severity
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.gpus import read_driver, with_answers
from numaforge.machine.topology.model import Gpu, NodeTopology, NvidiaInstall
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.roles.device_plugin.advertised import advertised, as_listed
from numaforge.roles.device_plugin.checks import check_answers, check_config, check_machine
from numaforge.roles.device_plugin.config import parse_device_plugin
from numaforge.roles.device_plugin.labels import STRATEGY_LABEL
from numaforge.roles.device_plugin.section import DevicePlugin
from tests.conformance.real_gpus import real_gpus
from tests.conformance.record_device_plugin import CONFIGS, FILE, WITHOUT_A_DAEMON
from tests.fixtures.machines import lab_node

RECORD: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
PRETENDED: dict[str, dict[str, Any]] = {each["machine"]: each for each in RECORD["machines"]}
MACHINES = PRETENDED | {
    name: {
        "gpus": [(gpu.pci_address, gpu.device) for gpu in real.topology.gpus],
        "nvml": real.snapshot.nvml,
        "answers": real.record["answers"],
    }
    for name, real in real_gpus().items()
}
"""The recorded ones, and those with a real GPU."""
NO_NAME = (
    "error checking whether device is skipped: error getting device name",
    "error getting device handle for index '1'",
)
"""A GPU that is lost once it is open has a handle and no name; a snapshot does not tell the two apart."""

CASES = [
    pytest.param(name, answer, id=f"{name}, {answer['configuration']}")
    for name, each in MACHINES.items()
    for answer in each["answers"]
]


def machine(name: str) -> NodeTopology:
    """Return a machine as the record's answers of NVML make it, on a host without an IMEX channel."""
    snapshot = Snapshot({}, nvml=MACHINES[name]["nvml"])
    gpus = [Gpu(address, "10de", device, 0, driver="nvidia") for address, device in MACHINES[name]["gpus"]]
    return replace(
        lab_node(),
        gpus=with_answers(gpus, snapshot),
        nvidia=read_driver(snapshot),
        nvidia_install=NvidiaInstall(imex_channel=False),
    )


def test_record_names_its_version_and_covers_every_configuration():
    assert RECORD["version"].startswith("k8s-device-plugin v0.")
    assert RECORD["configurations"] == CONFIGS
    assert len(CASES) == len(MACHINES) * len(CONFIGS) >= 145
    assert {real.record["version"] for real in real_gpus().values()} == {RECORD["version"]}


@pytest.mark.parametrize(("name", "answer"), CASES)
def test_plugin_starts_and_advertises_as_recorded(name, answer):
    config = parse_device_plugin(CONFIGS[answer["configuration"]], "plugin.yaml")
    listed = as_listed(machine(name))
    findings = [*check_config(config), *check_answers(config, listed), *check_machine(config, listed)]
    lines = [one.text for one in findings]
    errors = [one.text for one in findings if one.severity is Severity.ERROR]
    if answer.get("error") not in (None, WITHOUT_A_DAEMON):
        error = answer["error"].replace(*NO_NAME) if name == "one lost" else answer["error"]
        assert error in lines
    else:
        assert errors == []
        assert "devices" not in answer or advertised(config, listed) == answer["devices"]


def _found(name: str, answer: dict[str, Any]) -> bool:
    return answer["labels"] is not None and answer["configuration"] in ("none", "single", "mixed")


@pytest.mark.parametrize(
    ("name", "answer"), [case for case in CASES if _found(*case.values) and "error" not in case.values[1]]
)
def test_label_that_a_plan_asks_for_is_written_by_feature_discovery(name, answer):
    """Where node-feature-discovery owns the label, a proof waits for its value."""
    profile = load_profile("best-effort-mixed")
    mig = profile.mig.model_copy(update={"strategy": answer["configuration"]})
    plan = plan_node(
        machine(name),
        profile.model_copy(update={"mig": mig, "device_plugin": DevicePlugin(config="shared")}),
    )
    wanted = plan.labels.get(STRATEGY_LABEL)
    assert wanted in (None, answer["labels"].get(STRATEGY_LABEL))
    assert wanted is not None or answer["configuration"] == "none" or "cut" not in name


@pytest.mark.parametrize("name", MACHINES)
def test_clique_matches_the_label_of_feature_discovery(name):
    written = {(answer["labels"] or {}).get("nvidia.com/gpu.clique") for answer in MACHINES[name]["answers"]}
    cliques = {gpu.fabric for gpu in machine(name).gpus}
    assert written - {None} == (cliques - {None} if len(cliques) == 1 else set())
