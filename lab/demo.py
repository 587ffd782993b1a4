"""The whole path on one virtual node: provision it, verify it, and show where a pod was pinned."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.cluster import Lab
from lab.errors import LabError
from lab.node import Node
from lab.paths import LAB, REPOSITORY
from lab.progress import step
from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.lib.file_content import PLAN_PATH

POD = LAB / "pinned-pod.yaml"
POD_NAME = "pinned"
CONTAINER = "work"
RUNNING_WITHIN_S = 90
KUBELET = "/var/lib/kubelet"
_KEPT = f"""
printf '{{"cpus": '; cat {KUBELET}/cpu_manager_state
printf ', "memory": '; cat {KUBELET}/memory_manager_state
printf ', "devices": '; cat {KUBELET}/device-plugins/kubelet_internal_checkpoint
printf ', "numa_nodes": {{'; between=
for n in /sys/devices/system/node/node[0-9]*; do
    printf '%s"%s": "%s"' "$between" "${{n##*node}}" "$(cat "$n/cpulist")"; between=', '
done
echo '}}}}'
"""
"""A script that prints what the kubelet keeps as one JSON."""


def show(lab: Lab) -> None:
    """Run the demonstration against a running lab; every command is printed as a user would type it."""
    node = lab.nodes[0]
    out = lab.state / "demo"
    out.mkdir(exist_ok=True)
    inventory = "inventories/lab"
    _run("pyinfra", "-y", "--limit", node.name, inventory, "deploys/site.py")
    kubeconfig = f"--kubeconfig={_relative(lab.kubeconfig)}"
    with step(f"create the pod of {_relative(POD)}, which starts while the node is verified"):
        _create_pod(lab)
    _run(
        *("numaforge", "verify", f"--limit={node.name}", kubeconfig, inventory),
        environment={"PATH": f"{lab.control_plane.kubectl().parent}{os.pathsep}{os.environ['PATH']}"},
    )
    plan, picture = out / f"{node.name}.plan.json", out / f"{node.name}.svg"
    with _logged_in(node) as run:
        plan.write_text(run(f"cat {PLAN_PATH}"))
        _run("numaforge", "plan", _relative(plan))
        _run("numaforge", "draw", _relative(plan), "--to", _relative(picture))
        with step("wait until the pod runs"):
            uid = _await_running(lab)
        _show_pinned_pod(uid, json.loads(run(_KEPT)))
    print(f"\nThe node's picture: {picture}")


@contextmanager
def _logged_in(node: Node) -> Iterator[Callable[[str], str]]:
    """Log in once, which an emulated CPU takes half a second to; give what returns the output of scripts."""
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*node.ssh_arguments(), "sh"], **pipes) as shell:

        def run(script: str) -> str:
            print(f"{script}\nprintf '\\0\\n'", file=shell.stdin, flush=True)
            lines: list[str] = []
            for line in shell.stdout or ():
                if line == "\0\n":
                    return "".join(lines)
                lines.append(line)
            raise LabError("the login has ended", where=node.name)

        yield run


def _create_pod(lab: Lab) -> None:
    lab.kubectl("delete", "pod", POD_NAME, "--ignore-not-found", "--wait")
    lab.kubectl("create", "-f", str(POD))


def _show_pinned_pod(uid: str, kept: Mapping[str, Any]) -> None:
    """Print the CPUs, the memory and the GPU that the kubelet gave the pod, by the files that it keeps."""
    cpus = kept["cpus"]["entries"][uid][CONTAINER]
    lines = [f"CPUs {cpus} of NUMA node {_numa_nodes_of(cpus, kept['numa_nodes'])}"]
    lines += [
        f"{block['size'] // 2**20} MiB {block['type']} on NUMA node {format_cpulist(block['numaAffinity'])}"
        for block in kept["memory"]["entries"][uid][CONTAINER]
    ]
    lines += [
        f"{entry['ResourceName']} {', '.join(ids)} on NUMA node {numa_node}"
        for entry in kept["devices"]["Data"]["PodDeviceEntries"]
        if entry["PodUID"] == uid
        for numa_node, ids in entry["DeviceIDs"].items()
    ]
    print(f"\nThe kubelet gave the pod {POD_NAME}:", *lines, sep="\n  ", flush=True)


def _numa_nodes_of(cpus: str, numa_nodes: Mapping[str, str]) -> str:
    """Return the NUMA nodes that hold CPUs, as a list in the kernel's notation."""
    wanted = parse_cpulist(cpus)
    return format_cpulist(int(number) for number, held in numa_nodes.items() if parse_cpulist(held) & wanted)


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
