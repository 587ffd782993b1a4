"""Drivers of dynamic resource allocation on a node: the CPU driver itself, and a stand-in for NVIDIA's.

Each is built from its module, copied to the node over SSH, and run there as a unit of systemd with the login
that its chart would give it.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from lab import gobuild
from lab.cluster import Lab
from lab.errors import LabError
from lab.gobuild import Component
from lab.node import Node

NAMESPACE = "kube-system"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_KUBELET_LOGIN = "/etc/kubernetes/kubelet.conf"
_FOLDER = "/var/lib/lab-drivers"
_LOGIN_LASTS = "24h"
_PUBLISHED_WITHIN_S = 240
_RULES = (
    ("", ("nodes",), ("get",)),
    ("", ("pods",), ("get", "list", "watch")),
    ("resource.k8s.io", ("resourceslices",), ("list", "watch", "create", "update", "delete")),
    ("resource.k8s.io", ("resourceclaims", "deviceclasses"), ("get",)),
    ("resource.k8s.io", ("resourceclaims/status",), ("patch", "update")),
)
"""The permissions in the charts of both drivers."""


@dataclass(frozen=True)
class Driver:
    """A driver: how slices and its device class call it, its program, and how it is told its node."""

    name: str
    component: Component
    program: str
    node_option: str
    selector: str
    of_class: Mapping[str, Any] = field(default_factory=dict)
    """The fields of its class besides the selector."""

    @property
    def unit(self) -> str:
        return f"lab-{self.name}.service"

    @property
    def account(self) -> str:
        return self.name.replace(".", "-")

    @property
    def path(self) -> str:
        return f"{_FOLDER}/{self.program}"

    @property
    def login(self) -> str:
        return f"{_FOLDER}/{self.account}.kubeconfig"


CPUS = Driver("dra.cpu", gobuild.CPU_DRIVER, "dracpu", "--hostname-override", 'device.driver == "dra.cpu"')
GPUS = Driver(
    "gpu.nvidia.com",
    gobuild.GPU_DRIVER,
    "gpudriver",
    "--node-name",
    "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'",
    {"extendedResourceName": "nvidia.com/gpu"},
)
DRIVERS = {"cpu": CPUS, "gpu": GPUS}
"""By their names on the command line."""


def start(lab: Lab, node: Node, driver: Driver, *arguments: str) -> None:
    """Run a driver on a node with these arguments, and return when its ResourceSlices are there.

    One that runs there is replaced.
    """
    stop(lab, node, driver)
    lab.kubectl("apply", "-f", "-", input_text=json.dumps(_objects(driver)))
    _install(lab, node, driver)
    command = [driver.path, f"--kubeconfig={driver.login}", f"{driver.node_option}={node.name}", *arguments]
    # Like kubectl's deletion of a pod; the CPU driver takes leave of kubelet and runtime at SIGINT alone.
    service = ["systemd-run", f"--unit={driver.unit}", "--property=KillSignal=SIGINT", *command]
    node.run(shlex.join(service))
    deadline = time.monotonic() + _PUBLISHED_WITHIN_S
    while not published(lab, node, driver):
        if time.monotonic() > deadline or node.try_run(f"systemctl is-active {driver.unit}").returncode != 0:
            log = node.run(f"journalctl -u {driver.unit} -n 30 --no-pager -o cat")
            raise LabError(f"{driver.name} publishes nothing:\n{log}", where=node.name)
        time.sleep(0.2)


def stop(lab: Lab, node: Node, driver: Driver) -> None:
    """End a driver on a node, and remove its slices, which the kubelet would do after half a minute."""
    node.run(
        f"systemctl stop {driver.unit} 2>/dev/null; systemctl reset-failed {driver.unit} 2>/dev/null; true"
    )
    chosen = f"spec.driver={driver.name},spec.nodeName={node.name}"
    lab.kubectl("delete", "resourceslices", f"--field-selector={chosen}")


def published(lab: Lab, node: Node, driver: Driver) -> list[dict[str, Any]]:
    """Return the ResourceSlices of a driver for a node."""
    found = lab.control_plane.get(SLICES)["items"]
    return [
        each
        for each in found
        if (each["spec"]["driver"], each["spec"].get("nodeName")) == (driver.name, node.name)
    ]


def _install(lab: Lab, node: Node, driver: Driver) -> None:
    node.run(f"mkdir -p -m 700 {_FOLDER}")
    if node.try_run(f"test -x {driver.path}").returncode != 0:
        program = gobuild.build(driver.component) / driver.program
        copy = (
            f"cat >{driver.path}.copy && chmod 755 {driver.path}.copy && mv {driver.path}.copy {driver.path}"
        )
        with program.open("rb") as content:
            subprocess.run([*node.ssh_arguments(), copy], stdin=content, check=True)
    login = yaml.safe_load(node.run(f"cat {_KUBELET_LOGIN}"))
    token = lab.kubectl(
        "create", "token", driver.account, f"--namespace={NAMESPACE}", f"--duration={_LOGIN_LASTS}"
    )
    login["users"][0]["user"] = {"token": token.strip()}
    node.run(f"cat >{driver.login}", input_text=yaml.safe_dump(login))


def _objects(driver: Driver) -> dict[str, Any]:
    """Return the objects that a chart installs besides the DaemonSet."""
    rbac, named = "rbac.authorization.k8s.io", {"name": driver.account}
    role = {"apiGroup": rbac, "kind": "ClusterRole", **named}
    rules = [
        {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
        for group, resources, verbs in _RULES
    ]
    account = {"kind": "ServiceAccount", **named, "namespace": NAMESPACE}
    binding = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", "metadata": named}
    spec = {"selectors": [{"cel": {"expression": driver.selector}}], **driver.of_class}
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**named, "namespace": NAMESPACE}},
            {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": named, "rules": rules},
            {**binding, "roleRef": role, "subjects": [account]},
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": driver.name},
                "spec": spec,
            },
        ],
    }
