"""Coscheduling of scheduler-plugins: a gang of the size that fits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numaforge.schedulers.fleet import (
    ServedFleet,
    Written,
    example_container,
    example_job,
    gang_pod,
    gang_resources,
)

NAME = "coscheduling"
WHY = "an example of a gang: it starts when all of its pods can, each the largest that every node takes"
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
_GANG = "numaforge-example"


def documents(fleet: ServedFleet) -> Iterator[Written]:
    """Yield the PodGroup and the Job of its pods."""
    why = "schedulerName is that of your second scheduler"
    yield Written("example.yaml", why, _example(fleet), example=True)


def _example(fleet: ServedFleet) -> tuple[dict[str, Any], ...]:
    count, container = len(fleet.nodes), example_container(gang_pod(fleet))
    group = {"minMember": count, "scheduleTimeoutSeconds": 120, "minResources": gang_resources(fleet)}
    template = {
        "metadata": {"labels": {GROUP_LABEL: _GANG}},
        "spec": {
            "schedulerName": "scheduler-plugins-scheduler",
            "restartPolicy": "OnFailure",
            "containers": [container],
        },
    }
    return (
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": _GANG, "namespace": "default"},
            "spec": group,
        },
        example_job(_GANG, count, template),
    )
