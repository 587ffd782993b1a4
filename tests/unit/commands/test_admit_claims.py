"""Pods that claim devices, as `admit` and `fit` judge them: by objects beside the pods, and by a plan."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from numaforge.commands.admit import admit
from numaforge.commands.fit import fit
from numaforge.kubelet.admission.pod import Pod, PodError
from numaforge.lib.errors import ExitCode
from numaforge.machine.topology.document import to_document
from tests.fixtures.machines import dgx_h100, kubeadm_kubelet
from tests.fixtures.tables import cases
from tests.fixtures.workers import SOUND

API = "resource.k8s.io/v1"
GPU = "nvidia.com/gpu"
CLASS = "gpu.nvidia.com"
BY_KUBELET = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0,112"
topologyManagerPolicy: single-numa-node
"""
BY_CLAIMS = {"extends": "training", "kubelet": {"resource_engine": "dra"}, "dra": {"gpus": "claims"}}
LEFT = "cannot allocate all claims"


def named(kind: str, name: str, **body: Any) -> dict[str, Any]:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, **body}


def request(count: int = 1, device_class: str = CLASS) -> dict[str, Any]:
    return {"name": "gpu", "exactly": {"deviceClassName": device_class, "count": count}}


def template(count: int = 1, device_class: str = CLASS, name: str = "gpus") -> dict[str, Any]:
    spec = {"devices": {"requests": [request(count, device_class)]}}
    return named("ResourceClaimTemplate", name, spec={"spec": spec})


def claim(name: str = "shared", on: str = "") -> dict[str, Any]:
    found = named("ResourceClaim", name, spec={"devices": {"requests": [request()]}})
    if on:
        fields = [{"key": "metadata.name", "operator": "In", "values": [on]}]
        results = [{"request": "gpu", "driver": CLASS, "pool": on, "device": "gpu-0"}]
        selector = {"nodeSelectorTerms": [{"matchFields": fields}]}
        found["status"] = {"allocation": {"devices": {"results": results}, "nodeSelector": selector}}
    return found


def device_class(resource: str = "") -> dict[str, Any]:
    served = {"extendedResourceName": resource} if resource else {}
    selector = {"cel": {"expression": f'device.driver == "{CLASS}"'}}
    return named("DeviceClass", CLASS, spec={"selectors": [selector], **served})


