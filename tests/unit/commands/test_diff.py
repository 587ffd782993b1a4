"""`numaforge diff`: machines and plans side by side."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from numaforge.cli import run
from numaforge.lib.errors import ExitCode
from numaforge.machine.topology.document import to_document
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.document import dumps
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from tests.fixtures import machines


@pytest.fixture
def saved(tmp_path: Path):
    def save(name: str, machine: NodeTopology) -> str:
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(to_document(machine)))
        return str(path)

    return save


def found(capsys, *arguments: str) -> tuple[int, dict[str, dict[str, tuple[object, object]]]]:
    code = run(["diff", *arguments, "-o", "json"])
    kinds = json.loads(capsys.readouterr().out)["differences"]
    return code, {
        kind: {one["path"]: (one["left"], one["right"]) for one in each} for kind, each in kinds.items()
    }


def test_hosts_of_one_kind_are_equal(saved, capsys):
    lab = machines.lab_node()
    code, kinds = found(capsys, saved("a", lab), saved("b", replace(lab, hostname="node2")))
    assert (code, kinds) == (ExitCode.YES, {"machine": {}})


def test_missing_dimm_is_named_with_its_effect_on_the_plan(saved, capsys):
    lab = machines.lab_node()
    node = lab.numa_nodes[2]
    less = replace(node, memory_bytes=(node.memory_bytes or 0) // 2)
    other = replace(lab, numa_nodes=(*lab.numa_nodes[:2], less, *lab.numa_nodes[3:]))
    code, kinds = found(capsys, saved("a", lab), saved("b", other), "--profile", "best-effort-mixed")
    assert code == ExitCode.NO
    assert kinds["machine"] == {"numa_nodes[2].memory_bytes": (node.memory_bytes, less.memory_bytes)}
    assert kinds["plan"]["memory.numa_nodes[2].memory_bytes"] == (node.memory_bytes, less.memory_bytes)


def test_two_plans_are_compared_directly(tmp_path, capsys):
    files = []
    for profile in ("training", "best-effort-mixed"):
        files.append(tmp_path / profile)
        files[-1].write_text(dumps(plan_node(machines.lab_node(), load_profile(profile))))
    code, kinds = found(capsys, *map(str, files))
    assert code == ExitCode.NO
    assert kinds["plan"]["profile"] == ("training", "best-effort-mixed")
    assert "machine" not in kinds


def test_plan_against_a_machine_without_a_plan_is_refused(saved, tmp_path, capsys):
    plan = tmp_path / "plan.json"
    plan.write_text(dumps(plan_node(machines.lab_node(), load_profile("training"))))
    assert run(["diff", str(plan), saved("a", machines.lab_node())]) == ExitCode.BAD_INPUT
    assert "give --profile" in capsys.readouterr().err


def test_one_sided_entries_are_counted_in_text_output(saved, capsys):
    assert run(["diff", saved("a", machines.lab_node()), saved("b", machines.dgx_h100())]) == ExitCode.NO
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["gpus[]", "0", "entries", "8", "entries"] in lines


@pytest.fixture
def image(tmp_path: Path) -> str:
    """The root of an image whose nodes plan themselves, with a profile and a kubelet of its own."""
    files = {
        "boot.yaml": "profile: own\n",
        "profiles/own.yaml": "extends: best-effort-mixed\nmemory: {system_reserved: 3Gi}\n",
        "image/manifest.json": json.dumps({"kubelet": {"version": "1.35.2"}}),
    }
    for name, text in files.items():
        file = tmp_path / "image/etc/numaforge" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return str(tmp_path / "image")


def test_image_plan_is_compared_with_the_current_machine(saved, image, capsys):
    code, kinds = found(capsys, saved("a", machines.lab_node()), image, "--profile", "best-effort-mixed")
    assert code == ExitCode.NO
    assert kinds["plan"]["profile"] == ("best-effort-mixed", "own")
    assert kinds["plan"]["kubelet.version"][1] == "1.35.2"
    assert kinds["plan"]["memory.system_reserved_bytes"][1] == 3 * 2**30
    assert "machine" not in kinds


@pytest.mark.parametrize("left", ["a machine without one", "a plan alone"])
def test_image_is_compared_only_with_a_planned_machine(left, saved, image, tmp_path, capsys):
    plan = tmp_path / "plan.json"
    plan.write_text(dumps(plan_node(machines.lab_node(), load_profile("training"))))
    source = str(plan) if left == "a plan alone" else saved("a", machines.lab_node())
    assert run(["diff", source, image]) == ExitCode.BAD_INPUT
    assert "is not a machine with a plan" in capsys.readouterr().err
