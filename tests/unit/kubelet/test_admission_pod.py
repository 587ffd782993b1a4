"""Reading pods: defaults, sums over containers, QoS classes, and what an API server would refuse."""

from fractions import Fraction
from typing import Any

import pytest

from numaforge.kubelet.admission.demand import Demand, Gates, qos_class
from numaforge.kubelet.admission.pod import Pod, PodError, pod_requests, shape_of_pod
from numaforge.kubelet.admission.qos import explain

GIB = 2**30


def container(
    name: str = "c", *, restart: bool = False, requests: Any = None, **limits: Any
) -> dict[str, Any]:
    resources = {"limits": limits} | ({"requests": requests} if requests else {})
    return {"name": name, "resources": resources} | ({"restartPolicy": "Always"} if restart else {})


def pod(*containers: dict[str, Any], init: list[dict[str, Any]] | None = None, **more: Any) -> Pod:
    return Pod.from_manifest({"containers": list(containers), "initContainers": init or [], **more}, "p")


@pytest.mark.parametrize(
    ("shape", "qos"),
    [
        pytest.param(pod(container(cpu=2, memory="1Gi")), "Guaranteed", id="limits alone"),
        pytest.param(pod(container(cpu="1500m", memory="1Gi")), "Guaranteed", id="fractional CPUs"),
        pytest.param(pod(container(cpu=2)), "Burstable", id="no memory limit"),
        pytest.param(
            pod(container(requests={"cpu": 1}, cpu=2, memory="1Gi")), "Burstable", id="a lower request"
        ),
        pytest.param(pod(container(cpu=2, memory="1Gi"), container("b")), "Burstable", id="a bare container"),
        pytest.param(
            pod(container(cpu=2, memory="1Gi"), init=[container("i", cpu=1)]),
            "Burstable",
            id="a loose init container",
        ),
        pytest.param(
            pod(container(cpu="1000m", requests={"cpu": 1}, memory="1Gi")), "Guaranteed", id="equal values"
        ),
        pytest.param(pod(container(cpu=0, memory=0)), "BestEffort", id="zero counts as nothing"),
        pytest.param(pod(container()), "BestEffort", id="nothing"),
        pytest.param(
            pod(container("b"), resources={"limits": {"cpu": 2, "memory": "1Gi"}}),
            "Guaranteed",
            id="pod-level resources decide alone",
        ),
    ],
)
def test_qos_class_matches_the_kubelet(shape, qos):
    assert qos_class(shape) == qos


def test_pod_level_resources_are_ignored_without_their_gate():
    shape = pod(container("b"), resources={"limits": {"cpu": 2, "memory": "1Gi"}})
    assert qos_class(shape, Gates(pod_level_resources=False)) == "BestEffort"


