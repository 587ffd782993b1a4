"""Whether a node's devices serve claims: tables of slices, claims that are allocated, and requests."""

from collections.abc import Mapping, Sequence
from typing import Any

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
            "spec": {"selectors": [{"cel": {"expression": f'device.attributes["{GPU}"].type == "mig"'}}]},
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


def gpus(count: int = 1, constraint: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return claim(request("g", count=count, **more), constraints=[constraint] if constraint else ())


def cpus(count: int) -> dict[str, Any]:
    return claim(request("c", CPU, capacity={"requests": {"dra.cpu/cpu": str(count)}}))


def one_gpu(*others: Mapping[str, Any], taint: Mapping[str, Any] | None = None, **spec: Any) -> Sequence[Any]:
    """Return a slice with a GPU, which may have a taint, and others."""
    return [a_slice(GPU, gpu(0, **({"taints": [taint]} if taint else {})), *others, **spec)]


def generation(number: int, slices: int = 1) -> dict[str, Any]:
    return {"name": NODE, "generation": number, "resourceSliceCount": slices}


EACH_ITS_NODES = {"nodeName": None, "perDeviceNodeSelection": True}
COUNTERS = {"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}
IN_ZONE_A = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
DISTINCT_ROOTS = {"distinctAttribute": ROOT}
GPU_AND_RAIL = same_root("g", "n")
WAYS = [{"name": "many", "deviceClassName": GPU, "count": 7}, {"name": "few", "deviceClassName": GPU}]
FORTY_USED = [held((CPU, "cpus-0"), consumed={"dra.cpu/cpu": "40"}, shareID="s")]
ONE_TAKEN, RAIL_TAKEN = [held((GPU, "gpu-1"))], [held(("dra.net", "nic-0"))]
ALL = " ".join(f"gpu-{number}" for number in range(8))


@cases(
    "slices, spec, claims, expected",
    {
        "the first that is free": (BOTH, gpus(), [], "gpu-0"),
        "what others have is not free": (BOTH, gpus(), TWO_TAKEN, "gpu-2"),
        "more than are free": (BOTH, gpus(7), TWO_TAKEN, ""),
        "as many as there are": (BOTH, gpus(8), [], ALL),
        "more than there are": (BOTH, gpus(9), [], ""),
        "a monitor takes nothing": (BOTH, gpus(8), [held((GPU, "gpu-0"), adminAccess=True)], ALL),
        "and sees what is taken": (BOTH, gpus(adminAccess=True), TWO_TAKEN, "gpu-0"),
        "a GPU and a rail below one root": (
            BOTH,
            claim(request("g"), request("n", NIC), constraints=[GPU_AND_RAIL]),
            RAIL_TAKEN,
            "gpu-2 nic-1",
        ),
        "two GPUs below one root": (
            BOTH,
            claim(request("g", count=2), request("n", NIC), constraints=[GPU_AND_RAIL]),
            ONE_TAKEN,
            "gpu-2 gpu-3 nic-1",
        ),
        "three GPUs where two share a root": (BOTH, gpus(3, same_root("g")), [], ""),
        "each below a root of its own": (BOTH, gpus(4, DISTINCT_ROOTS), [], "gpu-0 gpu-2 gpu-4 gpu-6"),
        "too many roots": (BOTH, gpus(5, DISTINCT_ROOTS), [], ""),
        "a device without the attribute meets no constraint": (one_gpu(), gpus(1, same_root()), [], ""),
        "a selector": (BOTH, gpus(**where(f"device.attributes['{GPU}'].index > 5")), [], "gpu-6"),
        "all that match": (BOTH, claim(request("n", NIC, **FREE)), [], "nic-0 nic-1 nic-2 nic-3"),
        "all, and one is taken": (BOTH, claim(request("g", **FREE)), TWO_TAKEN, ""),
        "all of none": ((EIGHT,), claim(request("m", MIG, **FREE)), [], ""),
        "the first way that can be served": (
            BOTH,
            claim({"name": "x", "firstAvailable": WAYS}),
            TWO_TAKEN,
            "gpu-2",
        ),
        "a taint": (one_gpu(gpu(1), taint=TAINT), gpus(), [], "gpu-1"),
        "a taint that is tolerated": (
            one_gpu(gpu(1), taint=TAINT),
            gpus(tolerations=[{"operator": "Exists"}]),
            [],
            "gpu-0",
        ),
        "a taint that only informs": (one_gpu(taint={**TAINT, "effect": "None"}), gpus(), [], "gpu-0"),
        "a pool of which a slice is missing": (one_gpu(pool=generation(1, slices=2)), gpus(), [], ""),
        "of a pool the newest generation": (
            [*one_gpu(name="a"), a_slice(GPU, gpu(1), name="b", pool=generation(2))],
            gpus(),
            [],
            "gpu-1",
        ),
        "another node's": (one_gpu(nodeName="other"), gpus(), [], ""),
        "those of all nodes": (one_gpu(nodeName=None, allNodes=True), gpus(), [], "gpu-0"),
        "those of nodes with a label": (
            one_gpu(nodeName=None, nodeSelector={"nodeSelectorTerms": [IN_ZONE_A]}),
            gpus(),
            [],
            "gpu-0",
        ),
        "each device has its nodes": (
            [a_slice(GPU, gpu(0, nodeName="other"), gpu(1, nodeName=NODE), **EACH_ITS_NODES)],
            gpus(),
            [],
            "gpu-1",
        ),
        "a share of what is left": ((CPUS,), cpus(16), FORTY_USED, "cpus-1"),
        "a share that is just left": ((CPUS,), cpus(14), FORTY_USED, "cpus-0"),
        "more than one device has": ((CPUS,), cpus(55), [], ""),
        "a capacity that no device has": (
            (EIGHT,),
            gpus(capacity={"requests": {"memory": "1Gi"}}),
            [],
            "",
        ),
        "counters alone are no devices": ((a_slice(GPU, sharedCounters=[COUNTERS]),), gpus(), [], ""),
    },
)
def test_claim_gets_the_devices_that_match_its_requests(slices, spec, claims, expected):
    found = said(slices, spec, claims=claims)
    assert found.fits is bool(expected)
    assert names(found) == expected.split()
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
    sharedCounters=[COUNTERS],
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
        "more than there are at best": (BOTH, gpus(9, **UNREAD), False, ""),
        "all of them": (BOTH, claim(request("g", **FREE, **UNREAD)), None, "is not evaluated"),
        "a selector that is false all the same": (
            BOTH,
            gpus(**where('device.driver == "x" && [1].all(n, n > 0)')),
            False,
            "",
        ),
        "no CEL": (BOTH, claim(request("g", selectors=[{"wasm": {}}])), None, "that is not CEL is not read"),
        "a mode": (BOTH, gpus(allocationMode="Most"), None, "the allocation mode Most is not read"),
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
    constraint = {"requests": ["g", "c"], "matchAttribute": numa}
    spec = claim(request("g"), *cpus(8)["devices"]["requests"], constraints=[constraint])
    assert said([EIGHT, CPUS], spec).fits is False
    found = said([EIGHT, CPUS], spec, planned=True)
    assert (found.fits, found.unknown) == (None, (f"{numa} is not known",))


def test_failing_selector_ends_the_allocation():
    found = said([EIGHT], claim(request("n", MIG)))
    assert (found.fits, found.refusal) == (False, "cannot allocate all claims")
    found = said([FOUR_RAILS], claim(request("n", MIG)))
    assert (found.fits, found.refusal) == (False, "a selector fails: no such key: type")


def test_several_claims_of_a_pod_get_separate_devices():
    found = said(BOTH, gpus(4), gpus(4))
    assert names(found) == [f"gpu-{number}" for number in range(8)]
    assert said(BOTH, gpus(4), gpus(5)).fits is False


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


@cases(
    "asked, free", {"as much as is left": (14, 2), "more than is left of one": (15, 1), "no device": (55, 0)}
)
def test_shared_device_counts_as_free_with_enough_capacity_left(asked, free):
    [count] = said([CPUS], cpus(asked), claims=FORTY_USED).counts
    assert (count.match, count.free, count.capacity) == (2, free, (("dra.cpu/cpu", asked),))


def test_search_with_too_many_combinations_is_given_up():
    many = a_slice(GPU, *(gpu(number, f"pci{number % 16}") for number in range(128)))
    spec = claim(
        *(request(f"g{number}", count=4) for number in range(8)),
        constraints=[{"matchAttribute": "gpu.nvidia.com/type"}, {"distinctAttribute": ROOT}],
    )
    found = said([many], spec)
    assert (found.fits, found.unknown) == (None, ("there are too many ways to try",))
