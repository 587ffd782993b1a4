"""The topology's JSON document: its form, what is lost on the way back (nothing), and what is refused."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from numaforge.lib.errors import TopologyError
from numaforge.machine.topology.document import from_document, to_document
from tests.fixtures.machines import MACHINES, dgx_h100, lab_node
from tests.fixtures.tables import cases
from tests.unit.planning.strategies import machines

FIELDS = """
schema hostname architecture cpu_vendor product product_name firmware kernel kernel_cmdline os_release
memory_bytes
swap_bytes cgroup_version kubelet cpus smt switchable nohz_full packages numa_nodes cores kubelet_cores
kubelet_packages l3_caches core_caches
hugepages cpufreq idle_states kernel_values sysctls loadable_modules gpus
nvidia nvidia_install nvswitches gpu_processes device_holders holders_doubt accelerators nics rdma_devices
rdma_netns networks nccl_conf peer_memory nvmes other_devices pci_functions pci_paths userland
kernel_values_record planned_files
previous_plan unfinished unreadable nvlink_domains gpu_memory_mode
"""


def reread(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document as another program gets it."""
    return json.loads(json.dumps(document))


@pytest.mark.parametrize("name", MACHINES)
def test_known_machine_survives_a_round_trip(name):
    machine = MACHINES[name]()
    assert from_document(reread(to_document(machine))) == machine


@given(machines())
def test_random_machine_survives_a_round_trip(machine):
    assert from_document(reread(to_document(machine))) == machine


def test_fields_are_in_reading_order():
    assert list(to_document(lab_node())) == FIELDS.split()


def test_cpu_sets_are_written_as_cpulists():
    assert to_document(lab_node())["cpus"] == {"online": "0-15", "offline": "", "isolated": ""}


def test_cpus_of_one_governor_are_grouped():
    governors = {cpu: "performance" if cpu < 8 else "ondemand" for cpu in range(16)}
    node = lab_node()
    document = to_document(replace(node, cpufreq=replace(node.cpufreq, governors=governors)))
    assert document["cpufreq"]["governors"] == {"0-7": "performance", "8-15": "ondemand"}


@cases(
    "change",
    {
        "at-the-top": lambda d: d.update(chassis="x"),
        "in-a-core": lambda d: d["cores"][0].update(die=1),
        "in-a-mapping": lambda d: d["cpus"].update(present="0-15"),
        "the-schemas-address": lambda d: d.update({"$schema": "topology.json"}),
    },
)
def test_unknown_field_of_a_later_version_is_ignored(change):
    document = reread(to_document(dgx_h100()))
    change(document)
    assert from_document(document) == dgx_h100()


def test_document_of_a_newer_release_asks_for_an_upgrade():
    with pytest.raises(TopologyError, match=r"has schema 99, and 1 is read here\n  upgrade numaforge"):
        from_document({**reread(to_document(dgx_h100())), "schema": 99})


@cases(
    "change, message",
    {
        "no-schema": (lambda d: d.pop("schema"), ": the topology has schema None, not 1"),
        "another-schema": (lambda d: d.update(schema=0), ": the topology has schema 0, not 1"),
        "a-field-is-missing": (lambda d: d.pop("numa_nodes"), ".numa_nodes: must be given"),
        "devices-are-missing": (lambda d: d.pop("gpus"), ".gpus: must be given"),
        "a-field-of-another-kind": (lambda d: d.update(cpus="0-3"), ".cpus: '0-3' is not a mapping"),
        "a-broken-cpulist": (
            lambda d: d["cpus"].update(online="4-1"),
            ".cpus.online: '4-1' is not a cpulist: the range '4-1' is empty or too large",
        ),
        "a-quantity-for-bytes": (
            lambda d: d.update(memory_bytes="8Gi"),
            ".memory_bytes: '8Gi' is not a whole number",
        ),
        "true-for-a-number": (
            lambda d: d["cores"][3].update(package=True),
            ".cores[3].package: True is not a whole number",
        ),
        "a-word-for-true": (
            lambda d: d["gpus"][0].update(mig_capable="yes"),
            ".gpus[0].mig_capable: 'yes' is neither true nor false",
        ),
        "unknown-key-of-a-device": (lambda d: d["nics"][1].update(mac="x"), ".nics[1].mac: unknown key"),
    },
)
def test_foreign_document_is_refused(change, message):
    document = reread(to_document(dgx_h100()))
    change(document)
    with pytest.raises(TopologyError) as caught:
        from_document(document)
    assert str(caught.value).splitlines() == [
        f"topology{message}",
        "  write it with `numaforge topology -o json` of this version",
    ]
