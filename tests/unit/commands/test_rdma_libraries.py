"""`numaforge rdma env` and `topology-xml`: what they print, and how they exit."""

import json
from pathlib import Path

import pytest
import yaml

from numaforge.cli import run
from numaforge.machine.topology.document import to_document
from numaforge.planning.document import dumps
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from tests.fixtures.machines import two_cpu_vm
from tests.fixtures.rdma_machines import dgx


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("gpu-1.json").write_text(json.dumps(to_document(dgx())))
    return "gpu-1.json"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(["rdma", *arguments]) == code
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return err if code == 2 else out


def test_text_json_and_yaml_agree(machine: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(answer(capsys, "env", machine, "-o", "json"))
    lines = answer(capsys, "env", machine).splitlines()
    container = yaml.safe_load(answer(capsys, "env", machine, "-o", "yaml"))
    assert document["NCCL_SOCKET_IFNAME"] == "=bond0"
    assert dict(line.split("=", 1) for line in lines) == document
    assert {one["name"]: one["value"] for one in container["env"]} == document


def test_overlay_uses_its_own_interface(machine: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed = answer(capsys, "env", machine, "--network", "overlay", "--gpu", "2", "-o", "json")
    assert json.loads(printed)["NCCL_SOCKET_IFNAME"] == "=eth0"
    assert json.loads(printed)["NCCL_IB_HCA"] == "=mlx5_2:1"


def test_plan_supplies_machine_and_settings(machine: str, capsys: pytest.CaptureFixture[str]) -> None:
    libraries = {"vllm": True, "network": "overlay", "overlay_interface": "net0"}
    plan = plan_node(dgx(), load_profile({"rdma": {"libraries": libraries}}))
    Path("plan.json").write_text(dumps(plan))
    printed = json.loads(answer(capsys, "env", "plan.json", "-o", "json"))
    assert printed["NCCL_SOCKET_IFNAME"] == "=net0"
    assert "VLLM_GPU_NIC_PCIE_MAPPING" in printed


def test_unknown_gpu_is_bad_input(machine: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "known here: 0, 1, 2, 3, 4, 5, 6, 7" in answer(capsys, "env", machine, "--gpu", "8", code=2)


def test_machine_without_rdma_data_answers_no(machine: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("vm.json").write_text(json.dumps(to_document(two_cpu_vm())))
    assert answer(capsys, "env", "vm.json", code=1) == ""
    assert "<system" in answer(capsys, "topology-xml", "vm.json", code=1)


def test_topology_file_describes_the_machine(machine: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert '<pci busid="0000:16:00.0" class="0x060400">' in answer(capsys, "topology-xml", machine)
    answer(capsys, "topology-xml", machine, "--to", "topology.xml")
    assert Path("topology.xml").read_text().endswith("</system>\n")
