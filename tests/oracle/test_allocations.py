"""Random slices and claims: the devices that are chosen here, and those that the scheduler chooses."""

import json
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from lab.progress import say
from numaforge.cluster.explain.allocation import Allocation, allocate
from numaforge.cluster.explain.claims import claim_world, spec_of_claim
from numaforge.cluster.explain.devices import devices_on, held_claims
from tests.oracle.scale import MUST_BUILD, SCALE, oracle_of

WORLDS = 6_000
NODE = "one"
API = "resource.k8s.io/v1"
ROOT = "resource.kubernetes.io/pcieRoot"
GPU, NIC, CPU = "gpu.nvidia.com", "dra.net", "dra.cpu"
CLASSES = {
    "gpu": 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu"',
    "mig": 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type != "gpu"',
    "nic": 'device.driver == "dra.net" && device.attributes["dra.net"].rdma',
    "cpu": 'device.driver == "dra.cpu"',
    "careless": 'device.attributes["gpu.nvidia.com"].type == "gpu"',
    "any": "true",
}
SELECTORS = (
    'device.attributes["gpu.nvidia.com"].index >= 2',
    'device.attributes["gpu.nvidia.com"].index in [0, 3, 5]',
    'has(device.attributes["resource.kubernetes.io"].pcieRoot)',
    'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0',
    'device.attributes["gpu.nvidia.com"].version.isGreaterThan(semver("1.2.0"))',
    'device.driver != "dra.net" || device.attributes["dra.net"].speed > 200',
    'device.attributes["gpu.nvidia.com"].model.startsWith("H1") && !device.allowMultipleAllocations',
    "device.attributes['gpu.nvidia.com'].nope == 1",
)
NOT_READ = (
    'device.attributes["gpu.nvidia.com"].model.matches("^H")',
    'device.attributes["gpu.nvidia.com"].index + 1 > 3 && device.attributes["gpu.nvidia.com"].type == "gpu"',
    'device.driver == "dra.net" || [1, 2].exists(n, n == device.attributes["gpu.nvidia.com"].index)',
)
TAINT = {"key": "sick", "value": "yes", "effect": "NoSchedule"}


def gpus(random: Random) -> list[dict[str, Any]]:
    """Return whole GPUs, of which some are cut: parts take what the whole has of their shared counters."""
    found: list[dict[str, Any]] = []
    roots = random.randint(1, 4)
    for number in range(random.randint(1, 8)):
        attributes: dict[str, Any] = {
            "type": {"string": "gpu"},
            "index": {"int": number},
            "model": {"string": random.choice(("H100", "B200"))},
            "version": {"version": random.choice(("1.1.0", "1.2.1", "2.0.0"))},
        }
        if random.random() < 0.9:
            attributes[ROOT] = {"string": f"pci{number % roots}"}
        memory = random.choice(("20Gi", "80Gi"))
        whole = {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": memory}}}
        if random.random() < 0.15:
            whole["taints"] = [{**TAINT, "effect": random.choice(("NoSchedule", "NoExecute", "None"))}]
        if random.random() < 0.2:
            whole["consumesCounters"] = [
                {"counterSet": f"set-{number}", "counters": {"memory": {"value": "80Gi"}}}
            ]
            for part in range(2):
                used = {"counterSet": f"set-{number}", "counters": {"memory": {"value": "40Gi"}}}
                own = {**attributes, "type": {"string": "mig"}}
                found.append({"name": f"mig-{number}-{part}", "attributes": own, "consumesCounters": [used]})
        found.append(whole)
    return found


def nics(random: Random) -> list[dict[str, Any]]:
    return [
        {
            "name": f"nic-{number}",
            "attributes": {
                "rdma": {"bool": random.random() < 0.9},
                "speed": {"int": random.choice((100, 400))},
                ROOT: {"string": f"pci{number}"},
            },
        }
        for number in range(random.randint(0, 4))
    ]


def cpus(random: Random) -> list[dict[str, Any]]:
    found = []
    for number in range(random.randint(0, 2)):
        capacity: dict[str, Any] = {"value": "16"}
        if random.random() < 0.5:
            policy: dict[str, Any] = {"default": "2"}
            if random.random() < 0.5:
                policy["validRange"] = {"min": "2", "max": "12", "step": "2"}
            else:
                policy["validValues"] = ["2", "4", "8"]
            capacity["requestPolicy"] = policy
        found.append(
            {
                "name": f"cpus-{number}",
                "allowMultipleAllocations": True,
                "attributes": {"numa": {"int": number}},
                "capacity": {"dra.cpu/cpu": capacity},
            }
        )
    return found


def slices(random: Random) -> list[dict[str, Any]]:
    found = []
    for driver, devices in ((GPU, gpus(random)), (NIC, nics(random)), (CPU, cpus(random))):
        sets = [
            {"name": each["counterSet"], "counters": {"memory": {"value": "80Gi"}}}
            for device in devices
            for each in device.get("consumesCounters", ())
            if device["name"].startswith("gpu-")
        ]
        place = random.choice(({"nodeName": NODE}, {"nodeName": NODE}, {"allNodes": True}))
        missing = random.random() < 0.05
        pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1 + bool(sets) + missing}
        common = {"driver": driver, "pool": pool, **place}
        found.append({"metadata": {"name": f"{driver}-devices"}, "spec": {**common, "devices": devices}})
        if sets:
            found.append({"metadata": {"name": f"{driver}-sets"}, "spec": {**common, "sharedCounters": sets}})
    return [{"apiVersion": API, "kind": "ResourceSlice", **each} for each in found]


