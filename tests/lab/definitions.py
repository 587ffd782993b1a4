"""The systems' own CustomResourceDefinitions, served by a real API server."""

from __future__ import annotations

from typing import Any

from lab.kwok import Fleet

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


def serve(fleet: Fleet, definition: dict[str, Any]) -> None:
    """Have an API server serve what a system has published, and wait until it does."""
    definition["metadata"].setdefault("annotations", {})["api-approved.kubernetes.io"] = (
        "unapproved, for a test"
    )
    fleet.send("POST", DEFINITIONS, definition)
    path = f"{DEFINITIONS}/{definition['metadata']['name']}"
    fleet.wait_until(lambda: is_served(fleet, path), f"{definition['metadata']['name']} is not served")


def is_served(fleet: Fleet, path: str) -> bool:
    conditions = (fleet.control_plane.get(path).get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
