"""Coscheduling of scheduler-plugins: a gang of the size that fits."""

from collections.abc import Iterator
from typing import Any

from numaforge.cluster.schedulers.fleet import ServedFleet, Written, example_job, gang_template

NAME = "coscheduling"
WHY = "an example of a gang: it starts when all of its pods can, each the largest that every node takes"
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
_GANG = "numaforge-example"


def documents(fleet: ServedFleet) -> Iterator[Written]:
    """Yield the PodGroup and the Job of its pods."""
    why = "schedulerName is that of your second scheduler"
    yield Written("example.yaml", why, _example(fleet), example=True)


def _example(fleet: ServedFleet) -> tuple[dict[str, Any], ...]:
    """Return the documents, without minResources, which is compared with the sum of all nodes.

    A gang refused for it may wait five minutes after resources are free: the plugin retries pods when pods or
    PodGroups are added, not when pods end or nodes join (pkg/coscheduling, EventsToRegister).
    """
    count = len(fleet.nodes)
    group = {"minMember": count, "scheduleTimeoutSeconds": 120}
    template = gang_template(fleet, {GROUP_LABEL: _GANG}, schedulerName="scheduler-plugins-scheduler")
    return (
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": _GANG, "namespace": "default"},
            "spec": group,
        },
        example_job(_GANG, count, template),
    )
