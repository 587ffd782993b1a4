"""What a roll-out lacks in the cluster, asked of an API server through a real kubectl."""

from pathlib import Path

import pytest

from numaforge.findings import Severity
from numaforge.preflight import Check
from numaforge.preflight.cluster import cluster_checks
from numaforge.rollout.options import RolloutOptions


def looked(kubeconfig: Path, *, needed: bool = True, **options: str) -> dict[str, Check]:
    settings = RolloutOptions(kubeconfig=str(kubeconfig), **options)
    return {check.name: check for check in cluster_checks(settings, needed=needed)}


def test_login_with_every_permission_passes(api):
    found = looked(api.kubeconfig)
    assert {check.severity for check in found.values()} == {None}
    assert found["API server"].evidence == "v1.36.3"
    assert found["permissions"].evidence == "all 16 that a roll-out needs"


def resource_slice(node, driver="gpu.nvidia.com", **spec):
    """Return a ResourceSlice of a driver for a node's devices."""
    return {"spec": {"driver": driver, "nodeName": node, "pool": {"name": node}, **spec}}


COUNTERS = {"sharedCounters": [{"name": "gpu-0-counter-set", "counters": {"memory-slice-0": {"value": "1"}}}]}


@pytest.mark.parametrize(
    ("slices", "found"),
    [
        pytest.param([], None, id="no-DRA-driver"),
        pytest.param([resource_slice("gpu-1", devices=[{"name": "gpu-0"}])], None, id="whole-GPUs-alone"),
        pytest.param([resource_slice("gpu-1", "cpu.example.com", **COUNTERS)], None, id="another-driver"),
        pytest.param(
            [
                resource_slice("gpu-2", **COUNTERS),
                resource_slice("gpu-1", **COUNTERS),
                resource_slice("gpu-3"),
            ],
            "NVIDIA's driver cuts the GPUs of gpu-1, gpu-2 as claims come (DynamicMIG)",
            id="two-nodes",
        ),
        pytest.param(
            [resource_slice(f"gpu-{number}", **COUNTERS) for number in range(8)],
            "NVIDIA's driver cuts the GPUs of gpu-0, gpu-1, gpu-2, gpu-3, gpu-4 and 3 more as claims come "
            "(DynamicMIG)",
            id="many-nodes",
        ),
    ],
)
def test_nodes_with_gpus_cut_by_the_dra_driver_are_reported(api, slices, found):
    api.slices += slices
    check = looked(api.kubeconfig).get("DRA")
    assert (check and check.evidence) == found
    assert check is None or (check.severity, "dra-driver" in check.remedy) == (Severity.NOTE, True)


def test_api_server_before_1_34_has_no_dra_check(api):
    api.slices.append(resource_slice("gpu-1", **COUNTERS))
    api.refuse = lambda _method, path: 404 if "resourceslices" in path else None
    assert "DRA" not in looked(api.kubeconfig)


def test_missing_permissions_are_reported_with_the_rbac_file(api):
    def without(spec):
        attributes = spec.get("resourceAttributes", {})
        return attributes.get("subresource") != "eviction" and "nonResourceAttributes" not in spec

    api.allow = without
    check = looked(api.kubeconfig)["permissions"]
    assert check.severity is Severity.ERROR
    assert check.evidence == "this login lacks create pods/eviction, get /readyz"
    assert "docs/rollout-rbac.yaml" in check.remedy


@pytest.mark.parametrize(("needed", "severity"), [(True, Severity.ERROR), (False, Severity.WARNING)])
def test_missing_kubeconfig_is_an_error_only_if_a_host_is_a_node(tmp_path, needed, severity):
    check = looked(tmp_path / "none", needed=needed)["login"]
    assert check.severity is severity
    assert "the kubeconfig cannot be read" in check.evidence


def test_missing_kubectl_skips_the_other_checks(tmp_path):
    found = looked(tmp_path / "none", kubectl="no-such-kubectl")
    assert [*found] == ["kubectl"]
    assert "no-such-kubectl" in found["kubectl"].evidence
