"""A rehearsal says what a real start on the node says, by the table of starts and the record of
docs/kubelets.json.

NUMAFORGE_REHEARSED names the minors, `1.30,1.37` for example; else it is the lab's own.
"""

import json
import os
import re
import subprocess
from collections.abc import Mapping
from typing import IO

import pytest

from lab import kubelets
from lab.cluster import Lab
from lab.kubelets import CONFIG_PATH, DROP_IN_DIR, FOLDER, Trial
from lab.node import Node
from lab.paths import REPOSITORY
from numaforge.roles.kubelet.rehearsal import (
    Rehearsal,
    Rehearsed,
    Verdict,
    read_rehearsed,
    without_cluster,
)
from tests.fixtures.kubelet_starts import MI, Case, all_cases, percent_of
from tests.fixtures.kubelet_texts import in_any_order, without_path

MINORS = tuple(filter(None, os.environ.get("NUMAFORGE_REHEARSED", kubelets.OWN).split(",")))
RECORD: Mapping[str, Mapping[str, list[str]]] = json.loads((REPOSITORY / "docs/kubelets.json").read_text())[
    "outcomes"
]
MOST = 60
CAPACITY = re.compile(r'(Resource "memory" has .* but capacity of \{\{)\d+')
SHARE = re.compile(r'"\d+"( of type "memory" is not equal to the value )"\d+"')
"""What the machine on which the record was made has of memory, and 300 MiB with 5 % of it less a byte."""
ROOT_DIR = "/var/lib/kubelet"


def _names(minor: str) -> list[str]:
    """Return the cases of a minor that need no kubelet before them, spread over the whole table."""
    names = [case.trial.id for case in all_cases(0) if case.is_for(minor) and case.trial.before is None]
    step = max(1, len(names) // MOST)
    return names[::step][:MOST]


NAMES = [(minor, name) for minor in MINORS for name in _names(minor)]


@pytest.fixture(scope="module")
def memory_bytes(lab: Lab) -> int:
    """The memory of the node, which has its cores for the rehearsals alone."""
    node = lab.nodes[0]
    node.run("systemctl stop lab-deviceplugin kubelet; systemctl stop containerd irqbalance")
    return 1024 * int(node.run("sed -n 's/^MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo"))


@pytest.fixture(scope="module")
def cases(memory_bytes: int) -> Mapping[str, Case]:
    """The configurations, for the memory that the node has."""
    return {case.trial.id: case for case in all_cases(memory_bytes)}


@pytest.fixture(scope="module")
def placed() -> list[str]:
    """The minor whose kubelet lies on the node."""
    return []


def _place(node: Node, minor: str) -> None:
    kubelet: IO[bytes]
    with kubelets.build(minor).open("rb") as kubelet:
        subprocess.run(
            [*node.ssh_arguments(), f"mkdir -p {FOLDER}; cat > {FOLDER}/kubelet; chmod 755 {FOLDER}/kubelet"],
            stdin=kubelet,
            check=True,
        )


def _rehearsed(node: Node, trial: Trial) -> Rehearsed:
    folder = (f"--config-dir={DROP_IN_DIR}",) if trial.drop_ins else ()
    wanted = Rehearsal(
        program=f"{FOLDER}/kubelet",
        unit="kubelet.service",
        runtime="containerd",
        endpoint="/run/containerd/containerd.sock",
        root_dir=ROOT_DIR,
        arguments=without_cluster((f"--config={CONFIG_PATH}", *folder, *trial.flags)),
        files={
            CONFIG_PATH: trial.config,
            **{f"{DROP_IN_DIR}/{name}": text for name, text in trial.drop_ins.items()},
            **{f"{ROOT_DIR}/{name}": text for name, text in trial.state.items()},
        },
        removed=tuple(
            f"{ROOT_DIR}/{name}"
            for name in ("cpu_manager_state", "memory_manager_state")
            if name not in trial.state
        ),
        limit_seconds=250,
    )
    return read_rehearsed(node.run("sh -s", input_text=wanted.script))


@pytest.mark.long
@pytest.mark.parametrize(("minor", "name"), NAMES, ids=[f"{minor}-{name}" for minor, name in NAMES])
def test_rehearsal_verdict_matches_a_real_start(
    lab: Lab, cases: Mapping[str, Case], memory_bytes: int, placed: list[str], minor: str, name: str
) -> None:
    node = lab.nodes[0]
    if placed != [minor]:
        _place(node, minor)
        placed[:] = [minor]
    case = cases[name]
    said = _rehearsed(node, case.trial)
    on_record = [text for text, minors in RECORD.get(name, {}).items() if minor in minors]
    outcome = case.outcomes.get(minor) or on_record[0]
    if outcome == "starts":
        assert (said.verdict, said.words) == (Verdict.STARTS, "")
    else:
        assert said.verdict is Verdict.REFUSED, said
        share = 300 * MI + percent_of(5, memory_bytes)
        outcome = CAPACITY.sub(rf"\g<1>{memory_bytes}", outcome).replace(kubelets.ROOT_DIR, ROOT_DIR)
        outcome = SHARE.sub(rf'"{share - 1}"\g<1>"{share}"', outcome)
        assert in_any_order(without_path(said.words)) == in_any_order(without_path(outcome))
