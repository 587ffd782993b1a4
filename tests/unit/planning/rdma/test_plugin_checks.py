"""What the shared RDMA device plugin accepts and should not, and what becomes of it on a machine."""

import json
from dataclasses import replace

import pytest

from numaforge.findings import Severity
from numaforge.planning.profile import NodeProfile
from numaforge.roles.rdma.plugin_checks import advertised, check_config, check_machine
from numaforge.roles.rdma.pools import plan_pools
from numaforge.roles.rdma.shared_plugin import PluginConfig, parse_plugin_config, plugin_text
from tests.fixtures.machines import dgx_h100, hgx_a100
from tests.fixtures.tables import tables

CASES = tables(__file__)

FIRST = {"ifNames": ["ibp24s0"]}


def config(*pools, **more) -> PluginConfig:
    whole = [{"resourceName": "a", "rdmaHcaMax": 63, "selectors": FIRST} | pool for pool in pools]
    return parse_plugin_config(json.dumps({"configList": whole, **more}), "config.json")


def found(findings) -> list[list[str | None]]:
    return [[each.id, each.severity, each.where] for each in findings]


@pytest.mark.parametrize(
    ("pool", "expected"), CASES["on_every_machine"].values(), ids=CASES["on_every_machine"]
)
def test_findings_on_every_machine_are_reported(pool, expected):
    assert found(check_config(config(pool))) == expected


def test_finding_quotes_the_plugins_error_message():
    twice = check_config(config({}, {"resourcePrefix": "example.com"}))
    assert [each.text for each in twice] == ['error: resource name "a" already exists']
    assert "whatever its prefix" in twice[0].remedy


def test_misspelt_key_gets_a_suggestion():
    (finding,) = check_config(config({"rdmaHcamaxx": 5}))
    assert finding.remedy == "did you mean rdmaHcaMax?"


@pytest.mark.parametrize(
    ("interval", "expected"), [(0, ["rdma-never-updated"]), (-1, ["rdma-config-refused"]), (60, [])]
)
def test_update_interval_is_checked(interval, expected):
    assert [each.id for each in check_config(config({}, periodicUpdateInterval=interval))] == expected


FINDINGS = {
    "one device for a resource": ([{}], []),
    "no device": ([{"selectors": {"ifNames": ["ib7"]}}], [("rdma-selects-nothing", Severity.WARNING)]),
    "the devices of several NUMA nodes": (
        [{"selectors": {"drivers": ["mlx5_core"]}}],
        [("rdma-selects-several", Severity.WARNING)],
    ),
    "two devices of one NUMA node": (
        [{"selectors": {"ifNames": ["ibp24s0", "ibp64s0"]}}],
        [("rdma-selects-several", Severity.NOTE)],
    ),
    "a name that no device has beside one that has": (
        [{"selectors": {"ifNames": ["ibp24s0", "ib7"]}}],
        [("rdma-selector-unmatched", Severity.NOTE)],
    ),
    "a device in two resources": ([{}, {"resourceName": "b"}], [("rdma-pools-overlap", Severity.WARNING)]),
}


@pytest.mark.parametrize(("pools", "expected"), FINDINGS.values(), ids=FINDINGS)
def test_findings_on_one_machine_are_reported(pools, expected):
    findings = check_machine(config(*pools), dgx_h100())
    assert [(each.id, each.severity) for each in findings] == expected


def test_remedy_names_the_selectors_that_exclude_all_devices():
    drivers = "drivers of this machine: mlx5_core; none is mlx5_ib"
    vendors = "vendors of this machine: 15b3; none is 15b4"
    for vendor, remedy in (("15b3", drivers), ("15b4", f"{vendors}; {drivers}")):
        selectors = {"vendors": [vendor], "drivers": ["mlx5_ib"]}
        [finding] = check_machine(config({"selectors": selectors}), dgx_h100())
        assert finding.remedy == remedy


def test_resources_sharing_several_devices_are_reported_once():
    everything = {"selectors": {"drivers": ["mlx5_core"]}}
    findings = check_machine(config(everything, {"resourceName": "b"} | everything), dgx_h100())
    assert [each.id for each in findings].count("rdma-pools-overlap") == 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"management": True}, "rdma-selects-management", id="a management function is selected"),
        pytest.param({"character_devices": ("uverbs0",)}, "rdma-device-refused", id="a device without umad"),
        pytest.param({"pci_address": None}, "rdma-device-without-function", id="a software device"),
    ],
)
def test_devices_unfit_for_pods_are_reported(changes, expected):
    machine = dgx_h100()
    first, second, *rest = machine.rdma_devices
    known = {"character_devices": ("umad1", "uverbs1")}
    devices = (replace(first, **(known | changes)), *(replace(each, **known) for each in (second, *rest)))
    machine = replace(machine, rdma_devices=devices)
    findings = check_machine(config({"selectors": {"ifNames": ["ibp24s0", "ibp64s0"]}}), machine)
    assert expected in [each.id for each in findings]


def test_exclusive_network_namespace_ends_the_plugin():
    machine = replace(dgx_h100(), rdma_netns="exclusive")
    (finding,) = check_machine(config({}), machine)
    assert finding.id == "rdma-netns-exclusive"
    assert finding.text == "incorrect RDMA subsystem network namespace"
    assert advertised(config({}), machine) == {}


def test_only_pools_with_devices_advertise_resources():
    nothing = {"resourceName": "b", "selectors": {"ifNames": ["ib7"]}}
    assert advertised(config({}, nothing), dgx_h100()) == {"rdma/a": 63, "rdma/b": 0}


@pytest.mark.parametrize("machine", [dgx_h100(), hgx_a100()], ids=["DGX H100", "HGX A100"])
@pytest.mark.parametrize("per", ["rail", "device"])
def test_generated_configuration_has_no_findings(machine, per):
    profile = NodeProfile.model_validate({"name": "p", "rdma": {"device_plugin": {"per": per}}})
    pools = plan_pools(machine, profile).value
    read = parse_plugin_config(plugin_text(pools), "config.json")
    assert (*check_config(read), *check_machine(read, machine)) == ()
    assert advertised(read, machine) == {pool.resource: 63 for pool in pools}
