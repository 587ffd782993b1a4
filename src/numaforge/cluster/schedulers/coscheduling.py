"""Coscheduling of scheduler-plugins: a gang of the size that fits."""

from collections.abc import Iterator

from numaforge.cluster.schedulers.fleet import ServedFleet, Written, example_job, gang_template
from numaforge.lib.kubernetes_objects import manifest

WHY = "an example of a gang: it starts when all of its pods can, each the largest that every node takes"
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
_GANG = "numaforge-example"


def documents(fleet: ServedFleet) -> Iterator[Written]:
    """Yield the PodGroup and the Job of its pods, without minResources, compared with the sum of all nodes.

    A gang refused for it may wait five minutes after resources are free: the plugin retries pods when pods or
    PodGroups are added, not when pods end or nodes join (pkg/coscheduling, EventsToRegister).
    """
    count = len(fleet.nodes)
    group = {"minMember": count, "scheduleTimeoutSeconds": 120}
    template = gang_template(fleet, {GROUP_LABEL: _GANG}, schedulerName="scheduler-plugins-scheduler")
    pod_group = manifest("scheduling.x-k8s.io/v1alpha1", "PodGroup", _GANG, "default", {}, spec=group)
    why = "schedulerName is that of your second scheduler"
    yield Written("example.yaml", why, (pod_group, example_job(_GANG, count, template)), example=True)
