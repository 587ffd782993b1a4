"""The systems' own CustomResourceDefinitions, served by a real API server."""

from __future__ import annotations

import subprocess

import yaml

from lab.kwok import Fleet
from tests.fixtures.crd_schemas import SCHEMAS

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REQUIRED_OF_CLUSTER_POLICY = (
    "operator",
    "daemonsets",
    "driver",
    "toolkit",
    "devicePlugin",
    "gfd",
    "dcgm",
    "dcgmExporter",
    "nodeStatusExporter",
)


def serve(fleet: Fleet, name: str) -> None:
    """Have an API server serve what a system has published, and wait until it does."""
    serve_definitions(fleet, name, (SCHEMAS / f"{name}.yaml").read_text())


def serve_definitions(fleet: Fleet, name: str, text: str) -> None:
    """Have an API server serve the definitions in a YAML text, and wait until it does."""
    for definition in filter(None, yaml.safe_load_all(text)):
        definition["metadata"].setdefault("annotations", {})["api-approved.kubernetes.io"] = (
            "unapproved, for a test"
        )
        fleet.send("POST", DEFINITIONS, definition)
        path = f"{DEFINITIONS}/{definition['metadata']['name']}"
        fleet.wait_until(lambda path=path: is_served(fleet, path), f"{name} is not served")  # type: ignore[misc]


def is_served(fleet: Fleet, path: str) -> bool:
    conditions = (fleet.control_plane.get(path).get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def kubectl(fleet: Fleet, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(fleet.control_plane.kubectl()), f"--kubeconfig={fleet.kubeconfig}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)
