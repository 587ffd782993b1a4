"""`numaforge rollout` as an admin runs it against the lab, watched line by line, and killed on demand."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.cluster import Lab
from lab.node import Node
from lab.paths import REPOSITORY
from tests.fixtures.processes import kill_tree

MARK = "numaforge.io/rollout"
"""The annotation of a node that a roll-out has cordoned."""
CPU_STATE = "/var/lib/kubelet/cpu_manager_state"
PROFILE: dict[str, Any] = {
    "extends": "inference-mig",
    "name": "lab",
    "memory": {
        "kube_reserved": "256Mi",
        "system_reserved": "256Mi",
        "eviction_hard": {"memory.available": "100Mi"},
    },
    "mig": {"gpus": []},  # without a driver nothing can cut GPUs
    "maintenance": {"rehearsal": "never"},  # a minute on an emulated node; test_rehearsal.py has it
}
"""The kubelet's part of the lab's profile."""
HEALTHY = "for _ in $(seq 240); do curl -fs http://127.0.0.1:10248/healthz && break; sleep 0.5; done"
QUICK = {"drain_timeout": 300, "ready_timeout": 300, "settle_seconds": 2}
WITHOUT_POLICY: dict[str, Any] = {
    **PROFILE,
    "kubelet": {
        "cpu_manager_policy": "none",
        "memory_manager_policy": "None",
        "topology_manager_policy": "none",
    },
}


def inventory(
    lab: Lab,
    folder: Path,
    *,
    profile: Mapping[str, Any] | None = None,
    only: Collection[str] | None = None,
    start_seconds: int = 300,
    **options: object,
) -> Path:
    """Write the lab's nodes, or some, as an inventory with a profile and options of the roll-out."""
    folder.mkdir(exist_ok=True)
    path = folder / "inventory.py"
    hosts = [
        (
            name,
            {
                **data,
                "numaforge_profile": dict(profile or PROFILE),
                "numaforge_rollout": {**data["numaforge_rollout"], **options},
                "kubelet_start_seconds": start_seconds,
                "kubelet_stable_seconds": 3,
            },
        )
        for name, data in lab.inventory().items()
        if only is None or name in only
    ]
    path.write_text(f"nodes = {hosts!r}\n")
    return path