@pytest.mark.parametrize(
    ("shape", "cpus"),
    [
        pytest.param(pod(container("a", cpu=2), container("b", cpu=3)), 5, id="app containers run together"),
        pytest.param(
            pod(container(cpu=2), init=[container("i", cpu=6)]), 6, id="an init container runs alone"
        ),
        pytest.param(
            pod(container(cpu=2), init=[container("s", cpu=1, restart=True)]),
            3,
            id="a sidecar runs beside the apps",
        ),
        pytest.param(
            pod(container(cpu=2), init=[container("s", cpu=1, restart=True), container("i", cpu=4)]),
            5,
            id="an init container runs beside the sidecars before it",
        ),
        pytest.param(
            pod(container(cpu=2), init=[container("i", cpu=4), container("s", cpu=1, restart=True)]),
            4,
            id="an init container runs before the sidecars after it",
        ),
        pytest.param(pod(container(cpu=2), overhead={"cpu": "250m"}), Fraction(9, 4), id="overhead counts"),
    ],
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


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        pytest.param({"kind": "Service", "spec": {}}, "holds no pod", id="no pod in it"),
        pytest.param({"containers": []}, "at least one container", id="no containers"),
        pytest.param({"containers": "x"}, "must be a list", id="containers are no list"),
        pytest.param({"containers": [{}]}, "needs a name", id="a nameless container"),
        pytest.param({"containers": [container(), container()]}, "same name", id="one name twice"),
        pytest.param({"containers": [container(cpu=True)]}, "not a Kubernetes quantity", id="a boolean"),
        pytest.param(
            {"containers": [container(memory="8GB")]}, "not a Kubernetes quantity", id="an unknown suffix"
        ),
        pytest.param({"containers": [container(cpu="-1")]}, "is negative", id="a negative quantity"),
        pytest.param(
            {"containers": [container(requests={"cpu": 3}, cpu=2)]},
            "more than its limit",
            id="a request above the limit",
        ),
        pytest.param(
            {"containers": [container(**{"nvidia.com/gpu": "500m"})]}, "not a whole number", id="half a GPU"
        ),
        pytest.param(
            {"containers": [container(requests={"nvidia.com/gpu": 1})]},
            "without a limit",
            id="a GPU requested only",
        ),
    ],
)
def test_pod_invalid_for_the_api_server_is_refused(manifest, message):
    with pytest.raises(PodError, match=message):
        Pod.from_manifest(manifest)


@pytest.mark.parametrize(
    ("shape", "changes"),
    [
        pytest.param(pod(container(cpu=2, memory="1Gi")), [], id="nothing to change"),
        pytest.param(
            pod(container(requests={"cpu": 1, "memory": "1Gi"}, cpu=2)),
            ["containers[0].resources.requests.cpu: 2", "containers[0].resources.limits.memory: 1Gi"],
            id="a request below its limit, and no memory limit",
        ),
        pytest.param(
            pod(container(cpu=1, memory="1Gi"), init=[container("i", cpu=1)]),
            ["initContainers[0].resources.limits.memory: <set it>"],
            id="an init container counts too",
        ),
        pytest.param(
            pod(container(cpu="1500m", memory="1Gi")),
            ["containers[0].resources.limits.cpu: 2"],
            id="fractional CPUs run on the shared pool",
        ),
        pytest.param(
            pod(container(cpu=2), resources={"limits": {"cpu": 2, "memory": "1Gi"}}),
            ["resources: {}  (name the resources of each container instead)"],
            id="pod-level resources switch pinning off",
        ),
    ],
)
def test_field_to_change_is_named(shape, changes):
    assert [remark.change for remark in explain(shape)] == changes


def test_fractional_cpus_are_not_explained_without_exclusive_cpus():
    assert explain(pod(container(cpu="1500m", memory="1Gi")), cpu_manager_is_static=False) == ()


@pytest.mark.parametrize(
    ("other", "alike", "alike_without_names"),
    [
        pytest.param(
            pod(container(cpu="1000m", memory="1Gi")).renamed("other"),
            True,
            True,
            id="the pod's own name is no part of it",
        ),
        pytest.param(
            pod(container("other", cpu=1, memory="1Gi")),
            False,
            True,
            id="a container's name is, unless names are left out",
        ),
        pytest.param(pod(container(cpu=2, memory="1Gi")), False, False, id="what a container asks for"),
        pytest.param(pod(container(cpu=1, memory="1Gi"), overhead={"cpu": "1"}), False, False, id="overhead"),
        pytest.param(
            pod(container(cpu=1, memory="1Gi"), resources={}),
            False,
            False,
            id="pod-level resources that are empty: the pod is BestEffort",
        ),
    ],
)
def test_pod_shape_holds_only_fields_the_kubelet_reads(other, alike, alike_without_names):
    one = pod(container(cpu=1, memory="1Gi"))
    assert (shape_of_pod(one) == shape_of_pod(other)) is alike
    assert (shape_of_pod(one, names=False) == shape_of_pod(other, names=False)) is alike_without_names
