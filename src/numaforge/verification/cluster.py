"""A node as its cluster shows it, read through kubectl with the kubeconfig's login."""

import json
from functools import cache
from typing import Any

import pytest

from numaforge.lib import bounded
from numaforge.lib.errors import NumaforgeError


class ApiServer:
    """The API server that a kubeconfig names; each answer is fetched once."""

    def __init__(self, kubeconfig: str) -> None:
        self.kubeconfig = kubeconfig
        self._get = cache(self._ask)

    def running_config(self, node_name: str) -> dict[str, Any]:
        """Return the running KubeletConfiguration of the node's kubelet: its own /configz."""
        config: dict[str, Any] = self._get(f"/api/v1/nodes/{node_name}/proxy/configz")["kubeletconfig"]
        return config

    def resources(self, node_name: str, which: str) -> dict[str, str]:
        """Return quantities by resource name: the node's "allocatable", or its "capacity"."""
        quantities: dict[str, str] = self._get(f"/api/v1/nodes/{node_name}")["status"][which]
        return quantities

    def unschedulable(self, node_name: str) -> bool:
        return bool(self._get(f"/api/v1/nodes/{node_name}")["spec"].get("unschedulable"))

    def _ask(self, path: str) -> Any:
        command = ["kubectl", "--kubeconfig", self.kubeconfig, "--request-timeout=20s", "get", "--raw", path]
        try:
            answer = bounded.run(command, where=f"kubectl get --raw {path}", timeout=60)
        except NumaforgeError as error:
            pytest.fail(str(error), pytrace=False)
        except OSError as error:
            pytest.fail(f"cannot run kubectl: {error.strerror}; --kubeconfig needs it in PATH", pytrace=False)
        if answer.returncode:
            stderr = answer.stderr.decode(errors="replace").strip()
            pytest.fail(f"kubectl get --raw {path}: {stderr}", pytrace=False)
        return json.loads(answer.stdout)
