"""An image whose nodes plan themselves: two machines boot from it, join, and stay as they have planned it."""

import json
import random
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import requirements
from lab.cluster import Lab, build
from lab.machines import NumaNode
from lab.node import HOST_SEEN_FROM_NODE, Node
from lab.paths import REPOSITORY
from numaforge.image.first_boot.settings import SETTINGS
from numaforge.image.first_boot.stamp import FAILED, STATE, TRIAL
from numaforge.lib.cpulist import parse_cpulist
from numaforge.machine.snapshot.capture import parse_output, script
from numaforge.machine.topology.read import read_topology
from numaforge.planning.document import loads
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.rollout.self_planned import ANNOTATION, CONDITION, UNVERIFIED
from tests.lab.rollouts import in_repository, kubectl
from tests.lab.running_pods import pod, uid_of_running

pytestmark = [pytest.mark.long, pytest.mark.vm]
DROP_IN = "/etc/kubernetes/kubelet.conf.d/90-numaforge.conf"
PLANNED = f"cat {STATE}/record.json"
WITHIN_S = 1800
PROFILE = REPOSITORY / "lab/baked/profiles/lab.yaml"
CUTS = 10


@pytest.fixture(scope="module")
def image_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two machines, of 4 and of 2 NUMA nodes, that have booted from one image, and are Ready."""
    requirements.ensure()
    lab = Lab(tmp_path_factory.mktemp("i"), baked=True)
    lab.up(2, boot=True)
    yield lab
    lab.down()


@pytest.fixture(params=[0, 1], ids=["4 NUMA nodes", "2 NUMA nodes"])
def node(request: pytest.FixtureRequest, image_lab: Lab) -> Node:
    return image_lab.nodes[request.param]


def wait_until(node: Node, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail((node.folder / "console.log").read_text(errors="replace")[-3000:])
        time.sleep(1)


def answers(node: Node, command: str) -> bool:
    return node.try_run(command).returncode == 0


def record(node: Node) -> dict[str, object]:
    """Return the record of the plan in effect, once none is on trial."""
    wait_until(node, lambda: answers(node, f"test -e {STATE}/record.json && test ! -e {TRIAL}"))
    return dict(json.loads(node.run(PLANNED)))


def test_each_node_plans_itself_for_its_own_machine(node: Node) -> None:
    assert record(node)["named_by"] == "/etc/numaforge/boot.yaml: profile"
    drop_in = yaml.safe_load(node.run(f"cat {DROP_IN}"))
    assert len(drop_in["reservedMemory"]) == len(node.machine.numa_nodes)
    machine = read_topology(parse_output(node.run("sh -s", input_text=script())))
    planned = plan_node(machine, load_profile(PROFILE))
    saved = loads(node.run("cat /etc/numaforge/plan.json"))
    assert saved.kubelet == planned.kubelet
    assert saved.cpus == planned.cpus


def test_nodes_of_one_image_have_distinct_machine_ids(image_lab: Lab) -> None:
    ids = {node.run("cat /etc/machine-id").strip() for node in image_lab.nodes}
    assert len(ids - {"", "uninitialized"}) == 2


def test_verification_passes_without_a_change(image_lab: Lab, tmp_path: Path) -> None:
    inventory = tmp_path / "inventory.py"
    inventory.write_text(f"nodes = {[*image_lab.inventory().items()]!r}\n")
    said = in_repository("numaforge", "verify", str(inventory))
    assert "2 as planned" in said


def test_machine_reports_as_planned_and_is_released(image_lab: Lab) -> None:
    for node in image_lab.nodes:
        wait_until(node, lambda node=node: ANNOTATION in annotations(image_lab, node))  # type: ignore[misc]
        told = json.loads(annotations(image_lab, node)[ANNOTATION])
        assert (told["says"], told["verified"], told["profile"]) == ("", True, "lab")
        assert told["plan"] == str(record(node)["plan"])[:16]
        assert verified(image_lab, node) == ("True", "AsPlanned")
        assert [taint["key"] for taint in cluster_node(image_lab, node)["spec"]["taints"]] == [UNVERIFIED]
    kubectl_of_lab = str(image_lab.control_plane.kubectl())
    login = ("--kubeconfig", str(image_lab.kubeconfig), "--kubectl", kubectl_of_lab)
    said = in_repository("numaforge", "rollout", "release", *login)
    assert f"verified, {UNVERIFIED} is lifted" in said
    for node in image_lab.nodes:
        assert not cluster_node(image_lab, node)["spec"].get("taints")
    status = in_repository("numaforge", "rollout", "status", *login, "--verbose")
    assert status.count("plans itself") == 2


def cluster_node(lab: Lab, node: Node) -> dict[str, Any]:
    return dict(json.loads(kubectl(lab, "get", "node", node.name, "-o", "json")))


def annotations(lab: Lab, node: Node) -> dict[str, str]:
    return dict(cluster_node(lab, node)["metadata"].get("annotations") or {})


def verified(lab: Lab, node: Node) -> tuple[str, str]:
    """Return the status and the reason of the condition in which a node says how it is."""
    conditions = cluster_node(lab, node)["status"]["conditions"]
    found = [each for each in conditions if each["type"] == CONDITION]
    return (found[0]["status"], found[0]["reason"]) if found else ("", "")


def test_pod_gets_whole_unreserved_cores(image_lab: Lab, node: Node) -> None:
    name = f"pinned-{node.name}"
    wish = pod(name, {"cpu": "2", "memory": "64Mi", "nvidia.com/gpu": "1"})
    wish["spec"]["nodeName"] = node.name  # type: ignore[index]
    kubectl(image_lab, "create", "-f", "-", manifest=wish)
    try:
        uid = uid_of_running(image_lab, name)
        state = json.loads(node.run("cat /var/lib/kubelet/cpu_manager_state"))
        cpus = parse_cpulist(state["entries"][uid]["work"])
    finally:
        kubectl(image_lab, "delete", "pod", name, "--wait=true")
    reserved = parse_cpulist(yaml.safe_load(node.run(f"cat {DROP_IN}"))["reservedSystemCPUs"])
    assert len(cpus) == 2
    assert not {*cpus} & {*reserved}


def test_second_boot_changes_nothing_and_starts_no_python(node: Node) -> None:
    before, boot_id = record(node), node.run("cat /proc/sys/kernel/random/boot_id")
    node.try_run("systemctl reboot")
    wait_until(
        node,
        lambda: (
            answers(node, f"test $(cat /proc/sys/kernel/random/boot_id) != {boot_id.strip()}")
            and answers(node, "systemctl is-active -q kubelet && curl -fs http://127.0.0.1:10248/healthz")
        ),
    )
    assert record(node) == before
    assert not answers(node, "test -e /run/numaforge/boot/said"), "numaforge was started"


# ---- a new profile for a node that has joined ----

WRITTEN = "/etc/numaforge/profile.yaml"
CUT = f"""[Unit]
Description=Lead the way to the API server nowhere while a plan of the profile cut is in effect
After=numaforge-boot.service
Before=kubelet.service
[Service]
ExecCondition=/bin/grep -qE '"profile": *"cut"' /etc/numaforge/plan.json
ExecStart=/sbin/ip route replace blackhole {HOST_SEEN_FROM_NODE}
RemainAfterExit=yes
Type=oneshot
[Install]
WantedBy=kubelet.service
"""


def try_profile(node: Node, name: str) -> None:
    """Give a node another profile that extends the image's own by its name, and reboot it."""
    text = f"name: {name}\nextends: lab\nmemory: {{system_reserved: 300Mi}}\n"
    boot_id = node.run(f"cat > {WRITTEN} && sync && cat /proc/sys/kernel/random/boot_id", input_text=text)
    node.try_run("systemctl reboot")
    unchanged = f"grep -q {boot_id.strip()} /proc/sys/kernel/random/boot_id"
    wait_until(node, lambda: answers(node, "true") and not answers(node, unchanged))


