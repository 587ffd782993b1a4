"""deploys/mig.py over a real sshd: from a profile to GPUs that are cut, verified, and not changed twice."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from numaforge import cli
from numaforge.roles.mig.files import MIG_UNIT_PATH
from numaforge.roles.mig.part import BOOT_LINK
from numaforge.verification import suite
from tests.fakes.nvml.gpus import gpu_text
from tests.ssh.conftest import StartSandbox
from tests.ssh.kubeadm import kubeadm_files, start_kubelet
from tests.ssh.kubelet_runs import KUBELET_WAIT
from tests.ssh.sandbox import Sandbox, free_port, pyinfra, succeed
from tests.ssh.site_runs import inventory, plain
from tests.ssh.standin_gpus import STATE, install, standin_gpus
from tests.ssh.verifying import verified

pytestmark = pytest.mark.core("test_profile_partitions_the_gpu_and_second_run_changes_nothing")
FIRST, SECOND = "0000:1b:00.0", "0000:43:00.0"
GPUS = gpu_text("h100-80gb", FIRST, number=1) + gpu_text("h100-80gb", SECOND, number=2)
PROFILE: dict[str, Any] = {
    "name": "sandbox",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "memory": {"system_reserved": "1Gi"},
    "mig": {"gpus": [{"indices": [1], "devices": {"3g.40gb": 1, "1g.10gb": 2}}]},
}


def pci(address: str, numa_node: int) -> dict[str, str]:
    folder = f"/sys/bus/pci/devices/{address}"
    facts = {"class": "0x030200", "vendor": "0x10de", "device": "0x2330", "numa_node": str(numa_node)}
    return {f"{folder}/{name}": f"{text}\n" for name, text in facts.items()}


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    gpus = {**pci(FIRST, 0), **pci(SECOND, 1), **standin_gpus()}
    sandbox = start_sandbox({**kubeadm_files(port), **gpus})
    install(sandbox, GPUS)
    start_kubelet(sandbox, port)
    sandbox.log_in_with("PATH=/usr/local/bin:$PATH")
    return sandbox


def data(node: Sandbox, **mig: object) -> dict[str, dict[str, object]]:
    profile = {**PROFILE, "mig": mig} if mig else PROFILE
    return {"node": {**node.data(), **KUBELET_WAIT, "numaforge_profile": profile}}


def broken(node: Sandbox, folder: Path) -> tuple[str, ...]:
    """Return the tests of the suite about MIG that fail, each with its first line."""
    found = verified(node, folder, "--roles=topology,mig", "-k", "test_mig or test_host")
    return tuple(str(result) for result in suite.failures(found))


def test_profile_partitions_the_gpu_and_second_run_changes_nothing(node, tmp_path):
    dry = pyinfra(tmp_path, data(node), "--dry", "deploys/mig.py")
    assert re.search(rf"{SECOND} +\+ 3g.40gb at 0, compute slices 3", plain(dry.stdout)), dry.stdout
    assert "instance" not in node.path(STATE).read_text()
    succeed(tmp_path, data(node), "-y", "deploys/mig.py")
    state = node.path(STATE).read_text()
    assert state.partition(f"gpu {SECOND}")[0].count("mig disabled") == 1
    assert state.partition(f"gpu {SECOND}")[2].count("instance ") == 3
    (planned,) = json.loads(node.path("/etc/numaforge/plan.json").read_text())["mig"]["gpus"]
    assert (planned["pci_address"], len(planned["instances"])) == (SECOND, 3)
    assert str(node.path(BOOT_LINK).readlink()) == MIG_UNIT_PATH
    again = pyinfra(tmp_path, data(node), "-y", "-v", "deploys/mig.py")
    assert "noop: the node is already as planned" in plain(again.stdout), again.stdout
    assert broken(node, tmp_path) == ()


def operator_config(
    capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0
) -> tuple[dict[str, Any], str]:
    """Return the document that the command prints of an inventory, and what it says beside it."""
    assert cli.run(["mig", "operator-config", *arguments, "-o", "json"]) == code
    out, said = capfd.readouterr()
    return json.loads(out) if out else {}, said


def test_operator_config_contains_the_geometries_of_an_inventory(node, tmp_path, capfd):
    handed = data(node, managed_by="gpu-operator", gpus=PROFILE["mig"]["gpus"])["node"]
    hosts = {
        "handed": handed,
        "ours": data(node)["node"],
        "plain": {**node.data(), "numaforge_profile": "cpu-only"},
    }
    inventory(tmp_path, hosts)
    document, _ = operator_config(capfd, str(tmp_path))
    (config,) = yaml.safe_load(document["config_map"]["data"]["config.yaml"])["mig-configs"].values()
    assert [entry.get("mig-devices") for entry in config] == [None, {"1g.10gb": 2, "3g.40gb": 1}]
    assert [*document["labels"].values()] == [{"nvidia.com/mig.config": next(iter(configs(document)))}]
    assert "instance" not in node.path(STATE).read_text()


def configs(document: dict[str, Any]) -> dict[str, Any]:
    """Return the configs of the operator's ConfigMap by name."""
    found: dict[str, Any] = yaml.safe_load(document["config_map"]["data"]["config.yaml"])["mig-configs"]
    return found


@pytest.mark.long
def test_no_config_map_is_written_while_an_inventory_host_is_unreachable(node, tmp_path, capfd):
    handed = data(node, managed_by="gpu-operator", gpus=PROFILE["mig"]["gpus"])["node"]
    inventory(tmp_path, {"handed": handed, "gone": {**handed, "ssh_port": free_port()}})
    document, said = operator_config(capfd, str(tmp_path), code=2)
    assert (document, "gone: cannot connect" in said) == ({}, True)
    document, _ = operator_config(capfd, str(tmp_path), "--limit", "handed")
    assert len(configs(document)) == 1


def test_inventory_without_operator_managed_gpus_is_refused(node, tmp_path, capfd):
    inventory(tmp_path, data(node))
    _, said = operator_config(capfd, str(tmp_path), code=2)
    assert "no host leaves the cutting of its GPUs to the operator" in said


@pytest.mark.long
def test_unplanned_mig_layout_stays_and_boot_unit_is_removed(node, tmp_path):
    pyinfra(tmp_path, data(node), "-y", "deploys/mig.py")
    before = node.path(STATE).read_text()
    hosts = data(node, managed_by="numaforge")
    succeed(tmp_path, hosts, "-y", "deploys/mig.py")
    assert node.path(STATE).read_text() == before
    assert not node.path(BOOT_LINK).is_symlink()
    assert not node.path(MIG_UNIT_PATH).exists()
