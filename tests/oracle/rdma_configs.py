"""Configurations of the shared RDMA device plugin: those whose answers are recorded, and random ones.

`python -m tests.oracle.rdma_configs` asks the plugin's own code again and writes the record.
"""

import json
from random import Random
from typing import Any

from lab import gobuild, rdma_oracle
from lab.paths import REPOSITORY

RECORD = REPOSITORY / "tests" / "unit" / "planning" / "rdma" / "plugin_answers.json"

FUNCTIONS = [
    {
        "address": f"0000:{number}8:00.0",
        "vendor": "15b3" if number < 4 else "8086",
        "device": ("1021", "101b")[number % 2],
        "driver": "mlx5_core" if number < 4 else "ice",
        "interface": ("ib0", "ib1", "eth2", "", "eth4")[number],
        "link_type": ("infiniband", "infiniband", "ether", "", "ether")[number],
    }
    for number in range(5)
]
"""What the questions are asked on: two InfiniBand functions, two Ethernet ones, one without an interface."""


def _one(**changes: Any) -> str:
    resource = {"resourceName": "hca", "rdmaHcaMax": 63, "selectors": {"ifNames": ["ib0"]}} | changes
    kept = {key: value for key, value in resource.items() if value is not ...}
    return json.dumps({"configList": [kept]})


def _two(first: str, second: str, **changes: Any) -> str:
    pools = [json.loads(_one(resourceName=name))["configList"][0] for name in (first, second)]
    return json.dumps({"configList": [pools[0], pools[1] | changes]})


CASES = {
    "one resource": _one(),
    "no resource": '{"configList": []}',
    "null": "null",
    "an empty mapping": "{}",
    "an empty text": "",
    "a list": "[]",
    "a resource that is a text": '{"configList": ["hca"]}',
    "a number that is a text": _one(rdmaHcaMax="63"),
    "a number with a fraction": _one(rdmaHcaMax=6.5),
    "true is no number": _one(rdmaHcaMax=True),
    "a number that is too large": _one(rdmaHcaMax=2**63),
    "selectors are a list": _one(selectors=["ib0"]),
    "a selector is a text": _one(selectors={"ifNames": "ib0"}),
    "a name that is null": _one(resourceName=None),
    "a name is missing": _one(resourceName=...),
    "a name with a hyphen": _one(resourceName="hca-a"),
    "a name with a dot": _one(resourceName="hca.a"),
    "a name with a slash": _one(resourceName="rdma/hca"),
    "a name with an umlaut": _one(resourceName="hcä"),
    "a name that ends a line": _one(resourceName="hca\n"),
    "a name that begins with an underscore": _one(resourceName="_hca"),
    "a name twice": _two("hca", "hca"),
    "a name twice under other prefixes": _two("hca", "hca", resourcePrefix="example.com"),
    "names that differ in case": _two("hca", "HCA"),
    "no rdmaHcaMax": _one(rdmaHcaMax=...),
    "rdmaHcaMax is 0": _one(rdmaHcaMax=0),
    "rdmaHcaMax is negative": _one(rdmaHcaMax=-3),
    "neither selectors nor devices": _one(selectors=...),
    "selectors without a list": _one(selectors={}),
    "selectors with empty lists": _one(selectors={"ifNames": [], "vendors": []}),
    "devices alone": _one(selectors=..., devices=["ib0", "ib1"]),
    "devices and empty selectors": _one(selectors={"ifNames": []}, devices=["ib1"]),
    "devices and selectors": _one(devices=["ib0"]),
    "the interval is 0": '{"periodicUpdateInterval": 0, "configList": []}',
    "the interval is negative": '{"periodicUpdateInterval": -1, "configList": []}',
    "the interval overflows": '{"periodicUpdateInterval": 10000000000, "configList": []}',
    "the interval overflows into a positive one": '{"periodicUpdateInterval": 20000000000, "configList": []}',
    "the interval is null": '{"periodicUpdateInterval": null, "configList": []}',
    "keys in another case": '{"CONFIGLIST": [{"resourcename": "a", "Selectors": {"IFNAMES": ["ib0"]}}]}',
    "unknown keys": _one(tokens=1, selectors={"ifNames": ["ib1"], "pfNames": ["ib0"]}),
    "entries of a list are alternatives": _one(selectors={"ifNames": ["ib0", "eth2"]}),
    "lists are all to fit": _one(selectors={"vendors": ["15b3"], "linkTypes": ["ether"]}),
    "an empty list is no selector": _one(selectors={"vendors": ["15b3"], "linkTypes": []}),
    "an empty text is a function without an interface": _one(selectors={"ifNames": [""]}),
    "nothing is selected": _one(selectors={"ifNames": ["ib7"]}),
    "no patterns": _one(selectors={"ifNames": ["ib*"]}),
    "letters are compared": _one(selectors={"vendors": ["15B3"]}),
    "drivers": _one(selectors={"drivers": ["ice"]}),
    "devices by id": _one(selectors={"deviceIDs": ["101b"]}),
    "the same function in two resources": _two("one", "two"),
}


def question(config: str) -> dict[str, Any]:
    """Return what the plugin is asked about a configuration."""
    return {"config": config, "functions": FUNCTIONS}


def random_config(random: Random) -> str:
    """Return a configuration with a mistake here and there."""
    document: dict[str, Any] = {"configList": [_resource(random) for _ in range(random.randrange(4))]}
    if random.random() < 0.3:
        document["periodicUpdateInterval"] = random.choice([None, -5, 0, 60, 10**10, "60", 1.5])
    return json.dumps(document)


def _resource(random: Random) -> dict[str, Any]:
    resource: dict[str, Any] = {
        "resourceName": random.choice(["a", "b", "rail0", "rail_1", "A", "a-b", "", None]),
        "resourcePrefix": random.choice(["rdma", "", None, "Example/x"]),
        "rdmaHcaMax": random.choice([63, 1, 0, -1, None, "1", 2**64]) if random.random() < 0.4 else 63,
        "selectors": _selectors(random),
        "devices": random.sample(["ib0", "ib1", "eth2", ""], random.randrange(3)),
    }
    kept = random.sample(sorted(resource), random.randint(2, 5))
    return {key: resource[key] for key in {*kept, "resourceName"} if random.random() < 0.97}


def _selectors(random: Random) -> Any:
    if random.random() < 0.1:
        return random.choice([None, {}, [], "ib0"])
    keys = {"vendors": "vendor", "deviceIDs": "device", "drivers": "driver", "ifNames": "interface"}
    keys["linkTypes"] = "link_type"
    chosen = random.sample(sorted(keys), random.randrange(4))
    return {
        key: [function[keys[key]] for function in random.sample(FUNCTIONS, random.randrange(3))]
        for key in chosen
    }


def main() -> None:
    """Ask the plugin about every case, and write its answers."""
    answers = rdma_oracle.ask([question(config) for config in CASES.values()])
    record = {
        "plugin": gobuild.version(gobuild.RDMA_ORACLE, "github.com/Mellanox/k8s-rdma-shared-dev-plugin"),
        "functions": FUNCTIONS,
        "cases": [
            {"id": name, "config": config, **answer}
            for (name, config), answer in zip(CASES.items(), answers, strict=True)
        ],
    }
    RECORD.write_text(f"{json.dumps(record, indent=1, ensure_ascii=False)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
