"""The labels of GPU feature discovery that follow from a machine, and the pods that they keep away."""

from dataclasses import replace
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from numaforge.cluster.explain.discovered_labels import discovered_labels, planned_labels
from numaforge.commands.admit import admit
from numaforge.commands.cluster_explain import explain
from numaforge.commands.fit import fit
from numaforge.lib.errors import ExitCode
from numaforge.machine.topology.model import NvidiaDriver
from numaforge.machine.topology.saved import ready_machine
from numaforge.roles.device_plugin.plan import DevicePluginPlan
from tests.fixtures.tables import cases

PREFIX = "nvidia.com/"


REPLICAS = "gpu.product=NVIDIA-A100-SXM4-80GB-SHARED gpu.replicas=4"


def shared(strategy: str, **more: bool) -> DevicePluginPlan:
    return DevicePluginPlan("none", strategy, {"nvidia.com/gpu": 4}, **more)


@cases(
    "machine, plugin, labels",
    {
        "whole GPUs": (
            "dgx-h100",
            None,
            "gpu.product=NVIDIA-H100-80GB-HBM3 gpu.count=8 gpu.memory=81559 gpu.family=hopper",
        ),
        "the compute capability of a model": ("hgx-b200", None, "gpu.compute.major=10 gpu.compute.minor=0"),
        "shared GPUs": (
            "hgx-a100",
            shared("time-slicing"),
            f"{REPLICAS} gpu.sharing-strategy=time-slicing mps.capable=false mig.strategy",
        ),
        "shared under another name": (
            "hgx-a100",
            shared("mps", renamed=True),
            "gpu.product=NVIDIA-A100-SXM4-80GB gpu.replicas=4 mps.capable=true",
        ),
        "MIG devices": (
            "dgx-h100-mig",
            DevicePluginPlan("mixed"),
            "mig.strategy=mixed mig-1g.10gb.count=4 gpu.product=NVIDIA-H100-80GB-HBM3",
        ),
        "no GPU of NVIDIA": ("mi300x", None, "gpu.product gpu.present"),
    },
)
def test_discovered_labels_follow_the_machine(machine, plugin, labels):
    """A label without a value is not there."""
    found = discovered_labels(ready_machine(machine), plugin)
    for name, _, value in (label.partition("=") for label in labels.split()):
        assert found[PREFIX + name] == (value or None), name


def test_unknown_value_gives_no_label():
    known = planned_labels(ready_machine("gb200"), None)
    assert not {f"{PREFIX}{name}" for name in ("gpu.memory", "gpu.machine", "mig.strategy")} & known.keys()


def test_driver_and_product_labels_are_planned():
    driver = NvidiaDriver("580.95.05", cuda_version="13.0")
    labels = planned_labels(
        replace(ready_machine("dgx-h100"), nvidia=driver, product_name="DGXH100 (x)"), None
    )
    wanted = {"cuda.driver.major": "580", "cuda.driver.rev": "05", "cuda.runtime-version.full": "13.0"}
    assert {name: labels[PREFIX + name] for name in wanted} == wanted
    assert labels[f"{PREFIX}gpu.machine"] == "DGXH100-x"


def requirement(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": PREFIX + key, "operator": operator, "values": [*values]}


def affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


@pytest.mark.parametrize("command", [admit, fit, explain], ids=["admit", "fit", "explain"])
@cases(
    "spec, code",
    {
        "another model": ({"nodeSelector": {f"{PREFIX}gpu.product": "Tesla-T4"}}, ExitCode.NO),
        "other processors": ({"nodeSelector": {"kubernetes.io/arch": "arm64"}}, ExitCode.NO),
        "Linux": ({"nodeSelector": {"beta.kubernetes.io/os": "linux"}}, ExitCode.YES),
        "this model": ({"nodeSelector": {f"{PREFIX}gpu.product": "NVIDIA-H100-80GB-HBM3"}}, ExitCode.YES),
        "more memory": (affinity([requirement("gpu.memory", "Gt", "90000")]), ExitCode.NO),
        "enough memory": (affinity([requirement("gpu.memory", "Gt", "80000")]), ExitCode.YES),
        "a contradiction beside an unknown label": (
            affinity([requirement("gpu.product", "In", "A", "B"), requirement("gpu.machine", "In", "C")]),
            ExitCode.NO,
        ),
        "a term that may hold beside one that does not": (
            affinity([requirement("gpu.count", "In", "4")], [requirement("gpu.machine", "In", "C")]),
            ExitCode.YES,
        ),
        "without MIG": (affinity([requirement("mig.capable", "In", "false")]), ExitCode.NO),
    },
)
def test_selector_that_contradicts_the_machine_does_not_match(tmp_path, command, spec, code):
    limits = {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"}
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [container], **spec},
    }
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod))
    machine = ["dgx-h100"] if command is explain else ["--machine", "dgx-h100"]
    result = CliRunner().invoke(command, [str(tmp_path / "pod.yaml"), *machine], standalone_mode=False)
    assert (result.exception, result.return_value) == (None, code), result.output
