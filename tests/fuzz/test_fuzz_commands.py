"""Every command takes mutated files wherever it takes one: an answer or a refusal, in time, in 500 MiB."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from random import Random

import click
import pytest

from lab.paths import REPOSITORY
from numaforge.cli import numaforge, run
from numaforge.fleet.audit.fleet import Failed, fleet_audit
from numaforge.fleet.audit.machine import audited
from numaforge.lib.errors import ExitCode
from numaforge.lib.resources import template_dir
from numaforge.planning import document as plans
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.report.audit_documents import audit_document
from tests.fixtures import machines
from tests.fixtures.tables import tables
from tests.fuzz.documents import (
    DEVICE_PLUGIN,
    DEVICES,
    DGX_DOCUMENT,
    LAB_DOCUMENT,
    MIG,
    PLAN_DOCUMENT,
    PODS,
    PROFILE,
    RDMA_PLUGIN,
)
from tests.fuzz.hosts import mutated_host
from tests.fuzz.mutations import mutated_data, mutated_text
from tests.fuzz.targets import FACTOR, Target, troubles

CASES = 4
"""For each place of a command in `make test`."""
LONG_RUN = 200_000
"""For all places together in `make test-all PART=fuzz`, whose factor is 120."""

KUBELET = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0"
evictionHard: {memory.available: 100Mi}
"""
AUDITED = fleet_audit(
    {f"gpu-{number}": audited(machines.dgx_h100()) for number in range(4)},
    {"gpu-9": Failed("no answer", True)},
)
GANG = """\
kind: PodGroup
metadata: {name: g}
spec: {minMember: 2, schedulingConstraints: {topology: [{key: rack}]}}
---
kind: Job
metadata: {name: j}
spec:
  parallelism: 3
  template:
    metadata: {labels: {scheduling.x-k8s.io/pod-group: g}}
    spec:
      nodeSelector: {pool: gpu}
      tolerations: [{key: gpu, operator: Exists}]
      containers: [{name: main, resources: {limits: {cpu: 2, memory: 1Gi}}}]
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: v}
spec:
  minAvailable: 1
  networkTopology: {mode: hard, highestTierAllowed: 1}
  tasks: [{name: w, replicas: 2, template: {spec: {containers: [{name: main}]}}}]
"""
SOUND = {
    "lab.json": json.dumps(LAB_DOCUMENT),
    "dgx.json": json.dumps(DGX_DOCUMENT),
    "plan.json": json.dumps(PLAN_DOCUMENT),
    "lab-plan.json": json.dumps(plans.to_document(plan_node(machines.lab_node(), load_profile("training")))),
    "kubelet.yaml": KUBELET,
    "pods.yaml": PODS,
    "devices.yaml": DEVICES,
    "profile.yaml": PROFILE,
    "mig.yaml": MIG,
    "plugin.yaml": DEVICE_PLUGIN,
    "rdma.json": RDMA_PLUGIN,
    "audit.json": json.dumps(audit_document(AUDITED, None)),
    "gang.yaml": GANG,
    "shapes.yaml": "- {name: a, count: 9, cpu: 4, memory: 8Gi}\n- {count: 70, nvidia.com/gpu: 1}\n",
    "cluster.json": json.dumps(tables(__file__)["cluster"]),
}
"""Beside the file that is mutated."""

_CONVERTED = sorted((Path(__file__).parent.parent / "fixtures/convert").iterdir())
_TEMPLATES = sorted(path for path in template_dir().rglob("*.j2") if path.parent.name != "init")


Case = Callable[[Random], str]


def text_of(name: str) -> Case:
    return lambda random: mutated_text(random, SOUND[name])


def data_of(*names: str) -> Case:
    documents = [json.loads(SOUND[name]) for name in names]
    return lambda random: json.dumps(mutated_data(random, random.choice(documents)))


def machine(random: Random) -> str:
    if random.random() < 0.1:
        return mutated_host(random)
    return data_of("lab.json", "dgx.json")(random) if random.random() < 0.9 else text_of("lab.json")(random)


