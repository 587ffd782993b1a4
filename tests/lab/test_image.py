"""An image whose nodes plan themselves: two machines boot from it, join, and stay as they have planned it.

Ten boots, each of which takes an emulated CPU minutes: the tests stand in the order of the machines' lives.
Elsewhere: an unchanged second boot, an update and a copied disk are in test_cloud_init.py, each mistake and
change by itself in tests/ssh/test_first_boot.py, a cut at every step of a change in tests/ssh/test_parts.py.
"""

import json
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from lab import requirements
from lab.cluster import Lab, build
from lab.node import HOST_SEEN_FROM_NODE, Node
from lab.paths import REPOSITORY
from numaforge.change.transaction import TRANSACTIONS
from numaforge.image.first_boot.settings import SETTINGS
from numaforge.image.first_boot.stamp import FAILED, ISSUE, STATE, TRIAL
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
HEALTHY = "systemctl is-active -q kubelet && curl -fs http://127.0.0.1:10248/healthz"
PROFILE = REPOSITORY / "lab/baked/profiles/lab.yaml"
WRITTEN = "/etc/numaforge/profile.yaml"
WITHIN_S = 1800
POLLED_S = 2


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
        time.sleep(POLLED_S)


def answers(node: Node, command: str) -> bool:
    return node.try_run(command).returncode == 0


def record(node: Node) -> dict[str, object]:
    """Return the record of the plan in effect, once none is on trial."""
    wait_until(node, lambda: answers(node, f"test -e {STATE}/record.json && test ! -e {TRIAL}"))
    return dict(json.loads(node.run(f"cat {STATE}/record.json")))


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
        report = json.loads(annotations(image_lab, node)[ANNOTATION])
        assert (report["says"], report["verified"], report["profile"]) == ("", True, "lab")
        assert report["plan"] == str(record(node)["plan"])[:16]
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
    own = [condition for condition in conditions if condition["type"] == CONDITION]
    return (own[0]["status"], own[0]["reason"]) if own else ("", "")


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


# ---- the small machine alone ----


@pytest.fixture(scope="module")
def small(image_lab: Lab) -> Node:
    """The small machine, which has joined, and has the host's cores for itself."""
    large, node = image_lab.nodes
    record(node)
    large.power_off()
    return node


CUT = """[Unit]
Description=Lead no packet to the API server while a plan of the profile cut is in effect
After=numaforge-boot.service
Before=kubelet.service
[Service]
ExecCondition=/bin/grep -qE '"profile": *"cut"' /etc/numaforge/plan.json
ExecStart=/sbin/ip rule add to {address} ipproto tcp dport {port} blackhole
RemainAfterExit=yes
Type=oneshot
[Install]
WantedBy=kubelet.service
"""
IMPATIENT = "{profile: lab, confirm_seconds: 120}\n"


def boots(node: Node) -> int:
    """Return how often a machine has booted since its power-on."""
    return (node.folder / "console.log").read_text(errors="replace").count("Loading Linux ")


def test_profile_that_cuts_the_network_is_undone_by_one_boot_and_not_retried(
    small: Node, image_lab: Lab
) -> None:
    before = small.run(f"cat {DROP_IN}")
    cut = CUT.format(address=HOST_SEEN_FROM_NODE, port=image_lab.control_plane.ports["apiserver"])
    small.run("cat > /etc/systemd/system/cut.service && systemctl enable -q cut.service", input_text=cut)
    small.run(f"cat > {SETTINGS}", input_text=IMPATIENT)
    profile = "name: cut\nextends: lab\nmemory: {system_reserved: 300Mi}\n"
    small.run(f"cat > {WRITTEN} && sync", input_text=profile)
    small.try_run("systemctl reboot")
    wait_until(small, lambda: answers(small, f"test -e {FAILED}/why && {HEALTHY}"))
    assert "was not confirmed over a new connection within 120 s" in small.run(f"cat {FAILED}/why")
    assert small.run(f"cat {DROP_IN}") == before
    wait_until(small, lambda: "not tried again" in annotations(image_lab, small).get(ANNOTATION, ""))
    assert "the kubelet runs with the earlier plan" in small.run(f"cat {ISSUE}")
    transactions = small.run(f"ls {TRANSACTIONS}")
    small.run("systemctl restart kubelet")
    assert small.run(f"ls {TRANSACTIONS}") == transactions
    assert boots(small) == 3, "the first one, that of the trial and that of the undo"


# ---- a disk that has never booted ----


def empty(node: Node) -> None:
    """Give a machine a disk that has never booted."""
    node.power_off()
    node.disk.unlink()
    image = build(baked=True).disk
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(image), "-F", "raw", str(node.disk)], check=True
    )


def write_before_boot(node: Node, path: str, text: str) -> None:
    """Have the machine find a file at its first boot, as cloud-init would write it."""
    content = text.encode()
    with tarfile.open(node.folder / "identity.tar", "a") as tar:
        entry = tarfile.TarInfo(path.lstrip("/"))
        entry.size, entry.mode = len(content), 0o644
        tar.addfile(entry, BytesIO(content))


