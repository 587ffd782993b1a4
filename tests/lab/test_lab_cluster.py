"""The lab's cluster runs pods, comes back as it was, and leaves nothing behind."""

import json
import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.cluster import Lab
from lab.process import daemons
from lab.waiting import wait_until

REPOSITORY = Path(__file__).parents[2]
CONTAINERS = "ctr -n k8s.io containers ls"


def pod(name, command, **limits):
    container = {
        "name": "main",
        "image": "lab.example/busybox:1",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", command],
        "resources": {"limits": limits},
    }
    specification = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": specification})


def phase(lab, name):
    return lab.get("pod", name)["status"].get("phase")


def listening_addresses(pids):
    """Return the IPv4 and IPv6 addresses, in the kernel's notation, on which these processes listen."""
    inodes = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            target = str(descriptor.readlink())
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    addresses = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6", "/proc/net/udp", "/proc/net/udp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes and fields[3] in ("0A", "07"):
                addresses.add(fields[1].split(":")[0])
    return addresses


def processes_of(state):
    named = re.compile(re.escape(str(state).encode()) + rb"(?![^/\0])")  # and not its neighbour, .lab2
    return [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if named.search(path.read_bytes()) and int(path.parent.name) != os.getpid()
    ]


@pytest.mark.long
def test_scheduled_pod_gets_a_gpu_and_serves_its_log_through_the_api(pristine):
    lab = pristine
    lab.kubectl(
        "create", "-f", "-", input_text=pod("gpu", "echo $NVIDIA_VISIBLE_DEVICES", **{"nvidia.com/gpu": "1"})
    )
    wait_until(lambda: phase(lab, "gpu") == "Succeeded", "the pod has not ended well")
    assert lab.kubectl("logs", "gpu").strip() == "0000:21:00.0"


@pytest.mark.long
def test_reset_restores_a_dirty_node(pristine, node):
    lab = pristine
    pool = "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"
    node.run(f"touch /etc/dirty; echo 16 >{pool}")
    lab.kubectl("create", "-f", "-", input_text=pod("dirty", "sleep 1000"))
    wait_until(lambda: phase(lab, "dirty") == "Running", "the pod does not run")
    assert "busybox" in node.run(CONTAINERS)
    lab.reset()
    assert node.try_run("test -e /etc/dirty").returncode == 1
    assert node.run(f"cat {pool}").strip() == "0"
    assert lab.get("pods", "--all-namespaces")["items"] == []
    assert "busybox" not in node.run(CONTAINERS)


def test_reset_sets_the_clock(pristine):
    before = time.time()
    inside = float(pristine.nodes[0].run("date +%s.%N"))
    late = 20  # seconds, in which a busy machine has told the node; the time that was saved is older
    assert before - late < inside < time.time() + 1


def test_everything_listens_on_loopback_only(lab):
    pids = [daemon.pid() for daemon in daemons(lab.state)]
    addresses = listening_addresses(pids)
    assert addresses
    # The last byte of an IPv4 address comes first: 127.x.y.z ends in 7F.
    assert {address for address in addresses if not (len(address) == 8 and address.endswith("7F"))} == set()


@pytest.mark.long
def test_down_leaves_no_process_and_up_restores_the_node(lab, node):
    lab.kubectl("create", "configmap", "gone-after-restore")
    lab.down()
    assert processes_of(lab.state) == []
    lab.up(len(lab.nodes))
    names = [item["metadata"]["name"] for item in lab.get("configmaps")["items"]]
    assert "gone-after-restore" not in names
    assert node.run("systemctl is-active kubelet").strip() == "active"


@pytest.mark.long
def test_up_cleans_up_after_a_crash(lab):
    victim = next(daemon for daemon in daemons(lab.state) if daemon.name == "etcd")
    os.kill(victim.pid(), 9)
    wait_until(lambda: victim.pid() is None, "it has not ended")
    orphans = [daemon.pid() for daemon in daemons(lab.state) if daemon.pid()]
    lab.up(len(lab.nodes))
    assert orphans
    assert lab.running()
    assert set(orphans).isdisjoint(processes_of(lab.state))


BOOT = "cat /proc/sys/kernel/random/boot_id"


@pytest.mark.long
def test_second_checkout_starts_from_the_saved_lab_state(tmp_path):
    boots = []
    for checkout in ("one", "two"):
        with running(tmp_path / checkout / "lab") as another:
            boots.append(another.nodes[0].run(BOOT))
            another.kubectl("create", "configmap", "gone-afterwards")
    assert len(set(boots)) == 1


@pytest.mark.long
def test_lab_boots_while_another_lab_uses_its_ports(tmp_path):
    with running(tmp_path / "one/lab") as first, running(tmp_path / "two/lab") as second:
        assert first.nodes[0].run(BOOT) != second.nodes[0].run(BOOT)
        assert first.running()


@contextmanager
def running(state):
    another = Lab(state)
    try:
        another.up(1)
        yield another
    finally:
        another.down()


def test_pyinfra_reports_that_lab_is_not_running(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "pyinfra", "inventories/lab", "debug-inventory"],
        cwd=REPOSITORY,
        env=os.environ | {"NUMAFORGE_LAB_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "the lab is not running: make lab-up" in done.stderr
    assert "Traceback" not in done.stderr