def cluster(random: Random) -> str:
    return (data_of if random.random() < 0.8 else text_of)("cluster.json")(random)


def converted(random: Random) -> str:
    return mutated_text(random, random.choice(_CONVERTED).read_text(encoding="utf-8"))


plan, audit, state = data_of("plan.json", "lab-plan.json"), data_of("audit.json"), data_of("rdma.json")
pods, devices, profile = text_of("pods.yaml"), text_of("devices.yaml"), text_of("profile.yaml")
kubelet, mig, plugin, rdma = map(text_of, ("kubelet.yaml", "mig.yaml", "plugin.yaml", "rdma.json"))


def doors(command: str, file: Case, machine_file: Case, options: str = "") -> dict[str, Case]:
    """Return the doors of a command that takes a plan or a machine, a machine by an option, and a profile."""
    return {
        f"{command} FILE": file,
        f"{command} --machine FILE {options}".rstrip(): machine_file,
        f"{command} dgx.json --profile FILE": profile,
    }


# FILE is what is mutated. A folder that a command takes has it as its only file.
DOORS: dict[str, Case] = {
    "topology FILE": machine,
    "topology FILE --matrix": machine,
    "topology --machine FILE -o json": machine,
    "topology FILE lab.json": machine,
    "plan FILE --profile training": machine,
    "plan FILE": plan,
    "plan --machine FILE --profile best-effort-mixed -o json": machine,
    "plan dgx.json --profile FILE": profile,
    "render FILE --profile training": machine,
    "render FILE": plan,
    "render --machine FILE --to rendered": plan,
    "render dgx.json --profile FILE -o json": profile,
    "generate cluster --machine FILE --profile training": machine,
    "generate cluster dgx.json FILE --profile training --to rendered": machine,
    "generate cluster dgx.json --profile FILE -o json": profile,
    "fit --shapes FILE --machine dgx.json --profile training": text_of("shapes.yaml"),
    "fit --shapes FILE --machine dgx.json=3 --profile training -o json": cluster,
    "cluster explain FILE --machine lab.json --profile best-effort-mixed": text_of("gang.yaml"),
    "cluster explain pods.yaml --machine FILE --profile training -o json": machine,
    "cluster explain pods.yaml dgx.json FILE": plan,
    "cluster explain pods.yaml lab.json --profile FILE": profile,
    "cluster explain default/waits dgx.json --profile training --cluster FILE": cluster,
    "draw FILE --to -": machine,
    "draw --machine FILE --to -": plan,
    "draw dgx.json --profile FILE --to -": profile,
    "diff FILE lab.json": machine,
    "diff plan.json FILE": plan,
    "diff lab.json dgx.json --profile FILE": profile,
    "kubelet check FILE --machine lab.json --kubelet-version 1.36": kubelet,
    "kubelet check kubelet.yaml --machine FILE --kubelet-version 1.36": machine,
    "kubelet check kubelet.yaml --machine lab.json --kubelet-version 1.36 --drop-in DIR/10-a.conf": kubelet,
    "kubelet check kubelet.yaml --machine lab.json --state-dir DIR/cpu_manager_state": state,
    "kubelet check --plan FILE --machine lab.json": plan,
    "kubelet check --profile FILE --machine lab.json": profile,
    "admit FILE --machine lab.json --config kubelet.yaml": pods,
    "admit pods.yaml --machine FILE --config kubelet.yaml": machine,
    "admit pods.yaml --machine lab.json --config FILE": kubelet,
    "admit pods.yaml --machine lab.json --config kubelet.yaml --drop-in DIR/10-a.conf": kubelet,
    "admit pods.yaml --machine lab.json --config kubelet.yaml --devices FILE": devices,
    "admit pods.yaml --machine lab.json --config kubelet.yaml --state-dir DIR/cpu_manager_state": state,
    "admit pods.yaml --machine dgx.json --plan FILE": plan,
    "admit pods.yaml --plan FILE": plan,
    "admit pods.yaml --machine lab.json --profile FILE": profile,
    "fit FILE --machine lab.json --config kubelet.yaml": pods,
    "fit pods.yaml --machine FILE --profile training": machine,
    "fit pods.yaml --machine lab.json --config FILE": kubelet,
    "fit pods.yaml --machine lab.json --config kubelet.yaml --drop-in DIR/10-a.conf": kubelet,
    "fit pods.yaml --machine lab.json --config kubelet.yaml --devices FILE": devices,
    "fit pods.yaml --machine lab.json --config kubelet.yaml --state-dir DIR/cpu_manager_state": state,
    "fit pods.yaml --plan FILE": plan,
    "fit pods.yaml --machine lab.json --profile FILE": profile,
    "audit FILE": machine,
    "audit --machine FILE -o html": machine,
    "audit FILE lab.json dgx.json lab.json -o sarif": machine,
    "audit lab.json --baseline FILE": audit,
    "audit lab.json --since FILE -o json": audit,
    "audit --only gpus FILE": machine,
    "audit --only gpus --machine FILE -o json": machine,
    "audit --only gpudirect FILE": machine,
    "audit --only gpudirect --machine FILE": machine,
    "audit --only host FILE": machine,
    "audit --only host --machine FILE": machine,
    **doors("generate runtime-class", plan, plan),
    "mig check FILE dgx.json": mig,
    "mig check mig.yaml FILE": machine,
    "mig check mig.yaml --machine FILE": machine,
    "mig plan FILE dgx.json --config half": mig,
    "mig plan mig.yaml --machine FILE --config half": machine,
    "mig plan --profile FILE dgx.json": profile,
    "generate amd-config-manager FILE": plan,
    "generate amd-config-manager --machine FILE --profile mi300x-cpx": machine,
    "generate amd-config-manager mi300x --profile FILE": profile,
    **doors("mig operator-config", plan, machine, "--profile inference-mig"),
    "device-plugin check FILE dgx.json": plugin,
    "device-plugin check plugin.yaml FILE": machine,
    "device-plugin check plugin.yaml --machine FILE": machine,
    "device-plugin check plugin.yaml --plan FILE": plan,
    "device-plugin check plugin.yaml dgx.json --plan FILE": plan,
    "device-plugin check plugin.yaml dgx.json --profile FILE": profile,
    **doors("device-plugin config", plan, machine, "--profile inference-mig"),
    "rdma check FILE": rdma,
    "rdma check rdma.json --machine FILE": machine,
    "rdma check rdma.json --plan FILE": plan,
    "rdma check rdma.json dgx.json --profile FILE": profile,
    **doors("rdma config", machine, plan),
    **doors("rdma env", machine, machine),
    **doors("rdma manifests", machine, plan),
    "rdma topology-xml FILE --to -": machine,
    "rdma topology-xml --machine FILE --to -": machine,
    "rdma topology-xml dgx.json --profile FILE --to -": profile,
    "convert FILE": converted,
}
CASES_OF_A_DOOR = CASES if FACTOR == 1 else -(-LONG_RUN // (120 * len(DOORS)))
ELSEWHERE = {
    "apply": "an inventory: the target of that name; its hosts' answers: test_fuzz_hosts.py",
    "doctor": "as apply",
    "verify": "as apply",
    "measure": "hosts: tests/unit/fleet/measure has their answers",
    "rehearse": "hosts: tests/unit/change/test_rehearsal.py has their answers",
    "boot": "it plans the machine that it runs on; its files: tests/unit/image/first_boot",
    "capture": "it writes; what hosts say: test_fuzz_hosts.py",
    "init": "takes names alone",
    "mig explain": "takes names alone",
    "generate monitoring": "takes an address alone",
    "cluster verify": "machines, as generate cluster; live objects: tests/unit/cluster",
    "completion": "takes a name alone",
    "schema": "takes a name alone",
    "image cmdline": "an image's settings: tests/unit/image; machines, as plan",
    **{
        f"rollout {verb}": "an inventory, as apply; the cluster's answers: test_fuzz_documents.py"
        for verb in ("plan", "run", "resume", "status", "abort", "unlock", "release", "mig-labels")
    },
}
"""Commands without a door, and where what they read is tried."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in SOUND.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMAFORGE_TRACEBACK", "1")  # a fault is raised, and says where it is
    return tmp_path


def answered(door: str, text: str) -> None:
    """Run a command with a text as its file; raises what it did not expect."""
    words = []
    for word in door.split():
        if word == "FILE":
            Path("FILE").write_bytes(text.encode("utf-8", "surrogateescape"))
        if word.startswith("DIR/"):
            Path(word).parent.mkdir(exist_ok=True)
            Path(word).write_bytes(text.encode("utf-8", "surrogateescape"))
            word = "DIR"
        words.append(word)
    shutil.rmtree("rendered", ignore_errors=True)
    code = run(words)
    assert code in (ExitCode.YES, ExitCode.NO, ExitCode.BAD_INPUT), code


@pytest.mark.variants(50)
@pytest.mark.parametrize("door", DOORS)
def test_any_file_is_answered_or_refused(door, folder):
    name = "command-" + door.replace(" ", "_").replace("/", "_")
    assert troubles(Target(name, partial(answered, door), DOORS[door], CASES_OF_A_DOOR)) == []


def render(text: str) -> None:
    """Render a plan with an own template; the first line of the text is which one."""
    name, _, content = text.partition("\n")
    with tempfile.TemporaryDirectory(dir=".") as own:  # another each time: what was rendered is remembered
        path = Path(own, name)
        path.parent.mkdir(parents=True)
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
        os.environ["NUMAFORGE_TEMPLATES"] = own
        answered("render plan.json", "")


def template(random: Random) -> str:
    path = random.choice(_TEMPLATES)
    return f"{path.relative_to(template_dir())}\n{mutated_text(random, path.read_text(encoding='utf-8'))}"


def test_any_inventory_is_read_or_refused(folder):
    command = [sys.executable, "-m", "tests.fuzz.inventories", str(10 * CASES)]
    here = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, env=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_any_custom_template_is_rendered_or_refused(folder, monkeypatch):
    monkeypatch.setenv("NUMAFORGE_TEMPLATES", "templates")
    assert troubles(Target("template", render, template, 10 * CASES)) == []


def test_unmodified_inputs_are_accepted_by_every_command(folder, capsys):
    """What the cases start from is taken by every command."""
    starts = {machine: "dgx.json", plan: "plan.json", audit: "audit.json", converted: None}
    starts |= {pods: "pods.yaml", devices: "devices.yaml", kubelet: "kubelet.yaml"}
    starts |= {mig: "mig.yaml", plugin: "plugin.yaml", rdma: "rdma.json"}
    for door, of in DOORS.items():
        if (name := starts.get(of)) and "DIR" not in door:
            answered(door, SOUND[name])
            said = capsys.readouterr().err
            assert "FILE" not in said or "cannot" not in said, f"{door}: {said}"


@cache
def commands() -> dict[str, click.Command]:
    """Return every command by its words."""

    def below(group: click.Group, words: str) -> Iterator[tuple[str, click.Command]]:
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            if isinstance(command, click.Group):
                yield from below(command, f"{words}{name} ")
            else:
                yield f"{words}{name}", command

    return dict(below(numaforge, ""))


def of_command(name: str) -> list[str]:
    return [door for door in DOORS if f"{door} ".startswith(f"{name} ")]


def test_each_command_is_fuzzed_or_exempt_with_a_reason():
    assert {name for name in commands() if not of_command(name)} == ELSEWHERE.keys()


@pytest.mark.parametrize(
    "option",
    [
        *("--machine", "--plan", "--profile", "--config", "--devices", "--drop-in", "--state-dir"),
        *("--baseline", "--since"),
    ],
)
def test_each_command_with_a_file_option_is_fuzzed_with_that_option(option):
    taking = [
        name
        for name, command in commands().items()
        if name not in ELSEWHERE
        for one in command.params
        if option in one.opts and (one.metavar or "").find("NAME") in (-1, 0) and one.metavar != "NAME"
    ]
    missing = [
        name
        for name in taking
        if not any(f" {option} FILE" in door or f" {option} DIR" in door for door in of_command(name))
    ]
    assert taking
    assert missing == []
