"""Documents that are mutated are read or refused, whatever is in them: never a fault, never a hang."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from numaforge.change.transaction import read_process, read_result, read_status
from numaforge.kubelet.admission.device_manager import read_inventory
from numaforge.kubelet.admission.node import Node
from numaforge.kubelet.admission.pod import Pod
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.given import NotJsonError, parse_json
from numaforge.lib.strict_yaml import read_yaml, read_yaml_documents
from numaforge.machine.topology.document import from_document
from numaforge.planning import document as plans
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.report.layout import topology_of
from numaforge.report.svg import draw
from numaforge.report.tables import topology_tables
from numaforge.roles.device_plugin.config import parse_device_plugin
from numaforge.roles.mig.section import parse_config
from numaforge.roles.rdma.shared_plugin import parse_plugin_config, refusal
from numaforge.rollout.cluster import Lease
from numaforge.rollout.lead import STATE, read_state
from numaforge.rollout.names import NODE
from numaforge.rollout.options import read_options
from numaforge.rollout.record import RECORD, Phase, Record, read_record
from numaforge.rollout.record import _dump as record_text
from numaforge.rollout.shards import ShardProgress
from tests.fixtures.answers import answered
from tests.fuzz.documents import (
    DEVICE_PLUGIN,
    DEVICES,
    DGX_DOCUMENT,
    LAB,
    LAB_DOCUMENT,
    MIG,
    PLAN_DOCUMENT,
    PODS,
    PROFILE,
    RDMA_PLUGIN,
)
from tests.fuzz.mutations import mutated_data, mutated_text
from tests.fuzz.targets import Target, troubles

READY = load_profile("training")

CONFIG = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0", "memoryManagerPolicy": "None"}

OPTIONS = {
    "kubeconfig": "/k",
    "max_unavailable": "10%",
    "canaries": 1,
    "canary_hosts": ["a"],
    "drain_timeout": 600,
    "wait_for": {"job": "x"},
    "force": False,
}
RECORD_TEXT = record_text(
    Record("ops@a/m/b/1/2.3", Phase.APPLIED, was_unschedulable=False, offered={"nvidia.com/gpu": "8"})
)
ENDING = '{"id": "a", "outcome": "applied", "reason": "", "journal": ["E0101 x"]}'
STATUS = "\n".join(
    answered(*("LoadState=loaded", "Phase=apply files", "Boot=b", "Uptime=5", "Token=t"), result=[ENDING])
)
PROCESS = "\n".join(
    answered(
        *("MainPID=1", "NRestarts=0", "ActiveState=active", "Job=0", "ExecMainStartTimestampMonotonic=5"),
        *("ActiveEnterTimestampMonotonic=5", "ShutdownActiveState=inactive", "ShutdownJob=0"),
        *("Boot=b", "Booted=1700000000"),
    )
)


def strictly(read: Callable[[Any], object]) -> Callable[[str], object]:
    """Read JSON data from a text that may be none."""

    def reading(text: str) -> object:
        try:
            document = parse_json(text)
        except NotJsonError as error:
            raise NumaforgeError(str(error)) from error
        return read(document)

    return reading


def topology(document: Any) -> None:
    machine = from_document(document)
    topology_tables(machine)
    draw(machine, plan_node(machine, READY))


def plan(text: str) -> None:
    decided = plans.loads(text)
    draw(topology_of(decided), decided)
    plans.dumps(decided)


def profile(text: str) -> None:
    document = read_yaml(text, "profile.yaml")
    plan_node(LAB, load_profile(document if isinstance(document, dict) else {}, where="profile.yaml"))


def pods(text: str) -> None:
    node = Node(LAB, CONFIG, read_inventory({"nvidia.com/gpu": [0, 1]}))
    for number, document in enumerate(read_yaml_documents(text, "pods.yaml")):
        node.admit(Pod.from_manifest(document), f"pod-{number}")


def devices(text: str) -> None:
    Node(LAB, CONFIG, read_inventory(read_yaml(text, "devices.yaml")))


def record(text: str) -> None:
    found = read_record(Lease("l", annotations={NODE: "n", RECORD: text}))
    assert found is None or read_record(Lease("l", annotations={NODE: "n", RECORD: record_text(found)}))


def lease_state(text: str) -> None:
    ShardProgress.read(read_state(Lease("l", annotations={STATE: text})))


def rdma_plugin(text: str) -> None:
    refusal(parse_plugin_config(text, "config.json"))


def data(*documents: Any) -> Callable[[Random], str]:
    return lambda random: json.dumps(mutated_data(random, random.choice(documents)))


def texts(*known: str) -> Callable[[Random], str]:
    return lambda random: mutated_text(random, random.choice(known))


TARGETS = (
    Target("topology", strictly(topology), data(LAB_DOCUMENT, DGX_DOCUMENT), 60),
    Target("plan", plan, data(PLAN_DOCUMENT), 100),
    Target("plan-text", plan, texts(json.dumps(PLAN_DOCUMENT, indent=1)), 60),
    Target("profile", profile, texts(PROFILE), 150),
    Target("pods", pods, texts(PODS), 400),
    Target("devices", devices, texts(DEVICES), 300),
    Target("mig-config", lambda text: parse_config(text, "mig.yaml"), texts(MIG), 400),
    Target("device-plugin", lambda text: parse_device_plugin(text, "c.yaml"), texts(DEVICE_PLUGIN), 400),
    Target("rdma-plugin", rdma_plugin, texts(RDMA_PLUGIN), 600),
    Target("rollout-options", strictly(lambda found: read_options({"x": found}["x"])), data(OPTIONS), 400),
    Target("record", record, texts(RECORD_TEXT), 600),
    Target("record-data", record, data(json.loads(RECORD_TEXT)), 600),
    Target("lease-state", lease_state, texts('{"numaforge.io/x": 1, "far": {"canaries_left": 1}}'), 300),
    Target("result", read_result, texts(ENDING), 300),
    Target("status", read_status, texts(STATUS), 600),
    Target("process", read_process, texts(PROCESS), 600),
)


@pytest.mark.parametrize("target", [pytest.param(target, id=target.name) for target in TARGETS])
def test_any_document_is_read_or_refused(target: Target):
    assert troubles(target) == []


def test_unmodified_documents_are_accepted():
    """What the cases start from is read, so that a refusal comes from the change."""
    for document in (LAB_DOCUMENT, DGX_DOCUMENT):
        topology(document)
    plan(json.dumps(PLAN_DOCUMENT))
    profile(PROFILE)
    pods(PODS.partition("---")[0])
    devices(DEVICES)
    parse_config(MIG, "mig.yaml")
    parse_device_plugin(DEVICE_PLUGIN, "config.yaml")
    rdma_plugin(RDMA_PLUGIN)
    read_options(OPTIONS)
    record(RECORD_TEXT)
    read_process(PROCESS)
    read_status(STATUS)
