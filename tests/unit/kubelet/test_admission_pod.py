"""Reading pods: defaults, sums over containers, QoS classes, and what an API server would refuse."""

from fractions import Fraction
from typing import Any

import pytest

from numaforge.kubelet.admission.demand import Demand, Gates, qos_class
from numaforge.kubelet.admission.pod import Pod, PodError, pod_requests, shape_of_pod
from numaforge.kubelet.admission.qos import explain
from tests.fixtures.tables import cases

GIB = 2**30


def container(
    name: str = "c", *, restart: bool = False, requests: Any = None, **limits: Any
) -> dict[str, Any]:
    resources = {"limits": limits} | ({"requests": requests} if requests else {})
    return {"name": name, "resources": resources} | ({"restartPolicy": "Always"} if restart else {})


def pod(*containers: dict[str, Any], init: list[dict[str, Any]] | None = None, **more: Any) -> Pod:
    return Pod.from_manifest({"containers": list(containers), "initContainers": init or [], **more}, "p")


@cases(
    "shape, qos",
    {
        "limits alone": (pod(container(cpu=2, memory="1Gi")), "Guaranteed"),
        "fractional CPUs": (pod(container(cpu="1500m", memory="1Gi")), "Guaranteed"),
        "no memory limit": (pod(container(cpu=2)), "Burstable"),
        "a lower request": (pod(container(requests={"cpu": 1}, cpu=2, memory="1Gi")), "Burstable"),
        "a bare container": (pod(container(cpu=2, memory="1Gi"), container("b")), "Burstable"),
        "a loose init container": (
            pod(container(cpu=2, memory="1Gi"), init=[container("i", cpu=1)]),
            "Burstable",
        ),
        "equal values": (pod(container(cpu="1000m", requests={"cpu": 1}, memory="1Gi")), "Guaranteed"),
        "zero counts as nothing": (pod(container(cpu=0, memory=0)), "BestEffort"),
        "nothing": (pod(container()), "BestEffort"),
        "pod-level resources decide alone": (
            pod(container("b"), resources={"limits": {"cpu": 2, "memory": "1Gi"}}),
            "Guaranteed",
        ),
    },
)
def test_qos_class_matches_the_kubelet(shape, qos):
    assert qos_class(shape) == qos


def test_pod_level_resources_are_ignored_without_their_gate():
    shape = pod(container("b"), resources={"limits": {"cpu": 2, "memory": "1Gi"}})
    assert qos_class(shape, Gates(pod_level_resources=False)) == "BestEffort"


@cases(
    "shape, cpus",
    {
        "app containers run together": (pod(container("a", cpu=2), container("b", cpu=3)), 5),
        "an init container runs alone": (pod(container(cpu=2), init=[container("i", cpu=6)]), 6),
        "a sidecar runs beside the apps": (
            pod(container(cpu=2), init=[container("s", cpu=1, restart=True)]),
            3,
        ),
        "an init container runs beside the sidecars before it": (
            pod(container(cpu=2), init=[container("s", cpu=1, restart=True), container("i", cpu=4)]),
            5,
        ),
        "an init container runs before the sidecars after it": (
            pod(container(cpu=2), init=[container("i", cpu=4), container("s", cpu=1, restart=True)]),
            4,
        ),
        "overhead counts": (pod(container(cpu=2), overhead={"cpu": "250m"}), Fraction(9, 4)),
    },
)
def test_pod_request_is_its_peak_concurrent_need(shape, cpus):
    assert pod_requests(shape)["cpu"] == cpus


@pytest.mark.parametrize(
    ("cpu", "exclusive"),
    [("2", 2), ("2000m", 2), ("1500m", 0), ("0.5", 0), ("1e1", 10)],
    ids=["whole", "whole in thousandths", "fractional", "below one", "exponent"],
)
def test_only_whole_cpus_are_exclusive(cpu, exclusive):
    demand = Demand.of(pod(container(cpu=cpu, memory="1Gi")), Gates())
    assert (demand.cpus["c"], demand.pod_cpus) == (exclusive, exclusive)


def test_memory_with_a_fraction_of_a_byte_cannot_be_represented():
    assert Demand.of(pod(container(cpu=1, memory="1500m")), Gates()).memory["c"] is None


def test_a_deployment_is_read_by_its_template():
    manifest = {
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "prod"},
        "spec": {"template": {"spec": {"containers": [container(cpu=1)]}}},
    }
    assert Pod.from_manifest(manifest).name == "prod/web"


def test_cron_job_is_read_by_its_job_template():
    job = {"spec": {"template": {"spec": {"containers": [container(cpu=1)]}}}}
    manifest = {"kind": "CronJob", "metadata": {"name": "nightly"}, "spec": {"jobTemplate": job}}
    assert Pod.from_manifest(manifest).containers[0].whole_cpus == 1