def await_profile(node: Node, name: str) -> None:
    """Wait until the plan of a profile is in effect, and none on trial; the node may be rebooting."""
    named = f'grep -q \'"profile": "{name}"\' {STATE}/record.json'
    wait_until(node, lambda: answers(node, f"{named} && test ! -e {TRIAL}"))


@pytest.fixture
def small(image_lab: Lab) -> Iterator[Node]:
    """The small machine; at the end it has the image's profile again."""
    node = image_lab.nodes[1]
    record(node)
    node.run(f"cp {SETTINGS} /root/")
    yield node
    node.run(f"cp /root/boot.yaml {SETTINGS}; rm -f {WRITTEN} /etc/systemd/system/*/cut.service")
    node.try_run("systemctl reboot")
    await_profile(node, "lab")


def test_new_profile_is_kept_once_the_kubelet_reaches_the_api_server(small: Node) -> None:
    try_profile(small, "tried")
    await_profile(small, "tried")
    assert str(record(small)["confirmed"]).endswith("reached with the kubelet's login")
    assert "systemReserved" in small.run(f"cat {DROP_IN}")


def test_profile_that_cuts_the_network_is_undone_by_one_boot_and_held(small: Node, image_lab: Lab) -> None:
    before = small.run(f"cat {DROP_IN}")
    small.run("cat > /etc/systemd/system/cut.service && systemctl enable -q cut.service", input_text=CUT)
    small.run(f"sed -i 's/{{/{{\"confirm_seconds\": 30,/' {SETTINGS}")
    try_profile(small, "cut")
    wait_until(small, lambda: answers(small, f"test -e {FAILED}/why"))
    assert small.run(f"cat {DROP_IN}") == before
    wait_until(small, lambda: answers(small, "systemctl is-active -q kubelet"))
    wait_until(small, lambda: "not tried again" in annotations(image_lab, small).get(ANNOTATION, ""))
    assert "the kubelet runs with the earlier plan" in small.run("cat /run/issue.d/numaforge.issue")
    counted = small.run("ls /var/lib/numaforge/txn")
    small.run("systemctl restart kubelet")
    assert small.run("ls /var/lib/numaforge/txn") == counted