def program(
    *command: str, stderr: int = subprocess.STDOUT, timeout_s: float = 900, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program of this Python's environment in the repository, whether or not it fails."""
    return subprocess.run(
        [str(Path(sys.executable).with_name(command[0])), *command[1:]],
        cwd=REPOSITORY,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def rehearsed(lab: Lab, folder: Path, profile: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return the exit code of `numaforge rehearse` for the first node, and what it says of that node."""
    file = inventory(lab, folder, profile=profile, start_seconds=2400)
    done = program("numaforge", "rehearse", "-o", "json", str(file), stderr=subprocess.PIPE)
    report = json.loads(done.stdout)
    assert not report["failed"], report
    return done.returncode, report["hosts"][lab.nodes[0].name]


@contextmanager
def running(*command: str) -> Iterator[None]:
    """Run a program of this Python's environment in the repository meanwhile, and kill it then."""
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name(command[0])), *command[1:]],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        kill_tree(process)


def in_repository(*command: str, timeout_s: float = 900) -> str:
    """Return what a program of this Python's environment prints that has to succeed."""
    done = program(*command, stderr=subprocess.PIPE, timeout_s=timeout_s)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass
class Rollout:
    """A running `numaforge rollout`; `events` are the JSON lines that it has printed so far."""

    process: subprocess.Popen[str]
    events: list[dict[str, Any]] = field(default_factory=list)

    def await_phase(self, *phases: str) -> dict[str, Any]:
        """Read on until a node is in one of the phases."""
        return self.await_event(lambda event: event.get("phase") in phases, f"before {phases}")

    def await_event(
        self, wanted: Callable[[dict[str, Any]], bool], otherwise: str = "without it"
    ) -> dict[str, Any]:
        """Read on until an event is as wanted."""
        for event in self._lines():
            if wanted(event):
                return event
        raise AssertionError(f"it ended {otherwise}: {self.events}\n{self.errors()}")

    def end(self) -> int:
        """Read to the end and return the exit code."""
        for _ in self._lines():
            pass
        return self.process.wait()

    @property
    def report(self) -> dict[str, Any]:
        """What it said last, nothing where it has refused to begin."""
        return self.events[-1] if self.events else {}

    def errors(self) -> str:
        """Return what it complained of, once it has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read() if self.process.poll() is not None else ""

    def kill(self) -> None:
        """Kill it and its runs of pyinfra with SIGKILL, as the kernel does when memory runs out."""
        kill_tree(self.process)

    def _lines(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))
            yield self.events[-1]


STARTED: list[Rollout] = []
"""What this test has started."""


def begin(
    verb: str,
    inventory_file: Path,
    *arguments: str,
    state: Path,
    output: str = "json",
    deploy: str = "deploys/kubelet.py",
) -> Rollout:
    """Start `numaforge rollout VERB`, with its logs below `state`."""
    command = [str(Path(sys.executable).with_name("numaforge")), "rollout", verb, "-o", output, *arguments]
    started = Rollout(
        subprocess.Popen(
            [*command, "--deploy", deploy, str(inventory_file)],
            cwd=REPOSITORY,
            env=os.environ | {"XDG_STATE_HOME": str(state)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    )
    STARTED.append(started)
    return started


def kubectl(lab: Lab, *arguments: str, manifest: object = None) -> str:
    """Run kubectl against the lab, with a manifest on its standard input."""
    return lab.kubectl(*arguments, input_text=None if manifest is None else json.dumps(manifest))


def deployment(name: str, replicas: int, **spec: object) -> dict[str, Any]:
    """Return a Deployment of pods that do nothing and end at once."""
    container = {
        "name": "work",
        "image": "lab.example/pause:1",
        "imagePullPolicy": "Never",
        "resources": {"requests": {"cpu": "100m", "memory": "16Mi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "automountServiceAccountToken": False,
                    "containers": [container],
                    **spec,
                },
            },
        },
    }


def budget(name: str, minimum: int) -> dict[str, Any]:
    """Return a PodDisruptionBudget that wants so many pods of a Deployment."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": minimum, "selector": {"matchLabels": {"app": name}}},
    }


def policy(node: Node) -> str:
    """Return the CPU manager policy that the kubelet of a node runs with."""
    return str(json.loads(node.run(f"cat {CPU_STATE}"))["policyName"])


def applied(node: Node) -> int:
    """Count the transactions that changed a node."""
    results = node.run("cat /var/lib/numaforge/txn/*/result.json 2>/dev/null || true")
    return results.count('"outcome": "applied"')


def free(lab: Lab, node: Node) -> bool:
    """Say whether nothing of a roll-out is left of a node in the cluster."""
    found = lab.get("node", node.name)
    slots = [
        lease
        for lease in lab.get("leases", "--namespace=numaforge")["items"]
        if lease["metadata"]["name"].startswith("numaforge-slot-")
        and lease["metadata"].get("annotations", {}).get("numaforge.io/node") == node.name
    ]
    marked = MARK in found["metadata"]["annotations"]
    return not found["spec"].get("unschedulable") and not marked and not slots


def await_deployment(lab: Lab, name: str, patience_s: float = 240) -> None:
    """Return when all pods of a Deployment are available."""
    kubectl(lab, "rollout", "status", f"deployment/{name}", f"--timeout={patience_s:.0f}s")


def await_budget(lab: Lab, name: str, allowed: int, patience_s: float = 240) -> None:
    """Return when the disruption controller has counted."""
    deadline = time.monotonic() + patience_s
    while True:
        status = lab.get("poddisruptionbudget", name).get("status", {})
        if status.get("disruptionsAllowed") == allowed and status.get("expectedPods"):
            return
        assert time.monotonic() < deadline, status
        time.sleep(0.5)


def phases(state: Path, node: Node) -> list[str]:
    """Return all phases of a node in the last roll-out; those that pass quickly are not printed."""
    last = max((state / "numaforge/rollouts").iterdir())
    told = map(json.loads, (last / f"{node.name}.events").read_text().splitlines())
    return [event["phase"] for event in told if event["kind"] == "progress"]
