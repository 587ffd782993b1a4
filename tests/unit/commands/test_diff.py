"""`numaforge diff`: machines and plans side by side."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from numaforge.cli import run
from numaforge.errors import ExitCode
from numaforge.planning.node import plan_node
from numaforge.profile import load_profile
from numaforge.roles.document import dumps
from numaforge.topology import to_document
from numaforge.topology.model import NodeTopology
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


def test_two_hosts_of_one_kind_are_alike(saved, capsys):
    lab = machines.lab_node()
    code, kinds = found(capsys, saved("a", lab), saved("b", replace(lab, hostname="node2")))
    assert (code, kinds) == (ExitCode.YES, {"machine": {}})


def test_a_dimm_that_is_missing_is_named_with_what_it_does_to_the_plan(saved, capsys):
    lab = machines.lab_node()
    node = lab.numa_nodes[2]
    less = replace(node, memory_bytes=(node.memory_bytes or 0) // 2)
    other = replace(lab, numa_nodes=(*lab.numa_nodes[:2], less, *lab.numa_nodes[3:]))
    code, kinds = found(capsys, saved("a", lab), saved("b", other), "--profile", "best-effort-mixed")
    assert code == ExitCode.NO
    assert kinds["machine"] == {"numa_nodes[2].memory_bytes": (node.memory_bytes, less.memory_bytes)}
    assert kinds["plan"]["numa_nodes[2].memory_bytes"] == (node.memory_bytes, less.memory_bytes)


def test_two_plans_are_compared_as_they_are(tmp_path, capsys):
    files = []
    for profile in ("training", "best-effort-mixed"):
        files.append(tmp_path / profile)
        files[-1].write_text(dumps(plan_node(machines.lab_node(), load_profile(profile))))
    code, kinds = found(capsys, *map(str, files))
    assert code == ExitCode.NO
    assert kinds["plan"]["profile"] == ("training", "best-effort-mixed")
    assert "machine" not in kinds


def test_a_plan_and_a_machine_without_one_are_refused(saved, tmp_path, capsys):
    plan = tmp_path / "plan.json"
    plan.write_text(dumps(plan_node(machines.lab_node(), load_profile("training"))))
    assert run(["diff", str(plan), saved("a", machines.lab_node())]) == ExitCode.BAD_INPUT
    assert "give --profile" in capsys.readouterr().err


def test_entries_of_one_side_are_counted_for_people(saved, capsys):
    assert run(["diff", saved("a", machines.lab_node()), saved("b", machines.dgx_h100())]) == ExitCode.NO
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["gpus[]", "0", "entries", "8", "entries"] in lines
