"""`numaforge generate runtime-class`: what it prints, and with which code it exits."""

import json
from dataclasses import replace

import pytest
import yaml

from numaforge.cli import run
from tests.fixtures.crio_hosts import host


@pytest.fixture
def intent(tmp_path):
    """Give a profile that lets pods ask CRI-O for no quota."""
    file = tmp_path / "intent.yaml"
    file.write_text("pod_tuning: {allow: [cpu_quota], runtime_class: fast}\n")
    return str(file)


def test_runtime_class_is_valid_for_kubectl_with_pod_lines_as_comments(save_machine, intent, capsys):
    assert run(["generate", "runtime-class", save_machine(host()), "--profile", intent]) == 0
    text = capsys.readouterr().out
    assert yaml.safe_load(text)["metadata"] == {"name": "fast"}
    assert "#     cpu-quota.crio.io: disable\n" in text
    assert "#   runtimeClassName: fast\n" in text


def test_runtime_class_is_written_as_json(save_machine, intent, capsys):
    assert run(["generate", "runtime-class", save_machine(host()), "--profile", intent, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["manifests"][0]["handler"] == "high-performance"
    assert document["pod"]["spec"] == {"runtimeClassName": "fast"}


def test_no_runtime_class_is_generated_without_a_handler(save_machine, intent, capsys):
    machine = replace(host(), kubelet=None)
    assert run(["generate", "runtime-class", save_machine(machine), "--profile", intent]) == 2
    assert "lets pods ask for nothing" in capsys.readouterr().err


def test_runtime_class_without_a_plan_is_bad_input(save_machine, capsys):
    assert run(["generate", "runtime-class", save_machine(host())]) == 2
    assert "no plan: give --profile" in capsys.readouterr().err