# ---- one machine, booted as often as a test likes ----


@dataclass(frozen=True)
class Odd(Node):
    """A node that QEMU starts otherwise: `replaced` are arguments by those that they take the place of."""

    replaced: tuple[tuple[str, str], ...] = ()

    def qemu_arguments(self) -> list[str]:
        instead = dict(self.replaced)
        return [instead.get(argument, argument) for argument in super().qemu_arguments()]


@pytest.fixture
def fresh(image_lab: Lab) -> Iterator[Node]:
    """The small machine, with a disk that has never booted; at the end it has its own identity again."""
    node = image_lab.nodes[1]
    node.power_off()
    empty(node)
    identity = (node.folder / "identity.tar").read_bytes()
    yield node
    node.power_off()
    (node.folder / "identity.tar").write_bytes(identity)


def empty(node: Node) -> None:
    """Give a machine a disk that has never booted."""
    node.disk.unlink()
    image = build(baked=True).disk
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(image), "-F", "raw", str(node.disk)], check=True
    )


def write_before_boot(node: Node, path: str, text: str) -> None:
    """Have the machine find a file at its first boot, as cloud-init would write it."""
    content = text.encode()
    with tarfile.open(node.folder / "identity.tar", "a") as tar:
        entry = tarfile.TarInfo(path)
        entry.size, entry.mode = len(content), 0o644
        tar.addfile(entry, BytesIO(content))


def booted(node: Node) -> None:
    """Power on, and wait until the node's kubelet is healthy."""
    node.power_on()
    wait_until(node, lambda: answers(node, "curl -fs http://127.0.0.1:10248/healthz"))


def test_first_boot_survives_a_power_cut_at_any_moment(fresh: Node) -> None:
    moments = random.Random(27)  # noqa: S311 (moments, no secrets)
    for cut in range(CUTS):
        empty(fresh)
        fresh.power_on()
        after = moments.uniform(5, 120)
        time.sleep(after)
        fresh.power_off()
        booted(fresh)
        done = record(fresh)
        assert done["profile"] == "lab", f"cut {cut} after {after:.1f} s"
        assert not answers(fresh, "test -e /var/lib/numaforge/txn/current"), f"cut {cut} after {after:.1f} s"
        fresh.power_off()


MISTAKES = {
    "a profile that there is not": ("extends: trianing\n", "trianing"),
    "a profile that the machine cannot meet": (
        "{extends: training, memory: {system_reserved: 900Gi}}\n",
        "900Gi",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_unplannable_node_reports_why_and_starts_no_kubelet(
    mistake: str, fresh: Node, image_lab: Lab
) -> None:
    text, why = MISTAKES[mistake]
    write_before_boot(fresh, "etc/numaforge/profile.yaml", text)
    fresh.power_on()
    console = fresh.folder / "console.log"
    wait_until(fresh, lambda: "the kubelet is not started" in console.read_text(errors="replace"))
    wait_until(fresh, lambda: answers(fresh, "true"))
    assert why in fresh.run("cat /run/issue.d/numaforge.issue")
    assert not answers(fresh, "systemctl is-active -q kubelet")
    assert not answers(fresh, f"test -e {DROP_IN}")
    wait_until(fresh, lambda: why in annotations(image_lab, fresh).get(ANNOTATION, ""))
    assert verified(image_lab, fresh) == ("False", "KubeletHeld")


def test_clock_in_1970_changes_nothing(fresh: Node) -> None:
    then = Odd(**vars(fresh), replaced=(("base=utc", "base=1970-01-01T00:10:00"),))
    then.power_on()
    wait_until(fresh, lambda: answers(fresh, PLANNED))
    assert str(record(fresh)["at"]) < f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%d}"
    assert answers(fresh, f"test -e {DROP_IN}")


LOST = {
    "memory": (NumaNode(1024, gpus=1), "memory-of-NUMA-node-1 was"),
    "a GPU": (NumaNode(1536, gpus=0), "PCI-function-"),
}


@pytest.mark.parametrize("lost", LOST)
def test_machine_with_lost_hardware_is_planned_again(lost: str, fresh: Node) -> None:
    booted(fresh)
    before = record(fresh)
    fresh.run("sync")
    fresh.power_off()
    less, said = LOST[lost]
    first, _ = fresh.machine.numa_nodes
    smaller = replace(fresh, machine=replace(fresh.machine, numa_nodes=(first, less)))
    booted(smaller)
    after = record(smaller)
    assert after["at"] != before["at"]
    assert any(each.startswith(said) for each in after["changed"])  # type: ignore[attr-defined]
