"""docs/profiles.md lists every key as the schema has it, and its examples are accepted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from docs.profile_reference import PAGE, page
from numaforge.json_schema import json_schema
from numaforge.profile import load_profile, machine_profiles, ready_profiles


def test_the_page_is_what_the_schema_says():
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "run: python -m docs.profile_reference"


def examples() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each key with a profile that holds its example, and the least that must stand beside it."""
    schema = json_schema("profile")
    for section, properties in schema["properties"].items():
        for example in properties.get("examples", ()):
            yield section, {section: example}
    places = {
        "MadeFor": lambda entry: {"made_for": entry},
        "Cpus": lambda entry: {"cpus": entry},
        "ReservedCpus": lambda entry: {"cpus": {"reserved": entry}},
        "Memory": lambda entry: {"memory": entry},
        "Hugepages": lambda entry: {"hugepages": [with_amount(entry)]},
        "Kubelet": lambda entry: {"kubelet": entry},
        "Libraries": lambda entry: {"rdma": {"libraries": entry}},
        "PcieSwitch": lambda entry: {"rdma": {"libraries": {"pcie_switches": [with_devices(entry)]}}},
        "DevicePlugin": lambda entry: {"device_plugin": entry},
        "Interrupts": lambda entry: {"interrupts": {"irqbalance": "off", **entry}},
        "NicQueues": lambda entry: {"nic_queues": entry},
        "PodTuning": lambda entry: {"pod_tuning": entry},
        "System": lambda entry: {"system": entry},
        "Watch": lambda entry: {"watch": {"enabled": True, **entry}},
        "Kernel": lambda entry: {"kernel": entry},
        "Modules": lambda entry: {"modules": entry},
        "RdmaHost": lambda entry: {"rdma": {"host": entry}},
        "WaitForVirtualFunctions": lambda entry: {"rdma": {"host": {"wait_for_virtual_functions": entry}}},
        "Maintenance": lambda entry: {"maintenance": entry},
        "Measure": lambda entry: {"measure": entry},
        "Mig": lambda entry: {"mig": with_config(entry)},
        "ImexService": lambda entry: {"imex": with_nodes(entry)},
        "AmdPartitions": lambda entry: {"amd_partitions": entry},
        "Dra": lambda entry: {"dra": entry},
        "AmdGpus": lambda entry: {"amd_partitions": {"gpus": [{"compute": "CPX", **entry}]}},
        "MigGpus": lambda entry: {"mig": {"gpus": [with_mode(entry)]}},
        "SharedDevicePlugin": lambda entry: {"rdma": {"device_plugin": {"per": "machine", **entry}}},
        "RdmaSelection": lambda entry: {"rdma": {"device_plugin": {"per": "rail", "include": [entry]}}},
        "Tuning": lambda entry: {"tuning": with_sysctls(entry)},
        "Host": lambda entry: {"host": entry},
        "Limits": lambda entry: {"host": {"limits": entry}},
        "CpuIdle": lambda entry: {"tuning": {"cpu_idle": entry}},
        "Khugepaged": lambda entry: {"tuning": {"transparent_hugepages": {"khugepaged": entry}}},
        "TransparentHugepages": lambda entry: {"tuning": {"transparent_hugepages": entry}},
    }
    for name, section in schema["$defs"].items():
        for key, value in section["properties"].items():
            for example in value.get("examples", ()):
                yield f"{name}.{key}", places[name]({key: example})


def with_sysctls(entry: dict[str, Any]) -> dict[str, Any]:
    unsafe = entry.get("unsafe", ())
    return {**({"sysctls": dict.fromkeys(unsafe, "1")} if unsafe else {}), **entry}


def with_amount(entry: dict[str, Any]) -> dict[str, Any]:
    amounts = {"count", "count_per_numa_node", "share"}
    return {"size": "2Mi", **({} if amounts & set(entry) else {"count": 1}), **entry}


def with_devices(entry: dict[str, Any]) -> dict[str, Any]:
    return {"devices": ["0000:1b:00.0", "0000:18:00.0"], **entry}


def with_config(entry: dict[str, Any]) -> dict[str, Any]:
    """Add the configs of which `config` names one."""
    if "config" not in entry:
        return entry
    gpus = {"devices": "all", "mig-enabled": False}
    return {**entry, "mig_parted": {"version": "v1", "mig-configs": {entry["config"]: [gpus]}}}


def with_nodes(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a section `imex` with a mode that has what the entry says."""
    if "mode" in entry:
        return entry
    return {"mode": "host-managed", "nodes": ["10.0.0.11"], **entry}


def with_mode(entry: dict[str, Any]) -> dict[str, Any]:
    return entry if {"mode", "devices", "placements"} & set(entry) else {**entry, "mode": "enabled"}


@pytest.mark.parametrize("profile", [pytest.param(profile, id=key) for key, profile in examples()])
def test_an_example_is_accepted(profile):
    assert load_profile(profile)


def test_every_key_has_a_description():
    schema = json_schema("profile")
    for section in (schema, *schema["$defs"].values()):
        assert all(value.get("description") for value in section["properties"].values())


@pytest.mark.parametrize("name", [*ready_profiles(), *machine_profiles()])
def test_a_ready_profile_is_named_on_the_page(name):
    assert f"`{name}`" in PAGE.read_text(encoding="utf-8")


def test_yaml_on_the_page_is_a_profile():
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        assert load_profile(yaml.safe_load(block))
