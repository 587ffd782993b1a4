"""Looks at a node while a user, a user's manager and a pod of it run processes called like its daemons.

Kernel, systemd, users and kubelet are real. Nothing of theirs runs as root; the kubelet is the host's own.
"""

import pytest

from lab.cluster import Lab
from lab.node import Node
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.read import read_topology
from tests.lab import rollouts
from tests.lab.running_pods import pod, uid_of_running

HOME = "/home/mallory"
EMPTY_DIR = "/var/lib/kubelet/pods/{}/volumes/kubernetes.io~empty-dir/shared"
USER = f"""
set -e
useradd -m mallory
id=$(id -u mallory)
run=/run/user/$id
as_mallory="setpriv --reuid=$id --regid=$(id -g mallory) --clear-groups env XDG_RUNTIME_DIR=$run"
mkdir {HOME}/kd && echo 'kind: KubeletConfiguration' > {HOME}/kd/99-mine.conf
ln -s /etc/shadow {HOME}/kd/shadow.conf
printf '#!/bin/sh\nid -u >> {HOME}/ran\n' > {HOME}/trap
printf '#!/bin/sh\nid -u >> {HOME}/ran\nexec > /dev/null\nwhile :; do sleep 60; done\n' > {HOME}/kubelet
cp /bin/sleep {HOME}/containerd
chmod 755 {HOME} {HOME}/trap {HOME}/kubelet {HOME}/containerd
chown -R mallory: {HOME}
echo 1000 > /proc/sys/kernel/ns_last_pid # so that /proc lists theirs before the host's own
setsid $as_mallory bash -c 'exec -a {HOME}/trap {HOME}/containerd 100000' > /dev/null 2>&1 < /dev/null &
until [ "$(cat /proc/$!/comm)" = containerd ]; do sleep 0.1; done
systemctl set-environment "XDG_RUNTIME_DIR=$run"
systemctl start "user@$id.service"
$as_mallory systemd-run --user --unit=kubelet {HOME}/kubelet --config-dir={HOME}/kd --root-dir={HOME}/root
until [ -s {HOME}/ran ]; do sleep 0.1; done
"""
"""A shell user's containerd whose first word is another program, and a user manager's kubelet.service."""
POD = """
mine=/var/lib/kubelet/pods/$UID/volumes/kubernetes.io~empty-dir/shared
printf '#!/bin/sh\\nid -u >> %s/ran\\n' "$mine" > /shared/sleep
cp /bin/busybox /shared/containerd
chmod 755 /shared/sleep /shared/containerd
exec -a "$mine/sleep" /shared/containerd 100000
"""
"""A container's process called containerd whose first word is a path of the host, in its emptyDir."""

IN_A_POD = "grep -ls kubepods /proc/[0-9]*/cgroup | sed s/cgroup/comm/ | xargs grep -qs '^containerd$'"


@pytest.fixture
def impostors(lab: Lab, joined: Node) -> str:
    """Start them; return the pod's emptyDir on the host."""
    joined.run(USER)
    wanted = pod("impostor", {"cpu": "100m", "memory": "32Mi"})
    spec = wanted["spec"]
    assert isinstance(spec, dict)
    spec["volumes"] = [{"name": "shared", "emptyDir": {}}]
    spec["containers"][0] |= {
        "command": ["sh", "-c", POD],
        "env": [{"name": "UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
        "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
    }
    rollouts.kubectl(lab, "create", "-f", "-", manifest=wanted)
    return EMPTY_DIR.format(uid_of_running(lab, "impostor"))


@pytest.mark.long
def test_capture_runs_no_impostor_as_root_and_names_the_host_kubelet(lab, joined, impostors, tmp_path):
    joined.run(f"until {IN_A_POD}; do sleep 0.2; done")
    hosts = rollouts.inventory(lab, tmp_path)
    rollouts.in_repository("numaforge", "capture", str(hosts), "--to", str(tmp_path / "fleet"))
    [file] = (tmp_path / "fleet").iterdir()
    snapshot = Snapshot.load(file)
    ran = joined.run(f"cat {HOME}/ran {impostors}/ran 2> /dev/null || :").split()
    assert ran == joined.run("id -u mallory").split()  # the user's own start of it, and nothing as root
    own = joined.run("tr '\\0' ' ' < /proc/$(systemctl show -p MainPID --value kubelet)/cmdline").split()
    topology = read_topology(snapshot)
    assert topology.kubelet is not None
    assert topology.kubelet.running
    assert topology.kubelet.flags == tuple(own[1:])
    assert HOME not in snapshot.to_json()
    assert topology.userland is not None
    assert topology.userland.containerd is not None
    daemons = [each for each in topology.userland.processes or () if each.name in ("containerd", "kubelet")]
    assert {each.unit for each in daemons if not each.in_pod} == {"containerd.service", "kubelet.service"}
