"""Whether a node's devices serve claims: tables of slices, claims that are allocated, and requests."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from numaforge.cluster.explain.allocation import Allocation, allocate
from numaforge.cluster.explain.claims import claim_world, spec_of_claim
from numaforge.cluster.explain.devices import devices_on, held_claims
from numaforge.cluster.schedulers.dra import planned_classes
from tests.fixtures.tables import cases

NODE = "gpu-01"
ROOT = "resource.kubernetes.io/pcieRoot"
GPU, NIC, CPU, MIG = "gpu.nvidia.com", "numaforge-rdma", "dra.cpu", "mig.nvidia.com"
CLASSES = claim_world(
    [
        *planned_classes(),
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": MIG},
            "spec": {
                "selectors": [{"cel": {"expression": 'device.attributes["gpu.nvidia.com"].type == "mig"'}}]
            },
        },
    ]
).classes


def a_slice(driver: str, *devices: Mapping[str, Any], name: str = "", **spec: Any) -> dict[str, Any]:
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": name or driver},
        "spec": {"driver": driver, "nodeName": NODE, "pool": pool, "devices": list(devices), **spec},
    }


def gpu(number: int, root: str | None = None, **more: Any) -> dict[str, Any]:
    attributes: dict[str, Any] = {"type": {"string": "gpu"}, "index": {"int": number}}
    if root:
        attributes[ROOT] = {"string": root}
    return {"name": f"gpu-{number}", "attributes": attributes, **more}


def nic(number: int, root: str) -> dict[str, Any]:
    return {"name": f"nic-{number}", "attributes": {"rdma": {"bool": True}, ROOT: {"string": root}}}


EIGHT = a_slice(GPU, *(gpu(number, f"pci{number // 2}") for number in range(8)))
FOUR_RAILS = a_slice("dra.net", *(nic(number, f"pci{number}") for number in range(4)))
CPUS = a_slice(
    CPU,
    *(
        {
            "name": f"cpus-{group}",
            "allowMultipleAllocations": True,
            "attributes": {"resource.kubernetes.io/numaNode": {"int": group}},
            "capacity": {"dra.cpu/cpu": {"value": "54"}},
        }
        for group in range(2)
    ),
)
BOTH = (EIGHT, FOUR_RAILS)


def request(name: str, device_class: str = GPU, **more: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": device_class, **more}}


def where(expression: str) -> dict[str, Any]:
    return {"selectors": [{"cel": {"expression": expression}}]}


def same_root(*requests: str) -> dict[str, Any]:
    return {"requests": list(requests), "matchAttribute": ROOT}


def claim(*requests: Mapping[str, Any], constraints: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    return {"devices": {"requests": list(requests), "constraints": list(constraints)}}


def held(*devices: tuple[str, str], consumed: Mapping[str, str] | None = None, **more: Any) -> dict[str, Any]:
    results = [
        {"request": "r", "driver": driver, "pool": NODE, "device": name, **more} for driver, name in devices
    ]
    if consumed:
        results = [{**each, "consumedCapacity": dict(consumed)} for each in results]
    name = "-".join(name for _, name in devices)
    return {
        "metadata": {"name": name, "namespace": "ml"},
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": [{"uid": "u"}]},
    }


def said(
    slices: Sequence[Mapping[str, Any]],
    *specs: Mapping[str, Any],
    claims: Sequence[Mapping[str, Any]] = (),
    rules: Sequence[Mapping[str, Any]] = (),
    planned: bool = False,
) -> Allocation:
    devices = devices_on(NODE, {"zone": "a"}, slices, held_claims(claims), rules, planned=planned)
    asked = [spec_of_claim(each, f"ml/p/{number}") for number, each in enumerate(specs)]
    return allocate(devices, asked, CLASSES, "p")


def names(found: Allocation) -> list[str]:
    return [each.device[2] for one in found.claims for each in one.devices]


FREE = {"allocationMode": "All"}
TAINT = {"key": "numaforge.io/sick", "value": "NG404", "effect": "NoSchedule"}
TWO_TAKEN = [held((GPU, "gpu-0"), (GPU, "gpu-1"))]


@cases(
    "slices, spec, claims, expected",
    {
        "the first that is free": (BOTH, claim(request("g")), [], ["gpu-0"]),
        "what others have is not free": (BOTH, claim(request("g")), TWO_TAKEN, ["gpu-2"]),
        "more than are free": (BOTH, claim(request("g", count=7)), TWO_TAKEN, None),
        "as many as there are": (
            BOTH,
            claim(request("g", count=8)),
            [],
            [f"gpu-{number}" for number in range(8)],
        ),
        "more than there are": (BOTH, claim(request("g", count=9)), [], None),
        "a monitor takes nothing": (
            BOTH,
            claim(request("g", count=8)),
            [held((GPU, "gpu-0"), adminAccess=True)],
            [f"gpu-{number}" for number in range(8)],
        ),
        "and sees what is taken": (
            BOTH,
            claim(request("g", count=1, adminAccess=True)),
            TWO_TAKEN,
            ["gpu-0"],
        ),
        "a GPU and a rail below one root": (
            BOTH,
            claim(request("g"), request("n", NIC), constraints=[same_root("g", "n")]),
            [held(("dra.net", "nic-0"))],
            ["gpu-2", "nic-1"],
        ),
        "two GPUs below one root": (
            BOTH,
            claim(request("g", count=2), request("n", NIC), constraints=[same_root("g", "n")]),
            [held((GPU, "gpu-1"))],
            ["gpu-2", "gpu-3", "nic-1"],
        ),
        "three GPUs where two share a root": (
            BOTH,
            claim(request("g", count=3), constraints=[same_root("g")]),
            [],
            None,
        ),
        "each below a root of its own": (
            BOTH,
            claim(request("g", count=4), constraints=[{"distinctAttribute": ROOT}]),
            [],
            ["gpu-0", "gpu-2", "gpu-4", "gpu-6"],
        ),
        "too many roots": (
            BOTH,
            claim(request("g", count=5), constraints=[{"distinctAttribute": ROOT}]),
            [],
            None,
        ),
        "a device without the attribute meets no constraint": (
            (a_slice(GPU, gpu(0)),),
            claim(request("g"), constraints=[same_root()]),
            [],
            None,
        ),
        "a selector": (
            BOTH,
            claim(request("g", **where("device.attributes['gpu.nvidia.com'].index > 5"))),
            [],
            ["gpu-6"],
        ),
        "all that match": (BOTH, claim(request("n", NIC, **FREE)), [], [f"nic-{n}" for n in range(4)]),
        "all, and one is taken": (BOTH, claim(request("g", **FREE)), TWO_TAKEN, None),
        "all of none": ((EIGHT,), claim(request("m", MIG, **FREE)), [], None),
        "the first way that can be served": (
            BOTH,
            claim(
                {
                    "name": "x",
                    "firstAvailable": [
                        {"name": "many", "deviceClassName": GPU, "count": 7},
                        {"name": "few", "deviceClassName": GPU},
                    ],
                }
            ),
            TWO_TAKEN,
            ["gpu-2"],
        ),
        "a taint": ((a_slice(GPU, gpu(0, taints=[TAINT]), gpu(1)),), claim(request("g")), [], ["gpu-1"]),
        "a taint that is tolerated": (
            (a_slice(GPU, gpu(0, taints=[TAINT]), gpu(1)),),
            claim(request("g", tolerations=[{"operator": "Exists"}])),
            [],
            ["gpu-0"],
        ),
        "a taint that only informs": (
            (a_slice(GPU, gpu(0, taints=[{**TAINT, "effect": "None"}])),),
            claim(request("g")),
            [],
            ["gpu-0"],
        ),
        "a pool of which a slice is missing": (
            (a_slice(GPU, gpu(0), pool={"name": NODE, "generation": 1, "resourceSliceCount": 2}),),
            claim(request("g")),
            [],
            None,
        ),
        "of a pool the newest generation": (
            (
                a_slice(GPU, gpu(0), name="a"),
                a_slice(GPU, gpu(1), name="b", pool={"name": NODE, "generation": 2, "resourceSliceCount": 1}),
            ),
            claim(request("g", count=1)),
            [],
            ["gpu-1"],
        ),
        "another node's": ((a_slice(GPU, gpu(0), nodeName="other"),), claim(request("g")), [], None),
        "those of all nodes": (
            (a_slice(GPU, gpu(0), nodeName=None, allNodes=True),),
            claim(request("g")),
            [],
            ["gpu-0"],
        ),
        "those of nodes with a label": (
            (
                a_slice(
                    GPU,
                    gpu(0),
                    nodeName=None,
                    nodeSelector={
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                        ]
                    },
                ),
            ),
            claim(request("g")),
            [],
            ["gpu-0"],
        ),
        "each device has its nodes": (
            (
                a_slice(
                    GPU,
                    gpu(0, nodeName="other"),
                    gpu(1, nodeName=NODE),
                    nodeName=None,
                    perDeviceNodeSelection=True,
                ),
            ),
            claim(request("g")),
            [],
            ["gpu-1"],
        ),
        "a share of what is left": (
            (CPUS,),
            claim(request("c", CPU, capacity={"requests": {"dra.cpu/cpu": "16"}})),
            [held((CPU, "cpus-0"), consumed={"dra.cpu/cpu": "40"}, shareID="s")],
            ["cpus-1"],
        ),
        "a share that is just left": (
            (CPUS,),
            claim(request("c", CPU, capacity={"requests": {"dra.cpu/cpu": "14"}})),
            [held((CPU, "cpus-0"), consumed={"dra.cpu/cpu": "40"}, shareID="s")],
            ["cpus-0"],
        ),
        "more than one device has": (
            (CPUS,),
            claim(request("c", CPU, capacity={"requests": {"dra.cpu/cpu": "55"}})),
            [],
            None,
        ),
        "a capacity that no device has": (
            (EIGHT,),
            claim(request("g", capacity={"requests": {"memory": "1Gi"}})),
            [],
            None,
        ),
        "counters alone are no devices": (
            (a_slice(GPU, sharedCounters=[{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]),),
            claim(request("g")),
            [],
            None,
        ),
    },
)
def test_claim_gets_the_devices_that_match_its_requests(slices, spec, claims, expected):
    found = said(slices, spec, claims=claims)
    assert found.fits is (expected is not None)
    assert names(found) == (expected or [])
    assert found.refusal == (None if found.fits else "cannot allocate all claims")


PARTS = a_slice(
    GPU,
    *(
        {
            "name": name,
            "attributes": {"type": {"string": kind}},
            "consumesCounters": [{"counterSet": "gpu-0", "counters": {"memory": {"value": size}}}],
        }
        for name, kind, size in (("gpu-0", "gpu", "80Gi"), ("m-0", "mig", "40Gi"), ("m-1", "mig", "40Gi"))
    ),
    sharedCounters=[{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}],
)


@cases(
    "claims, spec, fits",
    {
        "the whole": ([], claim(request("g")), True),
        "both parts": ([], claim(request("m", MIG, count=2)), True),
        "the other part": ([held((GPU, "m-0"))], claim(request("m", MIG)), True),
        "the whole of which a part is taken": ([held((GPU, "m-0"))], claim(request("g")), False),
        "a part of a whole that is taken": ([held((GPU, "gpu-0"))], claim(request("m", MIG)), False),
        "both at once": ([], claim(request("g"), request("m", MIG)), False),
    },
)
def test_devices_with_shared_counters_exclude_each_other(claims, spec, fits):
    assert said([PARTS], spec, claims=claims).fits is fits


UNREAD = where('device.attributes["gpu.nvidia.com"].type.matches("^g")')


@cases(
    "slices, spec, fits, why",
    {
        "a selector": (BOTH, claim(request("g", **UNREAD)), None, "is not evaluated"),
        "more than there are at best": (BOTH, claim(request("g", count=9, **UNREAD)), False, ""),
        "all of them": (BOTH, claim(request("g", **FREE, **UNREAD)), None, "is not evaluated"),
        "a selector that is false all the same": (
            BOTH,
            claim(request("g", **where('device.driver == "x" && [1].all(n, n > 0)'))),
            False,
            "",
        ),
        "no CEL": (BOTH, claim(request("g", selectors=[{"wasm": {}}])), None, "that is not CEL is not read"),
        "a mode": (
            BOTH,
            claim(request("g", allocationMode="Most")),
            None,
            "the allocation mode Most is not read",
        ),
    },
)
def test_unknown_allocation_is_reported_and_not_guessed(slices, spec, fits, why):
    found = said(slices, spec)
    assert found.fits is fits
    assert why in " ".join(found.unknown)
    assert bool(found.unknown) == (fits is None)


def test_alternative_after_an_unknown_alternative_is_unknown():
    ways = [{"name": "a", "deviceClassName": GPU, **UNREAD}, {"name": "b", "deviceClassName": NIC}]
    assert said(BOTH, claim({"name": "x", "firstAvailable": ways})).fits is None
    assert names(said(BOTH, claim({"name": "x", "firstAvailable": ways[::-1]}))) == ["nic-0"]


def test_all_devices_cannot_be_allocated_while_any_pool_is_updating():
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 2}
    found = said([EIGHT, a_slice("dra.net", pool=pool)], claim(request("g", **FREE)))
    assert (found.fits, found.refusal) == (False, f"resource pool dra.net/{NODE} is being updated")


def test_device_field_missing_from_the_plan_is_unknown():
    numa = "resource.kubernetes.io/numaNode"
    spec = claim(
        request("g"),
        request("c", CPU, capacity={"requests": {"dra.cpu/cpu": "8"}}),
        constraints=[{"requests": ["g", "c"], "matchAttribute": numa}],
    )
    assert said([EIGHT, CPUS], spec).fits is False
    found = said([EIGHT, CPUS], spec, planned=True)
    assert (found.fits, found.unknown) == (None, (f"{numa} is not known",))


def test_failing_selector_ends_the_allocation():
    found = said([EIGHT], claim(request("n", MIG)))
    assert (found.fits, found.refusal) == (False, "cannot allocate all claims")
    found = said([FOUR_RAILS], claim(request("n", MIG)))
    assert (found.fits, found.refusal) == (False, "a selector fails: no such key: type")


def test_several_claims_of_a_pod_get_separate_devices():
    found = said(BOTH, claim(request("g", count=4)), claim(request("g", count=4)))
    assert names(found) == [f"gpu-{number}" for number in range(8)]
    assert said(BOTH, claim(request("g", count=4)), claim(request("g", count=5))).fits is False


def test_device_taint_rule_taints_only_selected_devices():
    rule = {"spec": {"deviceSelector": {"driver": GPU, "pool": NODE, "device": "gpu-0"}, "taint": TAINT}}
    assert names(said(BOTH, claim(request("g")), rules=[rule])) == ["gpu-1"]
    assert names(said(BOTH, claim(request("g")), rules=[{"spec": {"taint": TAINT}}])) == ["gpu-0"]


def test_counts_give_matching_and_free_devices():
    [count] = said(BOTH, claim(request("g", count=7)), claims=TWO_TAKEN).counts
    assert (count.claim, count.request, count.requested) == ("0", "g", 7)
    assert (count.match, count.free, count.unsure) == (8, 6, 0)
    [count] = said(BOTH, claim(request("g", **FREE, **UNREAD))).counts
    assert (count.requested, count.match, count.unsure) == (None, 0, 8)


@pytest.mark.parametrize(
    ("asked", "free"),
    [
        pytest.param("14", 2, id="as-much-as-is-left"),
        pytest.param("15", 1, id="more-than-is-left-of-one"),
        pytest.param("55", 0, id="more-than-one-has"),
    ],
)
def test_shared_device_counts_as_free_with_enough_capacity_left(asked, free):
    used = [held((CPU, "cpus-0"), consumed={"dra.cpu/cpu": "40"}, shareID="s")]
    [count] = said(
        [CPUS], claim(request("c", CPU, capacity={"requests": {"dra.cpu/cpu": asked}})), claims=used
    ).counts
    assert (count.match, count.free, count.capacity) == (2, free, (("dra.cpu/cpu", int(asked)),))


def test_search_with_too_many_combinations_is_given_up():
    many = a_slice(GPU, *(gpu(number, f"pci{number % 16}") for number in range(128)))
    spec = claim(
        *(request(f"g{number}", count=4) for number in range(8)),
        constraints=[{"matchAttribute": "gpu.nvidia.com/type"}, {"distinctAttribute": ROOT}],
    )
    found = said([many], spec)
    assert (found.fits, found.unknown) == (None, ("there are too many ways to try",))
