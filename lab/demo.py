"""The whole path on one virtual node: provision it, verify it, and show where a pod was pinned."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from lab.cluster import Lab
from lab.errors import LabError
from lab.node import Node
from lab.paths import LAB, REPOSITORY
from lab.progress import step
from numaforge.cpulist import format_cpulist

POD = LAB / "pinned-pod.yaml"
POD_NAME = "pinned"
RUNNING_WITHIN_S = 90
PLAN_ON_HOST = "/etc/numaforge/plan.json"


def show(lab: Lab) -> None:
    """Run the demonstration against a running lab; every command is printed as a user would type it."""
    node = lab.nodes[0]
    out = lab.state / "demo"
    out.mkdir(exist_ok=True)
    inventory = "inventories/lab"
    _run("pyinfra", "-y", "--limit", node.name, inventory, "deploys/site.py")
    ssh_config, kubeconfig = _relative(lab.state / "ssh_config"), _relative(lab.kubeconfig)
    _run(
        *("pytest", "-q", "tests/node", f"--hosts=ssh://{node.name}"),
        *(f"--ssh-config={ssh_config}", f"--kubeconfig={kubeconfig}"),
        environment={"PATH": f"{lab.control_plane.kubectl().parent}{os.pathsep}{os.environ['PATH']}"},
    )
    _show_pinned_pod(lab, node)
    plan = out / f"{node.name}.plan.json"
    plan.write_text(node.run(f"cat {PLAN_ON_HOST}"))
    snapshot, picture = out / f"{node.name}.snapshot.json", out / f"{node.name}.svg"
    snapshot.write_text(_captured(node))
    _run("numaforge", "plan", _relative(snapshot), "--profile", json.loads(plan.read_text())["profile"])
    _run("numaforge", "draw", _relative(snapshot), "-o", _relative(picture))
    print(f"\nThe node's picture: {picture}")


def _captured(node: Node) -> str:
    """Return the node's snapshot as `numaforge capture` saves it."""
    from numaforge.snapshot import parse_output, script

    return parse_output(node.run("sh -s", input_text=script())).to_json()


def _show_pinned_pod(lab: Lab, node: Node) -> None:
    """Start the pod on the node and print the CPUs, the memory and the NUMA node that the kubelet gave it."""
    kubectl = [str(lab.control_plane.kubectl()), f"--kubeconfig={lab.kubeconfig}"]
    subprocess.run(
        [*kubectl, "delete", "pod", POD_NAME, "--ignore-not-found", "--wait"], check=True, capture_output=True
    )
    with step(f"start the pod of {_relative(POD)}"):
        subprocess.run([*kubectl, "create", "-f", str(POD)], check=True, capture_output=True)
        uid = _await_running(lab)
    cpus = json.loads(node.run("cat /var/lib/kubelet/cpu_manager_state"))["entries"][uid]["work"]
    blocks = json.loads(node.run("cat /var/lib/kubelet/memory_manager_state"))["entries"][uid]["work"]
    memory = ", ".join(
        f"{block['size'] // 2**20} MiB {block['type']} on NUMA node {format_cpulist(block['numaAffinity'])}"
        for block in blocks
    )
    numa = node.run(
        "for n in /sys/devices/system/node/node[0-9]*; do echo ${n##*node} $(cat $n/cpulist); done"
    )
    print(f"\nPod {POD_NAME} runs on CPUs {cpus}; {memory}.\nNUMA nodes and their CPUs:\n{numa}", flush=True)


def _await_running(lab: Lab) -> str:
    """Return the pod's UID once it runs; raise with the kubelet's reason when it was refused."""
    deadline = time.monotonic() + RUNNING_WITHIN_S
    while time.monotonic() < deadline:
        pod: dict[str, Any] = lab.control_plane.get(f"/api/v1/namespaces/default/pods/{POD_NAME}")
        match pod["status"].get("phase"):
            case "Running":
                return str(pod["metadata"]["uid"])
            case "Failed":
                raise LabError(f"the pod was refused: {pod['status'].get('message')}", where=POD_NAME)
        time.sleep(0.2)
    raise LabError(f"the pod does not run after {RUNNING_WITHIN_S} s", where=POD_NAME)


def _run(program: str, *arguments: str, environment: dict[str, str] | None = None) -> None:
    """Print a command and run it from the repository; raise when it fails."""
    print(f"\n$ {shlex.join([program, *arguments])}", flush=True)
    executable = Path(sys.executable).parent / program
    done = subprocess.run(
        [str(executable), *arguments], cwd=REPOSITORY, env=os.environ | (environment or {}), check=False
    )
    if done.returncode != 0:
        raise LabError(f"{program} ended with {done.returncode}")


def _relative(path: Path) -> str:
    return str(path.relative_to(REPOSITORY)) if path.is_relative_to(REPOSITORY) else str(path)
