"""Which resources a node lacks that does not offer them, and what a misspelt one may stand for."""

import pytest

from numaforge.kubelet.admission.alignment import explain_gpus
from numaforge.kubelet.admission.inventory import inventory_of
from numaforge.kubelet.admission.pod import Pod
from numaforge.kubelet.admission.scheduler import is_counted, like
from tests.fixtures.machines import ready

OFFERED = ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb", "rdma/rail0")


@pytest.mark.parametrize(
    ("resource", "offered", "counts"),
    [
        pytest.param("nvidia.com/gpu", (), True, id="GPUs"),
        pytest.param("nvidia.com/mig-1g.10gb", (), True, id="slices"),
        pytest.param("nvidia.com/gpus", (), True, id="what is named like GPUs"),
        pytest.param("nvidia.com/gpu.mig-1g.5gb", (), True, id="what is named like slices"),
        pytest.param("nvidia/gpu", (), True, id="GPUs without the end of their domain"),
        pytest.param("amd.com/gpus", (), True, id="what is named like AMD's GPUs"),
        pytest.param("amd.com/cpx_nps4", (), True, id="AMD's partitions"),
        pytest.param("amd.com/nic", (), False, id="AMD's network cards"),
        pytest.param("nvidia.com/GA102GL_A10", (), False, id="GPUs for virtual machines"),
        pytest.param("nvidia.com/hostdev", (), False, id="network functions"),
        pytest.param("habana.ai/gaudi", (), True, id="accelerators of another vendor"),
        pytest.param("alpha.kubernetes.io/nvidia-gpu", (), True, id="a name below kubernetes.io"),
        pytest.param("rdma/hca", (), False, id="an RDMA pool where none is known"),
        pytest.param("rdma/hca", OFFERED, True, id="an RDMA pool beside others"),
        pytest.param("example.com/fpga", OFFERED, False, id="another plugin's"),
    ],
)
def test_only_completely_listed_resources_are_counted(resource, offered, counts):
    assert is_counted(resource, offered) is counts


@pytest.mark.parametrize(
    ("resource", "first"),
    [
        ("nvidia.com/gpus", "nvidia.com/gpu"),
        ("nvidia/gpu", "nvidia.com/gpu"),
        ("nvidia.com/gpu.mig-1g.10gb", "nvidia.com/mig-1g.10gb"),
        ("alpha.kubernetes.io/nvidia-gpu", "nvidia.com/gpu"),
        ("rdma/hca_shared_devices_a", "rdma/rail0"),
    ],
)
def test_nearest_resource_name_is_suggested_first(resource, first):
    assert like(resource, OFFERED)[0] == first


def test_unknown_vendor_gets_no_suggestion():
    assert like("example.com/fpga", OFFERED) == ()


@pytest.mark.parametrize(
    ("limits", "remarks"),
    [
        pytest.param({"nvidia.com/mig-1g.10gb": 2}, 1, id="two MIG devices in a container"),
        pytest.param({"nvidia.com/mig-1g.10gb": 1}, 0, id="one MIG device"),
        pytest.param({"nvidia.com/mig-1g.10gb": 1, "nvidia.com/mig-2g.20gb": 1}, 1, id="one of each profile"),
        pytest.param({"nvidia.com/mig-1g.10gb": 1, "nvidia.com/gpu": 1}, 1, id="one beside a GPU"),
        pytest.param({"nvidia.com/gpu": 2}, 0, id="two GPUs"),
        pytest.param({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}, 1, id="memory that HAMi counts"),
        pytest.param({"nvidia.com/gpu": 2}, 1, id="two MIG devices that are nvidia.com/gpu, strategy single"),
        pytest.param({"nvidia.com/gpu": 1}, 0, id="one MIG device that is nvidia.com/gpu, strategy single"),
    ],
)
def test_share_of_a_gpu_that_nothing_serves_is_remarked(limits, remarks, request):
    pod = Pod.from_manifest({"containers": [{"name": "main", "resources": {"limits": limits}}]})
    single = "single" in request.node.callspec.id
    slices = inventory_of(ready("dgx-h100-mig"), "single") if single else None
    assert len(explain_gpus(pod, slices)) == remarks
