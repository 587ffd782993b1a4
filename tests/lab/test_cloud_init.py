"""A node's first boot in its real order: cloud-init's files, its own plan, cloud-init's `kubeadm join`."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from lab import requirements
from lab.cloud import JOIN, CloudLab, SeededNode
from lab.paths import REPOSITORY
from numaforge.image.first_boot.settings import SETTINGS
from numaforge.image.first_boot.stamp import STATE
from tests.lab.rollouts import kubectl

pytestmark = [pytest.mark.long, pytest.mark.vm]
WITHIN_S = 3600
DROP_IN = "/etc/kubernetes/kubelet.conf.d/90-numaforge.conf"
HEALTHY = "systemctl is-active -q kubelet && curl -fs http://127.0.0.1:10248/healthz"
POOL = "name: pool\nextends: lab\n"


def user_data(lab: CloudLab) -> dict[str, Any]:
    """Return the template's user-data, with a profile for this machine, settings and `kubeadm join`."""
    document = yaml.safe_load((REPOSITORY / "docs/examples/image/user-data.yaml").read_text())
    (profile,) = document["write_files"]
    profile["content"] = POOL
    joins = [
        {"path": path, "content": text, "permissions": "0600"} for path, text in lab.files_to_join().items()
    ]
    held = {"path": str(SETTINGS), "content": "{profile: lab, on_change: hold, wait_seconds: 30}\n"}
    return {
        **document,
        "write_files": [profile, held, *joins],
        "runcmd": [["kubeadm", "join", "--config", JOIN]],
    }


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloudLab]:
    """A cluster whose node has booted for the first time, has planned itself and has joined."""
    requirements.ensure()
    lab = CloudLab(tmp_path_factory.mktemp("c"))
    lab.start()
    try:
        node = lab.node
        node.write_seed(user_data(lab))
        node.power_on()
        await_on(node, f"test -e /var/lib/cloud/instance/boot-finished && {HEALTHY}")
        yield lab
    finally:
        lab.down()


@pytest.fixture
def node(cloud: CloudLab) -> SeededNode:
    return cloud.node


def await_on(node: SeededNode, command: str) -> None:
    """Wait until a command succeeds on the node, which may be booting."""
    deadline = time.monotonic() + WITHIN_S
    while node.try_run(command).returncode != 0:
        if time.monotonic() > deadline:
            pytest.fail((node.folder / "console.log").read_text(errors="replace")[-3000:])
        time.sleep(1)


def began(node: SeededNode, unit: str, what: str) -> int:
    """Return when a unit got to a state in this boot, in microseconds."""
    return int(node.run(f"systemctl show --value -p {what} {unit}"))


def test_node_plans_itself_between_cloud_init_files_and_commands(node: SeededNode) -> None:
    assert "ordering cycle" not in node.run("journalctl -b --no-pager -t systemd")
    written = began(node, "cloud-init.service", "ExecMainExitTimestampMonotonic")
    planned = began(node, "numaforge-boot.service", "ExecMainStartTimestampMonotonic")
    done = began(node, "numaforge-boot.service", "ExecMainExitTimestampMonotonic")
    runtime = began(node, "containerd.service", "ExecMainStartTimestampMonotonic")
    commands = began(node, "cloud-final.service", "ExecMainStartTimestampMonotonic")
    assert 0 < written <= planned < done <= runtime
    assert done <= commands
    said = json.loads(node.run(f"cat {STATE}/record.json"))
    assert (said["profile"], said["named_by"]) == ("pool", "/etc/numaforge/profile.yaml")


def test_kubeadm_joins_a_planned_node_even_with_on_change_hold(cloud: CloudLab, node: SeededNode) -> None:
    assert "done" in node.run("cloud-init status")
    flags = node.run("tr '\\0' ' ' < /proc/$(pidof kubelet)/cmdline").split()
    assert "--config=/var/lib/kubelet/config.yaml" in flags
    assert f"--config-dir={DROP_IN.rpartition('/')[0]}" in flags
    assert "--v=1" in flags, "kubeadm's flags count, too"
    configz = json.loads(kubectl(cloud, "get", "--raw", f"/api/v1/nodes/{node.name}/proxy/configz"))
    drop_in = yaml.safe_load(node.run(f"cat {DROP_IN}"))
    assert configz["kubeletconfig"]["reservedSystemCPUs"] == drop_in["reservedSystemCPUs"]
    assert configz["kubeletconfig"]["nodeStatusUpdateFrequency"] == "2s", (
        "kubeadm's configuration counts, too"
    )