@cases(
    "manifest, message",
    {
        "no pod in it": ({"kind": "Service", "spec": {}}, "holds no pod"),
        "no containers": ({"containers": []}, "at least one container"),
        "containers are no list": ({"containers": "x"}, "must be a list"),
        "a nameless container": ({"containers": [{}]}, "needs a name"),
        "one name twice": ({"containers": [container(), container()]}, "same name"),
        "a boolean": ({"containers": [container(cpu=True)]}, "not a Kubernetes quantity"),
        "an unknown suffix": (
            {"containers": [container(memory="8GB")]},
            "not a Kubernetes quantity\n.*example 8G,",
        ),
        "a negative quantity": ({"containers": [container(cpu="-1")]}, "is negative"),
        "a request above the limit": (
            {"containers": [container(requests={"cpu": 3}, cpu=2)]},
            "more than its limit",
        ),
        "half a GPU": ({"containers": [container(**{"nvidia.com/gpu": "500m"})]}, "not a whole number"),
        "a GPU requested only": (
            {"containers": [container(requests={"nvidia.com/gpu": 1})]},
            "without a limit",
        ),
        "huge pages requested only": (
            {"containers": [container(requests={"cpu": 1, "hugepages-2Mi": "2Mi"})]},
            "without a limit",
        ),
        "huge pages alone": (
            {"containers": [container(**{"hugepages-2Mi": "2Mi"})]},
            "huge pages without cpu or memory",
        ),
        "half a huge page": (
            {"containers": [container(cpu=1, **{"hugepages-2Mi": "3Mi"})]},
            "not a multiple of the page size",
        ),
        "a GPU of a whole pod": (
            {"containers": [container()], "resources": {"limits": {"nvidia.com/gpu": 1}}},
            "nvidia.com/gpu is not a resource of a whole pod",
        ),
        "a pod with less than its containers": (
            {"containers": [container(cpu=2)], "resources": {"requests": {"cpu": 1}}},
            "requests cpu 1, less than its containers",
        ),
        "containers with more than the limit of their pod": (
            {"containers": [container(cpu=2)], "resources": {"limits": {"cpu": 1}}},
            "requests cpu 2, more than its limit of 1",
        ),
        "a GPU beside the resources": (
            {"containers": [{"name": "c", "nvidia.com/gpu": 1}]},
            "'nvidia.com/gpu' is not a field of a container",
        ),
        "a misspelt section": (
            {"containers": [{"name": "c", "resources": {"limit": {"cpu": 1}}}]},
            "'resources.limit' is not a field of a container",
        ),
        "an unknown restartPolicy": (
            {"containers": [container()], "initContainers": [{"name": "i", "restartPolicy": "Once"}]},
            "'Once' is not a restartPolicy",
        ),
    },
)
def test_pod_invalid_for_the_api_server_is_refused(manifest, message):
    with pytest.raises(PodError, match=message):
        Pod.from_manifest(manifest)


@cases(
    "shape, changes",
    {
        "nothing to change": (pod(container(cpu=2, memory="1Gi")), []),
        "a request below its limit, and no memory limit": (
            pod(container(requests={"cpu": 1, "memory": "1Gi"}, cpu=2)),
            ["containers[0].resources.requests.cpu: 2", "containers[0].resources.limits.memory: 1Gi"],
        ),
        "an init container counts too": (
            pod(container(cpu=1, memory="1Gi"), init=[container("i", cpu=1)]),
            ["initContainers[0].resources.limits.memory: <set it>"],
        ),
        "fractional CPUs run on the shared pool": (
            pod(container(cpu="1500m", memory="1Gi")),
            ["containers[0].resources.limits.cpu: 2"],
        ),
        "pod-level resources switch pinning off": (
            pod(container(cpu=2), resources={"limits": {"cpu": 2, "memory": "1Gi"}}),
            ["resources: {}  (name the resources of each container instead)"],
        ),
    },
)
def test_field_to_change_is_named(shape, changes):
    assert [remark.change for remark in explain(shape)] == changes


def test_fractional_cpus_are_not_explained_without_exclusive_cpus():
    assert explain(pod(container(cpu="1500m", memory="1Gi")), cpu_manager_is_static=False) == ()


@cases(
    "other, alike, alike_without_names",
    {
        "the pod's own name is no part of it": (
            pod(container(cpu="1000m", memory="1Gi")).renamed("other"),
            True,
            True,
        ),
        "a container's name is, unless names are left out": (
            pod(container("other", cpu=1, memory="1Gi")),
            False,
            True,
        ),
        "what a container asks for": (pod(container(cpu=2, memory="1Gi")), False, False),
        "overhead": (pod(container(cpu=1, memory="1Gi"), overhead={"cpu": "1"}), False, False),
        "pod-level resources that are empty: the pod is BestEffort": (
            pod(container(cpu=1, memory="1Gi"), resources={}),
            False,
            False,
        ),
    },
)
def test_pod_shape_holds_only_fields_the_kubelet_reads(other, alike, alike_without_names):
    one = pod(container(cpu=1, memory="1Gi"))
    assert (shape_of_pod(one) == shape_of_pod(other)) is alike
    assert (shape_of_pod(one, names=False) == shape_of_pod(other, names=False)) is alike_without_names