def offered(count: int = 2, node: str = "dgx-01") -> dict[str, Any]:
    attribute = {"resource.kubernetes.io/numaNode": {"int": 1}}
    devices = [{"name": f"gpu-{each}", "attributes": attribute} for each in range(count)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return named(
        "ResourceSlice", node, spec={"driver": CLASS, "nodeName": node, "pool": pool, "devices": devices}
    )


def pod(name: str, by: Mapping[str, str] | None = None, gpus: int = 0, cpu: str = "2") -> dict[str, Any]:
    limits = {"cpu": cpu, "memory": "1Gi"} | ({GPU: str(gpus)} if gpus else {})
    container: dict[str, Any] = {"name": "main", "resources": {"limits": limits}}
    spec: dict[str, Any] = {"containers": [container]}
    if by is not None:
        spec["resourceClaims"] = [{"name": "own", **by}]
        container["resources"]["claims"] = [{"name": "own"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


OF_TEMPLATE = {"resourceClaimTemplateName": "gpus"}
SHARED = {"resourceClaimName": "shared"}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "dgx.json").write_text(json.dumps(to_document(dgx_h100())))
    (tmp_path / "kubelet.yaml").write_text(BY_KUBELET)
    (tmp_path / "claims.yaml").write_text(json.dumps(BY_CLAIMS))
    return tmp_path


def judged(
    files: Path, *documents: object, command: Any = admit, plan: bool = False, options: Sequence[str] = ()
) -> tuple[int, Any]:
    """Return the exit code and the JSON of a command, with a kubelet's file or a plan by claims."""
    (files / "pods.yaml").write_text("\n---\n".join(map(json.dumps, documents)))
    how = ["--profile", str(files / "claims.yaml")] if plan else ["--config", str(files / "kubelet.yaml")]
    given = [str(files / "pods.yaml"), "--machine", str(files / "dgx.json"), *how, *options, "-o", "json"]
    result = CliRunner().invoke(command, given, standalone_mode=False, catch_exceptions=False)
    return result.return_value, json.loads(result.output)


def fit_shapes(files: Path, items: Sequence[object], *options: str) -> str:
    """Return what `fit --shapes` prints of a cluster's objects, on two machines with a plan by claims."""
    (files / "pods.json").write_text(json.dumps({"kind": "List", "items": [*items]}))
    given = ["--shapes", str(files / "pods.json"), "--machine", f"{files / 'dgx.json'}=2"]
    given += ["--profile", str(files / "claims.yaml"), *options]
    return CliRunner().invoke(fit, given, standalone_mode=False, catch_exceptions=False).stdout


def of_pods(document: Any) -> dict[str, tuple[bool, Any]]:
    return {each["name"]: (each["admitted"], each["scheduler"]["claims"]) for each in document["admissions"]}


def gpus(*numbers: int) -> list[str]:
    return [f"{CLASS}/dgx-01/gpu-{each}" for each in numbers]


WORLD = (device_class(), template(), offered())


def test_each_pod_gets_devices_left_by_earlier_pods(files):
    code, found = judged(files, *WORLD, *(pod(name, OF_TEMPLATE) for name in ("one", "two", "three")))
    answers = of_pods(found)
    assert code == ExitCode.NO
    assert [answers[name][1]["devices"] for name in ("one", "two")] == [{"own": gpus(0)}, {"own": gpus(1)}]
    assert answers["three"][0] is False
    assert answers["three"][1]["refusal"] == LEFT
    assert found["admissions"][2]["reason"] == "Unschedulable"


def test_removed_pod_releases_its_devices(files):
    two = template(count=2)
    documents = (pod("one", OF_TEMPLATE), {"remove": "one"}, pod("two", OF_TEMPLATE))
    code, found = judged(files, device_class(), offered(), two, *documents)
    assert code == ExitCode.YES
    assert of_pods(found)["two"][1]["devices"] == {"own": gpus(0, 1)}


def test_pods_that_share_a_claim_have_the_same_device_until_the_last_leaves(files):
    world = (device_class(), claim(), template(count=2), offered())
    pods = (pod("one", SHARED), pod("two", SHARED), {"remove": "one"}, pod("three", OF_TEMPLATE))
    code, found = judged(files, *world, *pods, {"remove": "two"}, pod("four", OF_TEMPLATE))
    answers = of_pods(found)
    assert [answers[name][1]["devices"] for name in ("one", "two")] == [{"own": gpus(0)}] * 2
    assert [answers[name][0] for name in ("three", "four")] == [False, True]
    assert code == ExitCode.NO


def test_objects_may_follow_the_pods_that_need_them(files):
    assert judged(files, pod("one", OF_TEMPLATE), *WORLD)[0] == ExitCode.YES


@cases(
    "objects, by, unknown",
    {
        "a template that is not given": (
            (device_class(), offered()),
            OF_TEMPLATE,
            ["ResourceClaimTemplate default/gpus is not given"],
        ),
        "a claim that is not given": (
            (device_class(), offered()),
            SHARED,
            ["ResourceClaim default/shared is not given"],
        ),
        "a class that is not given": (
            (template(), offered()),
            OF_TEMPLATE,
            [f"DeviceClass {CLASS} is not given"],
        ),
        "no slices": (
            (device_class(), template()),
            OF_TEMPLATE,
            ["what its drivers offer is not known: no ResourceSlices are given"],
        ),
        "slices of other nodes": (
            (device_class(), template(), offered(node="another")),
            OF_TEMPLATE,
            ["what its drivers offer is not known: no given ResourceSlice is of the node dgx-01"],
        ),
    },
)
def test_missing_claim_data_is_named_and_the_kubelet_alone_decides(files, objects, by, unknown):
    code, found = judged(files, pod("one", by), *objects)
    admitted, claims = of_pods(found)["one"]
    assert (code, admitted, claims["not_known"], claims["devices"]) == (ExitCode.YES, True, unknown, {})


def test_given_claims_reveal_the_devices_of_pods_in_state_files(files):
    state = {"policyName": "static", "defaultCpuSet": "0,3-111,112,115-223", "checksum": 0}
    held = {"entries": {"u": {"c": "1-2,113-114"}}}
    (files / "cpu_manager_state").write_text(json.dumps({**state, **held}))
    state_dir = ("--state-dir", str(files))
    unknown = judged(files, *WORLD, pod("one", OF_TEMPLATE), options=state_dir)[1]
    assert of_pods(unknown)["one"][1]["not_known"] == [
        "which devices its pods have is not known: no ResourceClaims are given"
    ]
    known = judged(files, *WORLD, claim(on="dgx-01"), pod("one", OF_TEMPLATE), options=state_dir)[1]
    assert of_pods(known)["one"][1]["devices"] == {"own": gpus(1)}


def test_claim_allocated_on_another_node_is_refused(files):
    code, found = judged(files, device_class(), offered(), claim(on="elsewhere"), pod("one", SHARED))
    assert code == ExitCode.NO
    assert of_pods(found)["one"][1]["refusal"] == "resourceclaim not available on the node"


def test_device_class_for_a_resource_serves_requests_by_claims(files):
    world = (device_class(GPU), offered(3))
    code, found = judged(files, *world, pod("one", gpus=2), pod("two", gpus=2))
    answers = of_pods(found)
    assert code == ExitCode.NO
    assert answers["one"] == (
        True,
        {"asked": [GPU], "refusal": None, "not_known": [], "devices": {GPU: gpus(0, 1)}},
    )
    assert found["admissions"][0]["containers"]["main"].get("devices") is None
    assert found["admissions"][1]["message"] == f"0/1 nodes are available: 1 {LEFT}."
    assert found["admissions"][1]["in_the_way"] == [GPU]


def test_without_slices_gpus_come_from_the_device_plugin(files):
    code, found = judged(files, device_class(GPU), pod("one", gpus=2))
    assert code == ExitCode.YES
    assert of_pods(found)["one"][1] is None
    assert len(found["admissions"][0]["containers"]["main"]["devices"][GPU]) == 2


def test_requests_and_claims_take_from_the_same_gpus_of_a_plan(files):
    pods = (pod("one", OF_TEMPLATE), pod("seven", gpus=7), pod("more", gpus=1))
    code, found = judged(files, template(), *pods, plan=True)
    assert [each["admitted"] for each in found["admissions"]] == [True, True, False]
    assert code == ExitCode.NO


def with_drivers(files: Path, *drivers: str, plugins: tuple[str, ...] | None = ()) -> None:
    """Have drivers of claims, and device plugins of these resources, registered on the machine."""
    kubelet = replace(kubeadm_kubelet(), plugin_resources=plugins)
    built = replace(dgx_h100(), kubelet=kubelet, userland=replace(SOUND, claim_drivers=drivers))
    (files / "dgx.json").write_text(json.dumps(to_document(built)))


NEW, OLD = ("--kubelet-version", "1.36"), ("--kubelet-version", "1.35")


@cases(
    "drivers, plugins, version, of_claims, of_plugin",
    {
        "a driver alone": ([CLASS], (), NEW, 4, 0),
        "a driver, and no checkpoint of devices": ([CLASS], None, NEW, 4, 0),
        "a driver alone, before claims serve requests": ([CLASS], (), OLD, 0, 0),
        "a driver and a device plugin": ([CLASS], (GPU,), NEW, 0, 4),
        "drivers of other devices": (["dra.cpu", "gpu.amd.com"], (), NEW, 0, 4),
        "no driver: the plugin is yet to come": ([], (), NEW, 0, 4),
    },
)
def test_without_a_plan_gpus_come_from_the_registered_driver(
    files, drivers, plugins, version, of_claims, of_plugin
):
    with_drivers(files, *drivers, plugins=plugins)
    code, found = judged(files, pod("one", gpus=4), options=version)
    [one] = found["admissions"]
    claims, containers = one["scheduler"]["claims"] or {"devices": {}}, one["containers"]
    assert code == (ExitCode.YES if of_claims or of_plugin else ExitCode.NO)
    assert len(claims["devices"].get(GPU, ())) == of_claims
    assert len(containers.get("main", {}).get("devices", {}).get(GPU, ())) == of_plugin
    fits = judged(files, pod("one", gpus=3), command=fit, options=version)[1]
    assert fits["pods"] == (2 if of_claims or of_plugin else 0)
    all_of_them = judged(files, pod("one", gpus=8), command=fit, options=version)[1]
    assert all_of_them["pods"] == bool(of_claims), "the kubelet aligns nothing with claims"


def test_template_claim_finds_gpus_of_the_registered_driver(files):
    with_drivers(files, CLASS, "dra.cpu")
    six, cpus = template(count=6), template(device_class="dra.cpu", name="cpus")
    by_cpus = pod("three", {"resourceClaimTemplateName": "cpus"})
    code, found = judged(files, six, cpus, pod("one", OF_TEMPLATE), pod("two", OF_TEMPLATE), by_cpus)
    answers = of_pods(found)
    assert code == ExitCode.NO
    assert len(answers["one"][1]["devices"]["own"]) == 6
    assert answers["two"][1]["refusal"] == LEFT
    assert answers["three"][1]["not_known"] == ["DeviceClass dra.cpu is not given"]


def test_given_slices_override_those_of_a_registered_driver(files):
    with_drivers(files, CLASS)
    code, found = judged(files, *WORLD, *(pod(name, OF_TEMPLATE) for name in "abc"))
    assert code == ExitCode.NO
    assert [each["admitted"] for each in found["admissions"]] == [True, True, False]


def test_devices_far_from_the_pods_cpus_are_named(files):
    _, found = judged(files, *WORLD, pod("one", OF_TEMPLATE))
    [remark] = found["admissions"][0]["remarks"]
    assert remark["field"] == "claim own"
    assert remark["reason"].startswith(f"{CLASS}/dgx-01/gpu-0 on NUMA node 1, and the pod's CPUs on 0:")


@cases(
    "documents, plan, pods",
    {
        "as many as slices offer": ((*WORLD, pod("one", OF_TEMPLATE)), False, 2),
        "as many as a plan has, by threes": ((template(3), pod("one", OF_TEMPLATE)), True, 2),
        "a resource that claims serve": ((pod("one", gpus=1),), True, 8),
        "one for all": ((device_class(), claim(), offered(), pod("one", SHARED)), False, 110),
    },
)
def test_fit_counts_pods_with_satisfiable_claims(files, documents, plan, pods):
    code, found = judged(files, *documents, command=fit, plan=plan)
    assert (code, found["pods"]) == (ExitCode.YES, pods)


def test_fit_reports_that_claims_run_out(files):
    _, found = judged(files, *WORLD, pod("one", OF_TEMPLATE), command=fit)
    [node] = found["nodes"]
    assert {tuple(each["runs_out"]) for each in node["policies"]} == {("own",)}
    assert node["not_known"] == []


def test_fit_names_unknown_claims(files):
    _, found = judged(files, pod("one", OF_TEMPLATE), command=fit)
    [said] = found["nodes"][0]["not_known"]
    assert said.startswith(
        "whether its claims can be served (ResourceClaimTemplate default/gpus is not given"
    )


def network(node: str = "") -> dict[str, Any]:
    """Return the slice of a device that all nodes reach."""
    pool = {"name": "network", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": CLASS, "allNodes": True, "pool": pool, "devices": [{"name": "storage"}]}
    return named("ResourceSlice", "network", spec=spec)


@cases(
    "objects, by, how, pods",
    {
        "each pod's own": ((template(),), OF_TEMPLATE, ("--profile", "claims.yaml"), 16),
        "one that is on one node": ((claim(),), SHARED, ("--profile", "claims.yaml"), 110),
        "one of a device that all nodes reach": (
            (claim(), device_class(), network()),
            SHARED,
            ("--config", "kubelet.yaml"),
            120,
        ),
        "one of which nothing is known": ((), SHARED, ("--config", "kubelet.yaml"), 120),
    },
)
def test_fleet_shapes_respect_claims(files, monkeypatch, objects, by, how, pods):
    monkeypatch.chdir(files)
    Path("other.json").write_text(json.dumps(to_document(replace(dgx_h100(), memory_bytes=2**41))))
    Path("shapes.yaml").write_text(
        json.dumps([*objects, {"name": "one", "count": 120, "pod": pod("x", by, cpu="1")}])
    )
    for machines in (["dgx.json=2"], ["dgx.json", "other.json"]):
        named = [word for machine in machines for word in ("--machine", machine)]
        given = ["--shapes", "shapes.yaml", *named, *how, "-o", "json"]
        result = CliRunner().invoke(fit, given, standalone_mode=False, catch_exceptions=False)
        assert json.loads(result.stdout)["configured"]["pods"] == pods


@cases(
    "by, pods, on_each, on_one",
    {
        "each pod's own is on every node": (OF_TEMPLATE, 2 * 7, 1, 0),
        "one by name is on one node": (SHARED, 7 + 8, 0, 1),
        "one of which nothing is known takes nothing": ({"resourceClaimName": "absent"}, 2 * 8, 1, 0),
    },
)
def test_daemonset_claims_reduce_what_fleet_shapes_get(files, by, pods, on_each, on_one):
    of_all = pod("agent-x", by)
    of_all["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "agent"}]
    others = [pod(f"one-{number}", OF_TEMPLATE) for number in range(20)]
    found = json.loads(fit_shapes(files, [template(), claim(), of_all, *others], "-o", "json"))
    assert found["configured"]["pods"] == pods
    assert (found["on_every_node"], found["on_one_node"]) == (on_each, on_one)


@cases(
    "claims, said",
    {
        "on each": ([OF_TEMPLATE, None], "beside 2 pods of DaemonSets on each node"),
        "on each and on one": (
            [OF_TEMPLATE, SHARED],
            "beside 1 pod of DaemonSets on each node, 1 on the node of its claim alone",
        ),
        "on one": ([SHARED], "beside 1 pod of DaemonSets on the node of its claim alone"),
        "two": ([SHARED, SHARED], "beside 2 pods of DaemonSets on the nodes of their claims alone"),
    },
)
def test_fit_reports_which_nodes_count_daemonset_pods(files, claims, said):
    of_all = [pod(f"agent-{number}", by) for number, by in enumerate(claims)]
    for number, each in enumerate(of_all):
        each["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": f"agent-{number}"}]
    items = [template(), claim(), *of_all, pod("one", OF_TEMPLATE)]
    assert said in fit_shapes(files, items).splitlines()


def test_node_filled_by_a_claim_leaves_room_on_the_others(files):
    of_all = pod("agent-x", SHARED, cpu="200")
    of_all["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "agent"}]
    items = [claim(), of_all, pod("one", cpu="100"), pod("two", cpu="100")]
    assert json.loads(fit_shapes(files, items, "-o", "json"))["configured"]["pods"] == 2


def test_pods_that_share_a_claim_are_counted_on_one_node(files):
    twice = ("--machine", str(files / "dgx.json"))
    alone = judged(files, claim(), pod("one", SHARED), command=fit, plan=True, options=twice)[1]
    assert [len(alone["nodes"]), alone["pods"]] == [2, 110]
    each = judged(files, template(), pod("one", OF_TEMPLATE), command=fit, plan=True, options=twice)[1]
    assert each["pods"] == 16


@cases(
    "spec, message",
    {
        "no list": ({"resourceClaims": {"name": "x"}}, "must be a list of mappings"),
        "without a name": ({"resourceClaims": [{}]}, "a claim needs a name"),
        "no source": ({"resourceClaims": [{"name": "x"}]}, "names neither or both"),
        "two sources": (
            {"resourceClaims": [{"name": "x", **SHARED, **OF_TEMPLATE}]},
            "names neither or both",
        ),
        "twice": ({"resourceClaims": [{"name": "x", **SHARED}] * 2}, "two claims have the name 'x'"),
        "only a container's": ({}, "names the claim 'x', which the pod does not have"),
    },
)
def test_claims_invalid_for_the_api_server_are_refused(spec, message):
    containers = [{"name": "main", "resources": {"claims": [{"name": "x"}]}}]
    with pytest.raises(PodError, match=message):
        Pod.from_manifest({"spec": {"containers": containers, **spec}})
