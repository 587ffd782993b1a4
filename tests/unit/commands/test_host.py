"""`numaforge host`: what its commands print, and with which code they exit."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml

from numaforge.cli import run
from numaforge.hostcheck.check import RULES
from numaforge.topology import to_document
from tests.unit.hostcheck.test_host_findings import worker
from tests.unit.planning.test_pod_tuning_plan import host


@pytest.fixture
def saved(tmp_path):
    """Save a machine as a topology, and give the file."""

    def save(machine):
        file = tmp_path / "machine.json"
        file.write_text(json.dumps(to_document(machine)))
        return str(file)

    return save


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        pytest.param(worker(), 0, id="nothing"),
        pytest.param(worker(clock_synchronised=False), 0, id="a warning"),
        pytest.param(worker(swaps=("/dev/sda2",)), 1, id="an error"),
    ],
)
def test_only_an_error_is_a_no(saved, capsys, machine, code):
    assert run(["host", "check", saved(machine)]) == code
    capsys.readouterr()
    assert run(["host", "check", saved(machine), "-o", "json"]) == code
    assert json.loads(capsys.readouterr().out)["sound"] is (code == 0)


def test_every_rule_is_told_of_with_verbose(saved, capsys):
    run(["host", "check", saved(replace(worker(), userland=None)), "-v"])
    text = capsys.readouterr().out
    assert [rule.id for rule in RULES if rule.id not in text] == []


def test_a_file_that_is_no_machine_is_bad_input(tmp_path, capsys):
    file = tmp_path / "notes.json"
    file.write_text("[]")
    assert run(["host", "check", str(file)]) == 2
    assert str(file) in capsys.readouterr().err


@pytest.fixture
def intent(tmp_path):
    """Give a profile that lets pods ask CRI-O for no quota."""
    file = tmp_path / "intent.yaml"
    file.write_text("pod_tuning: {allow: [cpu_quota], runtime_class: fast}\n")
    return str(file)


def test_the_runtime_class_is_ready_for_kubectl_and_the_pods_lines_are_a_comment(saved, intent, capsys):
    assert run(["host", "runtime-class", saved(host()), "--profile", intent]) == 0
    text = capsys.readouterr().out
    assert yaml.safe_load(text)["metadata"] == {"name": "fast"}
    assert "#     cpu-quota.crio.io: disable\n" in text
    assert "#   runtimeClassName: fast\n" in text


def test_the_runtime_class_as_json(saved, intent, capsys):
    assert run(["host", "runtime-class", saved(host()), "--profile", intent, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["manifests"][0]["handler"] == "high-performance"
    assert document["pod"]["spec"] == {"runtimeClassName": "fast"}


def test_without_a_handler_there_is_no_runtime_class(saved, intent, capsys):
    machine = replace(host(), kubelet=None)
    assert run(["host", "runtime-class", saved(machine), "--profile", intent]) == 2
    assert "lets pods ask for nothing" in capsys.readouterr().err


def test_a_runtime_class_without_a_plan_is_bad_input(saved, capsys):
    assert run(["host", "runtime-class", saved(host())]) == 2
    assert "--profile says what to plan" in capsys.readouterr().err
