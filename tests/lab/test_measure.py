"""What Debian's programs print on a live node is read; a roll-out holds a node that is slower than others."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Lab
from lab.node import Node
from numaforge.fleet.measure.record import MEASURED_PATH, MEASUREMENT, Measurement, OfSiblings
from tests.lab import rollouts
from tests.lab.rollouts import PROFILE, QUICK, begin, free, inventory

_HELD = 5
_LONGEST_SECONDS = 1500


def measure(lab: Lab, file: Path, *words: str) -> dict[str, Any]:
    """Return what `numaforge measure` says of the inventory's hosts as JSON."""
    kubectl = lab.control_plane.kubectl().parent
    words = ("measure", "-o", "json", "-q", *words, str(file))
    path = f"{kubectl}:{os.environ['PATH']}"
    done = rollouts.program(
        "numaforge", *words, stderr=subprocess.PIPE, timeout_s=_LONGEST_SECONDS, PATH=path
    )
    assert done.stdout, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def kept(node: Node) -> Measurement:
    return MEASUREMENT.loads(node.run(f"cat {MEASURED_PATH}"))


def with_siblings(node: Node, factor: float) -> None:
    """Have the node keep that three siblings have so many times its own figures: the lab has none."""
    own = kept(node)
    siblings = {figure.key: OfSiblings(figure.median * factor, 3) for figure in own.figures}
    node.run(f"cat > {MEASURED_PATH}", input_text=MEASUREMENT.dumps(replace(own, siblings=siblings)))


@pytest.mark.long
def test_rollout_holds_node_until_measured_as_fast_as_siblings(lab, joined, tmp_path):
    file = inventory(lab, tmp_path, profile={**PROFILE, "measure": "required"}, only=[joined.name], **QUICK)
    there = begin("run", file, state=tmp_path)
    assert there.end() == _HELD, (there.events, there.errors())
    assert "it was not measured: run `numaforge measure" in json.dumps(there.report)
    assert lab.get("node", joined.name)["spec"]["unschedulable"]

    words = ("--kubeconfig", str(lab.kubeconfig), "--seconds", "1", "--runs", "1")
    document = measure(lab, file, *words)
    assert document["failed"] == {}
    figures = {(figure.kind, figure.program) for figure in kept(joined).figures}
    assert {("memory-bandwidth", "sysbench"), ("timer-latency", "cyclictest")} <= figures
    assert {each.kind for each in kept(joined).not_measured} >= {"memory-latency", "os-noise"}

    with_siblings(joined, 10.0)
    slow = begin("resume", file, state=tmp_path)
    assert slow.end() == _HELD, (slow.events, slow.errors())
    assert "where 3 siblings have" in json.dumps(slow.report)
    assert lab.get("node", joined.name)["spec"]["unschedulable"]

    with_siblings(joined, 1.0)
    sound = begin("resume", file, state=tmp_path)
    assert sound.end() == 0, (sound.events, sound.errors())
    assert free(lab, joined)


@pytest.mark.long
def test_alignment_is_measured_and_rtla_without_its_tracer_is_refused(lab, joined, tmp_path):
    file = inventory(lab, tmp_path, only=[joined.name], **QUICK)
    words = ("--in-use", "--seconds", "1", "--runs", "1")
    aligned = measure(lab, file, "--compare-misaligned", *words)["machines"][joined.name]["alignment"]
    assert {row["kind"] for row in aligned} >= {"memory-bandwidth"}
    assert all(row["aligned"] > 0 and row["not_aligned"] > 0 for row in aligned)
    assert joined.run(f"ls {MEASURED_PATH} 2> /dev/null || echo none").strip() == "none"
    joined.run("mv /usr/bin/sysbench /usr/bin/sysbench.away")
    other = measure(lab, file, "--compare-misaligned", *words)["machines"][joined.name]
    programs = {row["program"] for row in other["alignment"]}
    assert programs <= {"stress-ng"}
    # an emulated processor may be too slow for it to reach its reads, and that is said then
    said = [each["why"] for each in other["measurement"]["not_measured"]]
    assert programs or any("stress-ng" in why for why in said), said


@pytest.mark.long
def test_node_with_running_pods_is_not_measured(lab, joined, tmp_path):
    rollouts.kubectl(lab, "create", "-f", "-", manifest=rollouts.deployment("web", 1))
    rollouts.await_deployment(lab, "web")
    file = inventory(lab, tmp_path, only=[joined.name], **QUICK)
    document = measure(lab, file, "--seconds", "1", "--runs", "1")
    assert "it is in use: process" in document["failed"][joined.name]
