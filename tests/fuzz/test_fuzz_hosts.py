"""What a host says of itself, mutated, is understood or refused: never a fault, never a hang."""

import base64
import json
from pathlib import Path
from random import Random

import pytest

from numaforge.findings.engine import check
from numaforge.findings.gpudirect import rules as gpudirect
from numaforge.findings.gpus import rules as gpus
from numaforge.fleet.audit import host_rules as userland
from numaforge.lib.framing import Answer
from numaforge.machine.snapshot.capture import parse_output
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.snapshot.redaction import redact, redact_cpuinfo, redact_nvidia_smi
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.nvidia_smi import read_smi_driver, read_smi_gpus
from numaforge.machine.topology.nvml import read_nvml_driver, read_nvml_gpus
from numaforge.machine.topology.read import read_topology
from numaforge.node.bundle import parse_states
from numaforge.planning.node import plan_node
from numaforge.report.tables import topology_tables
from tests.fixtures.answers import answered
from tests.fixtures.tables import tables
from tests.fuzz.hosts import MACHINES, READY, known, mutated_host
from tests.fuzz.mutations import HOSTILE_TEXTS, mutated_data, mutated_text
from tests.fuzz.targets import Target, troubles

XML = [
    file.read_text() for file in sorted((Path(__file__).parent.parent / "fixtures/nvidia_smi").glob("*.xml"))
]
NVML = tables(__file__)["nvml"]
FILE = base64.b64encode(b"text\n").decode()
STATES = "\n".join(
    answered(stat=["644 root root /etc/a"], sum=[f"{'0' * 64}  /etc/a"], text=["file /etc/a", FILE, "."])
)
OUTPUT = """\
Welcome
numaforge answers
numaforge part snapshot 1
sys/devices/system/cpu/online:0-3
sys/devices/system/node/node0/cpulist:0-3
proc/meminfo:MemTotal: 1000 kB
lrwxrwxrwx 1 0 0 0 Nov 23 09:25 sys/class/net/eth0 -> ../../devices/pci0000:00/0000:00:01.0/net/eth0
u /etc/kubernetes/admin.conf
p 64 sys/bus/pci/devices/0000:00:01.0/config
v uname -m:x86_64
t /etc/os-release
 4e414d453d780a
c nvml
 7b2267707573223a5b5d7d
C packages
 install installed linux-image-amd64 6.1.170
N
 7 etc/hosts
 7 total
etc/hosts:1:a \udcff
etc/hosts:2:b
numaforge ended 0
"""


def looked_at(text: str) -> NodeTopology:
    """Read a snapshot, and ask everything that is asked of a machine without a profile."""
    machine = read_topology(Snapshot.from_json(text))
    topology_tables(machine)
    for subject in (userland, gpus, gpudirect):
        check(subject.RULES, machine)
    return machine


def host(text: str) -> None:
    plan_node(looked_at(text), READY)


def snapshot(text: str) -> None:
    read_topology(Snapshot.from_json(text))


def output(text: str) -> None:
    read_topology(parse_output(text))


def nvml(text: str) -> None:
    answers = json.loads(text)
    if isinstance(answers, dict):
        read_nvml_driver(answers)
        list(read_nvml_gpus(answers))


def smi(text: str) -> None:
    read_smi_driver(text)
    list(read_smi_gpus(text))


def redaction(text: str) -> None:
    for remove in (redact, redact_cpuinfo, redact_nvidia_smi):
        remove(text)


def hostile_text(random: Random) -> str:
    """Return a text of some 100 KB that repeats a few pieces, on which patterns may take for ever."""
    named = ("token", "secret: ", "://", "a.", "-----BEGIN ", "staticPodURLHeader:", "serial")
    pieces = (*HOSTILE_TEXTS, *named)
    piece = "".join(random.choice(pieces) for _ in range(random.choice((1, 2, 3))))
    return (piece * (100_000 // max(1, len(piece))))[:100_000]


TARGETS = (
    Target("host", host, mutated_host, 60),
    Target(
        "snapshot",
        snapshot,
        lambda random: json.dumps(mutated_data(random, json.loads(known("ibm-z-drawers").to_json()))),
        20,
    ),
    Target("output", output, lambda random: mutated_text(random, OUTPUT), 1000),
    Target("nvml", nvml, lambda random: json.dumps(mutated_data(random, NVML)), 1000),
    Target("nvidia-smi", smi, lambda random: mutated_text(random, random.choice(XML)), 100),
    Target(
        "states",
        lambda text: parse_states(Answer.of(text)),
        lambda random: mutated_text(random, STATES),
        1000,
    ),
    Target("redaction", redaction, hostile_text, 15),
)


@pytest.mark.parametrize("target", [pytest.param(target, id=target.name) for target in TARGETS])
def test_any_host_output_is_understood_or_refused(target: Target):
    assert troubles(target) == []


def test_unmodified_hosts_are_accepted():
    """What the cases start from is read, so that a refusal comes from the change."""
    for name in MACHINES:
        host(known(name).to_json())
    nvml(json.dumps(NVML))
    assert parse_output(OUTPUT).files["/etc/os-release"] == "NAME=x\n"
    assert [*parse_states(Answer.of(STATES))] == ["/etc/a"]
    for text in XML:
        smi(text)


# What a search that begins anew at every character, or at every line, would take minutes for.
ONE_THING = ("\n", " ", "a", "0,", "a.service.", "name=", "#\n", "Unattended-Upgrade::Package-Blacklist{")
READ_AS_LINES = (
    "/etc/apt/apt.conf.d/50upgrades",
    "/etc/dnf/plugins/versionlock.list",
    "/etc/dnf/versionlock.toml",
    "/etc/infiniband/openib.conf",
    "/etc/modprobe.d/others.conf",
    "/etc/sysctl.d/others.conf",
    "/etc/zypp/locks",
    "/proc/1/cgroup",
    "/proc/1/comm",
    "/proc/1/limits",
    "/proc/swaps",
)


@pytest.mark.parametrize("manager", ["apt-mark", "dnf", "zypper"])
@pytest.mark.parametrize("thing", ONE_THING, ids=[repr(thing)[1:-1] for thing in ONE_THING])
def test_file_of_64_kib_of_one_repeated_text_is_read(thing: str, manager: str) -> None:
    document = json.loads(known(MACHINES[0]).to_json())
    paths = [path for path in document["files"] if not path.startswith("/sys/")]
    long = (thing * 2**16)[: 2**16]
    document["files"] |= dict.fromkeys([*paths, *READ_AS_LINES], long)
    document["commands"] |= {"host daemons": "1", "present": f"/usr/bin/{manager}", "packages": long}
    assert looked_at(json.dumps(document)).userland is not None
