"""Pods that hold what they ask for until a test deletes them."""

import time
from typing import Any

import pytest

from lab.cluster import Lab

RUNNING_WITHIN_S = 240


def pod(name: str, resources: dict[str, str]) -> dict[str, object]:
    container = {
        "name": "work",
        "image": "lab.example/busybox:1",
        "imagePullPolicy": "Never",
        "command": ["sleep", "100000"],
        "resources": {"limits": resources, "requests": resources},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"test": "placement"}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [container],
        },
    }


def make_runnable(job: dict[str, Any]) -> None:
    """Give a Job an image that the lab's nodes have, which waits."""
    spec = job["spec"]["template"]["spec"]
    own: Any = pod("", {})["spec"]
    [container] = own.pop("containers")
    spec |= own
    spec["containers"][0] |= {key: container[key] for key in ("image", "imagePullPolicy", "command")}


def uid_of_running(lab: Lab, name: str) -> str:
    """Return the UID of a pod once it runs."""
    deadline = time.monotonic() + RUNNING_WITHIN_S
    while time.monotonic() < deadline:
        document = lab.control_plane.get(f"/api/v1/namespaces/default/pods/{name}")
        phase = document["status"].get("phase")
        if phase == "Running":
            return str(document["metadata"]["uid"])
        assert phase != "Failed", document["status"]
        time.sleep(0.3)
    pytest.fail(f"the pod {name} does not run: {document['status']}")
