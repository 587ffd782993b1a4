"""`numaforge rdma`: what it prints, and how it ends."""

import json
from pathlib import Path

import pytest
import yaml

from numaforge.cli import run
from numaforge.machine.topology.document import to_document
from numaforge.roles.rdma.shared_plugin import parse_plugin_config, refusal
from tests.fixtures.machines import dgx_h100
from tests.fixtures.tables import cases

PROFILE = "name: p\nrdma: {device_plugin: {per: rail}}\n"
GOOD = '{"configList": [{"resourceName": "a", "rdmaHcaMax": 1, "selectors": {"ifNames": ["ibp24s0"]}}]}'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("dgx.json").write_text(json.dumps(to_document(dgx_h100())))
    Path("p.yaml").write_text(PROFILE)
    return tmp_path


def test_config_is_accepted_by_the_plugin(capsys):
    assert run(["rdma", "config", "dgx.json", "--profile", "p.yaml"]) == 0
    read = parse_plugin_config(capsys.readouterr().out, "config.json")
    assert (refusal(read), [pool.name for pool in read.pools]) == (None, [f"rail{n}" for n in range(8)])


def test_config_reads_a_plan(capsys):
    assert run(["plan", "dgx.json", "--profile", "p.yaml", "--kubelet-version", "1.36.1", "-o", "json"]) == 0
    Path("plan.json").write_text(capsys.readouterr().out)
    assert run(["rdma", "config", "plan.json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["configList"]) == 8


@cases(
    "text, machine, code",
    {
        "right on every machine": (GOOD, None, 0),
        "right on this machine": (GOOD, "dgx.json", 0),
        "a warning is no refusal": (GOOD.replace("ibp24s0", "ib9"), "dgx.json", 0),
        "refused by the plugin": (GOOD.replace('"a"', '"a-b"'), "dgx.json", 1),
        "a resource that no pod can have": (GOOD.replace("1,", "0,"), None, 1),
    },
)
def test_check_exits_with_1_on_refusal(text, machine, code, capsys):
    Path("config.json").write_text(text)
    given = ["--machine", machine] if machine else []
    assert run(["rdma", "check", "config.json", *given, "-o", "json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert document["right"] is (code == 0)
    assert (document["advertised"] is None) is (machine is None or code == 1)


@cases(
    "given, code",
    {
        "as it is": ([], 1),
        "live": (["--live"], 1),
        "as a profile makes it": (["--profile", "shared.yaml"], 0),
        "as a plan makes it": (["--plan", "plan.json"], 0),
    },
)
def test_check_uses_the_current_or_planned_network_namespace(given, code, capsys):
    exclusive = {**to_document(dgx_h100()), "rdma_netns": "exclusive"}
    Path("exclusive.json").write_text(json.dumps(exclusive))
    Path("config.json").write_text(GOOD)
    Path("shared.yaml").write_text("name: p\nrdma: {host: {netns: shared}}\n")
    planned = ["plan", "exclusive.json", "--profile", "shared.yaml", "--kubelet-version", "1.36.1"]
    assert run([*planned, "-o", "json"]) == 0
    Path("plan.json").write_text(capsys.readouterr().out)
    assert run(["rdma", "check", "config.json", "--machine", "exclusive.json", *given]) == code
    assert ("rdma-netns-exclusive" in capsys.readouterr().out) is (code == 1)


def test_manifests_are_readable_by_kubectl(capsys):
    arguments = ["rdma", "manifests", "dgx.json", "--profile", "p.yaml", "--image", "here/plugin:1"]
    assert run(arguments) == 0
    text = capsys.readouterr().out
    assert [each["kind"] for each in yaml.safe_load_all(text)] == ["ConfigMap", "DaemonSet"]
    assert text.startswith("# dgx-01: numaforge.io/rdma-pools=pools-")
    assert run([*arguments, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["manifests"] == list(yaml.safe_load_all(text))
    assert list(document["labels"]) == ["dgx-01"]
