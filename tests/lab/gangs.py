"""Gangs of Kubernetes' own scheduler, as an API server has them."""

from typing import Any

from lab.kwok import KwokNodes

GATES, VERSION = ("GenericWorkload",), "v1beta1"
SERVED = (f"scheduling.k8s.io/{VERSION}",)
GROUPS = f"/apis/scheduling.k8s.io/{VERSION}/namespaces/default/podgroups"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"


def bound(cluster: KwokNodes, job: str) -> list[str]:
    """Return the nodes of those pods of a Job that have one."""
    return [
        pod["spec"]["nodeName"]
        for pod in cluster.get(f"{PODS}?labelSelector=job-name={job}")["items"]
        if pod["spec"].get("nodeName")
    ]


def conditions(cluster: KwokNodes, group: str) -> dict[str, tuple[str, str]]:
    """Return status and reason of a PodGroup's conditions, by type."""
    found = cluster.get(f"{GROUPS}/{group}").get("status") or {}
    return {each["type"]: (each["status"], each["reason"]) for each in found.get("conditions") or ()}


def create_unplaced(cluster: KwokNodes, group: dict[str, Any], job: dict[str, Any], pods: int) -> None:
    """Create a gang, and return when the scheduler has tried its pods and says that it places none."""
    cluster.send("POST", GROUPS, group)
    cluster.send("POST", JOBS, job)
    cluster.wait_until(lambda: len(cluster.get(PODS)["items"]) == pods, "the Job has not made its pods")
    name = group["metadata"]["name"]
    cluster.wait_until(
        lambda: conditions(cluster, name).get("PodGroupInitiallyScheduled") == ("False", "Unschedulable"),
        "the gang is not called unschedulable",
    )