def held(random: Random, offered: list[dict[str, Any]]) -> list[dict[str, Any]]:
    results = []
    for each in offered:
        for device in each["spec"].get("devices", ()):
            if random.random() < 0.25:
                result = {
                    "driver": each["spec"]["driver"],
                    "pool": NODE,
                    "device": device["name"],
                    "request": "r",
                }
                if device.get("allowMultipleAllocations"):
                    result |= {"shareID": f"s-{device['name']}", "consumedCapacity": {"dra.cpu/cpu": "6"}}
                elif random.random() < 0.1:
                    result["adminAccess"] = True
                results.append(result)
    return [
        {
            "apiVersion": API,
            "kind": "ResourceClaim",
            "metadata": {"name": f"held-{number}", "namespace": "ml"},
            "status": {"allocation": {"devices": {"results": [each]}}, "reservedFor": []},
        }
        for number, each in enumerate(results)
    ]


def wish(random: Random) -> dict[str, Any]:
    name = random.choices(tuple(CLASSES), (50, 15, 20, 15, 4, 4))[0]
    found: dict[str, Any] = {"deviceClassName": name, "allocationMode": "ExactCount"}
    if random.random() < 0.15:
        found["allocationMode"] = "All"
    else:
        found["count"] = random.choices((1, 2, 3, 4, 9), (50, 25, 12, 10, 3))[0]
    if random.random() < 0.3:
        listed = SELECTORS if random.random() < 0.8 else NOT_READ
        found["selectors"] = [{"cel": {"expression": random.choice(listed)}}]
    if random.random() < 0.2:
        found["tolerations"] = [{"operator": "Exists", "key": "sick"}]
    if name == "cpu" and random.random() < 0.8:
        amount = random.choice(("1", "3", "4", "8", "11", "13"))
        found["capacity"] = {"requests": {"dra.cpu/cpu": amount}}
    return found


def request(random: Random, name: str) -> dict[str, Any]:
    if random.random() < 0.15:
        ways = [{"name": f"w{number}", **wish(random)} for number in range(random.randint(1, 3))]
        return {"name": name, "firstAvailable": ways}
    found = wish(random)
    if random.random() < 0.05:
        found["adminAccess"] = True
    return {"name": name, "exactly": found}


def claim(random: Random, number: int) -> dict[str, Any]:
    requests = [request(random, f"r{each}") for each in range(random.choices((1, 2, 3), (50, 40, 10))[0])]
    constraints = []
    for _ in range(random.choices((0, 1, 2), (50, 40, 10))[0]):
        names = [each["name"] for each in requests if random.random() < 0.8]
        kind = random.choices(("matchAttribute", "distinctAttribute"), (75, 25))[0]
        attribute = random.choices((ROOT, f"{GPU}/model", f"{GPU}/index", f"{CPU}/numa"), (70, 15, 10, 5))[0]
        constraints.append({"requests": names, kind: attribute})
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": f"c{number}", "namespace": "ml"},
        "spec": {"devices": {"requests": requests, "constraints": constraints}},
    }


def world(random: Random) -> dict[str, Any]:
    """Return a node's devices, claims that have some of them, and claims to be allocated."""
    offered = slices(random)
    return {
        "node": {"metadata": {"name": NODE}},
        "slices": offered,
        "classes": [
            {
                "apiVersion": API,
                "kind": "DeviceClass",
                "metadata": {"name": name},
                "spec": {"selectors": [{"cel": {"expression": selector}}]},
            }
            for name, selector in CLASSES.items()
        ],
        "held": held(random, offered),
        "claims": [claim(random, number) for number in range(random.choices((1, 2), (70, 30))[0])],
    }


def ours(asked: Mapping[str, Any]) -> Allocation:
    devices = devices_on(NODE, {}, asked["slices"], held_claims(asked["held"]))
    specs = [spec_of_claim(each["spec"], f"ml/{each['metadata']['name']}") for each in asked["claims"]]
    return allocate(devices, specs, claim_world(asked["classes"]).classes, "p")


def disagreement(asked: Mapping[str, Any], value: str, error: str) -> str | None:
    said = ours(asked)
    chosen = [["/".join(each.device) for each in one.devices] for one in said.claims]
    expected = json.loads(value) if value else None
    if said.fits is None:
        return None
    if error or expected is None:
        same = not said.fits
    else:
        # Where a selector is not read, the devices may be others, and have to be enough all the same.
        same = said.fits and (chosen == expected or any(each.unsure for each in said.counts))
    if same:
        return None
    here = f"{said.fits} {said.refusal} {said.unknown} {chosen}"
    return f"{json.dumps(asked)}\nthe scheduler: {error or value}\nhere: {here}"


@pytest.mark.long
def test_devices_match_the_schedulers_choice() -> None:
    random = Random(f"allocations/{SCALE}")  # noqa: S311
    worlds = [world(random) for _ in range(WORLDS * SCALE)]
    with oracle_of(MUST_BUILD) as oracle:
        answers = oracle.ask([{"texts": [{"reader": "claims", "text": json.dumps(each)}]} for each in worlds])
    values = [answer["values"][0] for answer in answers]
    served = sum(not each["error"] and each["value"] != "null" for each in values)
    failed = sum(bool(each["error"]) for each in values)
    unknown = sum(ours(each).fits is None for each in worlds)
    say(f"{len(worlds)} worlds: {served} served, {failed} given up with an error, {unknown} unknown here")
    found = [
        said
        for each, answer in zip(worlds, values, strict=True)
        if (said := disagreement(each, answer["value"], answer["error"]))
    ]
    assert found == [], f"{len(found)} of {len(worlds)}:\n" + "\n\n".join(sorted(found, key=len)[:3])
    assert served > len(worlds) / 10
    assert 0 < unknown < len(worlds) / 10
