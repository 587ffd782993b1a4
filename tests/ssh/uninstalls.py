"""What an uninstall is run on, and what it leaves."""

from pathlib import Path
from typing import Any

from tests.ssh.conftest import StartSandbox
from tests.ssh.kubeadm import kubeadm_files, start_kubelet
from tests.ssh.kubelet_runs import data
from tests.ssh.sandbox import Sandbox, succeed

UNINSTALL = "deploys/uninstall.py"
PROFILE: dict[str, Any] = {
    "name": "everything",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "memory": {"system_reserved": "1Gi"},
    "kubelet": {"cpu_manager_policy": "static"},
    "hugepages": [{"size": "2Mi", "count_per_numa_node": 16}],
    "tuning": {"governor": "performance", "sysctls": {"vm.swappiness": 1}},
    "host": {"limits": {"nofile": 1048576}},
    "watch": {"enabled": True},
}


def kubeadm_node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """Return a node as kubeadm leaves it, its kubelet running."""
    of_kubeadm = {"/etc/kubernetes/pki/ca.crt": ""}  # the folder is not ours to remove
    return start_kubelet(start_sandbox({**kubeadm_files(port), **of_kubeadm}), port)


def left(node: Sandbox) -> dict[str, str]:
    """Return every file and folder that a run may have left, and the kernel's values, with checksums.

    Files in /usr/local, where a toolchain may lie, are told by inode and time of change.
    """
    shown = node.run(
        "cd /; places='etc usr/lib/systemd var/lib sys proc/sys';"
        "{ find $places -type f ! -path '*_manager_state' ! -path 'etc/ssh/*'"
        "  ! -path 'proc/sys/kernel/random/*' -exec sha256sum {} +;"
        "  find usr/local -type f -printf '%s:%i:%C@ %p\\n';"
        "  find $places usr/local -type d -printf 'd %p\\n';"
        "  find $places usr/local -type l -printf '%l %p\\n'; } 2> /dev/null"
    ).stdout
    return {line.split(maxsplit=1)[1]: line.split(maxsplit=1)[0] for line in shown.splitlines()}


def provision(node: Sandbox, tmp_path: Path, profile: object = PROFILE) -> None:
    succeed(tmp_path, data(node, numaforge_profile=profile), "-y", "deploys/site.py")
