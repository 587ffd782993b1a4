"""Processes that a node takes for those of pods."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.ssh.kubelet_runs import PROFILE, data
from tests.ssh.sandbox import Sandbox, pyinfra
from tests.ssh.site_runs import plain
from tests.ssh.transactions import when

JOINED = ("--kubeconfig=/etc/kubernetes/kubelet.conf", "--hostname-override=n1")
BIG_POOLS = {**PROFILE, "hugepages": [{"size": "2Mi", "count_per_numa_node": 16}]}
UID = "0f2c8a51-9c39-4be1-9d0c-6a2b8a3a1c77"
SLICE = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"
GROUPS = {
    "systemd-v2": f"0::/kubepods.slice/kubepods-burstable.slice/{SLICE}/cri-containerd-1f.scope",
    "cgroupfs-v2": f"0::/kubepods/burstable/pod{UID}/1f",
    "cgroupfs-v1": f"12:cpuset:/kubepods/besteffort/pod{UID}/1f\n1:name=systemd:/system.slice/c.service",
    "a-root-of-its-own": f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-{SLICE}/crio-1f.scope",
    "below-k3s": f"0::/system.slice/k3s.service/kubepods/pod{UID}/1f",
    "guaranteed": f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-1f.scope",
}


def pod(node: Sandbox, group: str = GROUPS["systemd-v2"], name: str = "sleep", user: int = 0) -> int:
    """Start the container of a pod: a process in a control group, which no kubelet has to run for."""
    script = f"""
mkdir -p /run/cgroups
cp /bin/sleep /run/{name}
setsid setpriv --reuid={user} --clear-groups /run/{name} 1000 > /dev/null 2>&1 < /dev/null &
until [ "$(cat /proc/$!/comm)" = {name} ]; do sleep 0.01; done # it was setsid before
cat > /run/cgroups/$! << 'END'
{group}
END
mount --bind /run/cgroups/$! /proc/$!/cgroup
echo $!
"""
    return int(node.run(script).stdout)


def comes(node: Sandbox, event: str, group: str = GROUPS["systemd-v2"]) -> None:
    """Have such a process come when a phase is recorded; it is in /run/pod."""
    when(
        node,
        event,
        f"""
mkdir -p /run/cgroups
setsid sleep 1000 > /dev/null 2>&1 < /dev/null 8<&- 9<&- &
until [ "$(cat /proc/$!/comm)" = sleep ]; do sleep 0.01; done # it was setsid before
echo '{group}' > /run/cgroups/$!
mount --bind /run/cgroups/$! /proc/$!/cgroup
echo $! > /run/pod
""",
    )


def end(node: Sandbox, pid: int) -> None:
    node.run(f"kill -KILL {pid}; while [ -e /proc/{pid}/cgroup ]; do sleep 0.05; done")


def alive(node: Sandbox, pid: int) -> bool:
    """Return whether a process still runs."""
    return node.run(f"grep -q '^State:.[RSD]' /proc/{pid}/status").returncode == 0


def site(
    folder: Path, node: Sandbox, profile: Mapping[str, Any], *how: str, **more: object
) -> tuple[int, str]:
    """Run deploys/site.py on a node, and return its exit code and what it printed."""
    done = pyinfra(
        folder, data(node, numaforge_profile=profile, **more), *(how or ("-y",)), "deploys/site.py"
    )
    return done.returncode, plain(done.stdout)
