"""Hosts whose kubelet a run sets up."""

from typing import Any

from tests.ssh.sandbox import Sandbox

PROFILE: dict[str, Any] = {
    "name": "sandbox",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "memory": {"system_reserved": "1Gi"},
    "kubelet": {"cpu_manager_policy": "static"},
}


# A start that fails says so at once. One that comes has time on a machine with something else to do.
KUBELET_WAIT = {"kubelet_start_seconds": 60, "kubelet_stable_seconds": 1}


def data(node: Sandbox, **changes: object) -> dict[str, dict[str, object]]:
    return {"node": {**node.data(), **KUBELET_WAIT, "numaforge_profile": PROFILE, **changes}}


def with_kubelet(**kubelet: object) -> dict[str, Any]:
    return {**PROFILE, "kubelet": {**PROFILE["kubelet"], **kubelet}}


def starts(node: Sandbox) -> int:
    return node.path("/run/systemctl.log").read_text().count("start kubelet.service")
