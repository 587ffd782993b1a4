"""`numaforge fit --shapes`: the pods of a fleet, as a list, a table or a saved cluster."""

import json
from pathlib import Path
from typing import Any

import pytest

from numaforge.cli import run
from numaforge.commands.shapes_file import read_load
from numaforge.kubelet.admission.shapes import MOST_SHAPES
from numaforge.lib.errors import ExitCode
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)

LIST = """\
- {name: train, count: 8, cpu: 24, memory: 200Gi, nvidia.com/gpu: 2}
- {count: 100, cpu: 500m, memory: 1Gi}
- name: two
  count: 3
  pod: {containers: [{name: a, resources: {limits: {cpu: 1}}}, {name: b}]}
"""
TABLE = "count,cpu,memory,nvidia.com/gpu,name\n8,24,200Gi,2,train\n100,500m,1Gi,,\n"
TRAINING = ("--profile", "training")


def pod(name: str, cpu: str, phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "a", **metadata},
        "spec": {"nodeName": "n1", "containers": [{"name": f"of-{name}", "resources": resources}]},
        "status": {"phase": phase},
    }


def owned(kind: str, name: str) -> dict[str, Any]:
    return {"ownerReferences": [{"kind": kind, "name": name}]}


CLUSTER = {
    "kind": "List",
    "items": [
        pod("web-1", "1"),
        pod("web-2", "1000m"),
        pod("batch", "4"),
        pod("done", "1", "Succeeded"),
        pod("agent-x", "100m", **owned("DaemonSet", "agent")),
        pod("agent-y", "100m", **owned("DaemonSet", "agent")),
        pod("proxy-n1", "50m", **owned("Node", "n1")),
    ],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "shapes.yaml").write_text(LIST)
    (tmp_path / "shapes.csv").write_text(TABLE)
    (tmp_path / "pods.json").write_text(json.dumps(CLUSTER))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@cases(
    "name, shapes",
    {
        "a list, those of the most pods first": (
            "shapes.yaml",
            [("0.5 CPUs, 1 GiB", 100), ("train", 8), ("two", 3)],
        ),
        "a table": ("shapes.csv", [("0.5 CPUs, 1 GiB", 100), ("train", 8)]),
        "a cluster's pods": ("pods.json", [("1 CPU (Burstable)", 2), ("4 CPUs (Burstable)", 1)]),
    },
)
def test_shapes_are_read_from_a_file(folder, name, shapes):
    assert [(each.name, each.count) for each in read_load(name).load.shapes] == shapes


def test_pods_of_every_node_are_listed_once_and_ended_pods_left_out(folder):
    given = read_load("pods.json")
    assert [float(each.containers[0].requests["cpu"]) for each in given.load.everywhere] == [0.1, 0.05]
    assert given.remarks == ("pods.json: 1 ended pod not counted",)


def test_most_frequent_shapes_are_placed_and_the_rest_counted(folder):
    many = [{"count": number, "cpu": number, "memory": "1Gi"} for number in range(1, MOST_SHAPES + 3)]
    (folder / "many.json").write_text(json.dumps(many))
    given = read_load("many.json")
    assert len(given.load.shapes) == MOST_SHAPES
    assert given.remarks == (
        "many.json: of 34 shapes the 32 most frequent are placed; 3 of 595 pods are left out",
    )


def test_fit_shows_settings_side_by_side_and_spare_capacity(folder, capsys):
    code = run(
        ["fit", "--shapes", "shapes.yaml", "--machine", "dgx-h100=2", "--machine", "epyc-nps4", *TRAINING]
    )
    text = capsys.readouterr().out
    assert code == ExitCode.YES
    assert text.startswith("111 pods of 3 shapes, on 3 nodes of 2 kinds\n")
    assert "best-effort       pod         111    100%" in text
    assert "dgx-01-[1-2]: " in text
    assert max(map(len, text.splitlines())) <= 80


def test_json_has_every_topology_policy(folder, capsys):
    (folder / "shapes.yaml").write_text("- {name: all, count: 3, cpu: 216, memory: 1Ti, nvidia.com/gpu: 8}\n")
    code = run(["fit", "--shapes", "shapes.yaml", "--machine", "dgx-h100=2", *TRAINING, "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    assert code == ExitCode.NO
    assert [(each["policy"], each["pods"], each["never"]) for each in document["policies"]] == [
        ("none", 2, []),
        ("best-effort", 2, []),
        ("restricted", 2, []),
        ("single-numa-node", 0, ["all"]),
    ]
    assert document["configured"]["kinds"][0]["left"]["devices"]["nvidia.com/gpu"] == 0


def test_selectors_and_affinity_choose_the_kind_of_node(folder, capsys):
    (folder / "shapes.yaml").write_text(CASES["selected"])
    machines = ["--machine", "dgx-h100", "--machine", "epyc-nps4=2"]
    code = run(["fit", "--shapes", "shapes.yaml", *machines, *TRAINING, "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    [many, few] = sorted(document["configured"]["kinds"], key=lambda kind: -len(kind["nodes"]))
    assert code == ExitCode.NO
    assert (many["admitted"]["without-gpus"], few["admitted"]["with-gpus"]) == (3, 2)
    assert "with-gpus" not in many["admitted"]
    assert document["unselected"] == document["configured"]["never"] == ["other"]
    run(["fit", "--shapes", "shapes.yaml", *machines, *TRAINING])
    shown = capsys.readouterr().out
    assert "never: other: its nodeSelector or affinity excludes every node\n" in shown


def test_daemonset_pods_run_on_the_selected_nodes(folder):
    name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [name]}}
    agent = pod("agent-x", "100m", **owned("DaemonSet", "agent"))
    agent["spec"] |= {"affinity": {"nodeAffinity": required}, "nodeSelector": {"zone": "b"}}
    (folder / "pods.json").write_text(json.dumps({"kind": "List", "items": [agent, pod("web", "1")]}))
    given = read_load("pods.json")
    [placing] = [given.placings[each.name] for each in given.load.everywhere]
    assert (placing.selector, placing.terms) == ({"zone": "b"}, None)


@cases("name, text, message", CASES["bad_input_has_one_message"])
def test_bad_input_has_one_message(folder, capsys, name, text, message):
    (folder / name).write_text(text)
    assert run(["fit", "--shapes", name, "--machine", "dgx-h100", *TRAINING]) == ExitCode.BAD_INPUT
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


@cases(
    "arguments, message",
    {
        "a pod and shapes": (("pod.yaml", "--shapes", "shapes.yaml"), "one of both"),
        "neither": ((), "one of both"),
        "no nodes": (("--shapes", "shapes.yaml", "--machine", "dgx-h100=0"), "number of nodes"),
        "a word of nodes": (("--shapes", "shapes.yaml", "--machine", "dgx-h100=x"), "number of nodes"),
        "a state": (("--shapes", "shapes.yaml", "--machine", "dgx-h100", "--state-dir", "."), "empty nodes"),
    },
)
def test_invalid_arguments_are_refused(folder, capsys, arguments, message):
    assert run(["fit", *arguments, *TRAINING]) == ExitCode.BAD_INPUT
    assert message in capsys.readouterr().err