@pytest.fixture
def fresh(small: Node) -> Iterator[Node]:
    """The small machine before its first boot; at the end its disk is empty again, its identity its own."""
    empty(small)
    identity = (small.folder / "identity.tar").read_bytes()
    yield small
    empty(small)
    (small.folder / "identity.tar").write_bytes(identity)


MISSPELLED = "extends: trianing\n"
IMPOSSIBLE = "{extends: training, memory: {system_reserved: 900Gi}}\n"


def test_unplannable_node_reports_why_until_its_profile_is_corrected(fresh: Node, image_lab: Lab) -> None:
    write_before_boot(fresh, WRITTEN, MISSPELLED)
    fresh.power_on()
    console = fresh.folder / "console.log"
    wait_until(fresh, lambda: "the kubelet is not started" in console.read_text(errors="replace"))
    wait_until(fresh, lambda: answers(fresh, f"test -e {ISSUE}"))
    require_held(fresh, image_lab, "trianing")
    fresh.run(f"cat > {WRITTEN}", input_text=IMPOSSIBLE)
    assert not answers(fresh, "systemctl start kubelet")
    require_held(fresh, image_lab, "900Gi")
    fresh.run(f"rm {WRITTEN} && systemctl start kubelet")
    assert not answers(fresh, f"test -e {ISSUE}")
    wait_until(fresh, lambda: verified(image_lab, fresh) == ("True", "AsPlanned"))


def require_held(node: Node, lab: Lab, why: str) -> None:
    """Test that the node says why its kubelet is not started, and has changed nothing."""
    assert why in node.run(f"cat {ISSUE}")
    assert not answers(node, "systemctl is-active -q kubelet")
    assert not answers(node, f"test -e {DROP_IN}")
    wait_until(node, lambda: why in annotations(lab, node).get(ANNOTATION, ""))
    wait_until(node, lambda: verified(lab, node) == ("False", "KubeletHeld"))


@dataclass(frozen=True)
class WithoutBattery(Node):
    """A node whose clock begins in 1970 at each power-on."""

    def qemu_arguments(self) -> list[str]:
        arguments = super().qemu_arguments()
        arguments[arguments.index("base=utc")] = "base=1970-01-01T00:10:00"
        return arguments


class Survivor(NamedTuple):
    """A node whose first boot was cut off in three moments, and its record at the last of them."""

    node: Node
    earlier: dict[str, object]


MOMENTS = {
    "as it plans": "systemctl is-active numaforge-boot.service | grep -qx activating",
    "as it applies the plan": f"test -e {TRANSACTIONS}/current",
    "as it records the plan": f"test -e {STATE}/record.json",
}


@pytest.fixture(scope="module")
def survivor(small: Node) -> Survivor:
    """The small machine, whose first boot was cut off in 1970 at each of these moments, and healthy now."""
    empty(small)
    node = WithoutBattery(**vars(small))
    for moment in MOMENTS.values():
        node.power_off()
        node.power_on()
        until = f"timeout 300 sh -c 'until {moment}; do sleep 0.1; done'"
        wait_until(node, lambda until=until: answers(node, until))  # type: ignore[misc]
    earlier = json.loads(node.run(f"cat {STATE}/record.json"))
    small.power_off()
    small.power_on()
    wait_until(small, lambda: answers(small, HEALTHY))
    return Survivor(small, earlier)


def test_first_boot_survives_power_cuts(survivor: Survivor) -> None:
    assert record(survivor.node)["profile"] == "lab"
    assert not answers(survivor.node, f"test -e {TRANSACTIONS}/current")
    assert not answers(survivor.node, f"test -e {ISSUE}")
    assert answers(survivor.node, f"sha256sum -c --status {STATE}/files")


def test_clock_in_1970_changes_nothing(survivor: Survivor) -> None:
    assert str(survivor.earlier["at"]) < f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%d}"
    assert survivor.earlier["profile"] == "lab"


def test_lost_hardware_and_a_new_profile_are_planned_and_kept_once_the_api_server_is_reached(
    survivor: Survivor,
) -> None:
    node, before = survivor.node, record(survivor.node)
    profile = "name: tried\nextends: lab\nmemory: {system_reserved: 300Mi}\n"
    node.run(f"cat > {WRITTEN} && sync", input_text=profile)
    node.power_off()
    first, second = node.machine.numa_nodes
    less = replace(second, memory_mib=1024, gpus=0)
    smaller = replace(node, machine=replace(node.machine, numa_nodes=(first, less)))
    smaller.power_on()
    named = f'grep -q \'"profile": "tried"\' {STATE}/record.json'
    wait_until(smaller, lambda: answers(smaller, named))
    after = record(smaller)
    assert after["at"] != before["at"]
    changed = " ".join(map(str, after["changed"]))  # type: ignore[call-overload]
    for change in ("memory-of-NUMA-node-1 was ", "PCI-function-", f"file-{WRITTEN} is new"):
        assert change in changed
    assert str(after["confirmed"]).endswith("reached with the kubelet's login")
    assert "300Mi" in smaller.run(f"cat {DROP_IN}")
