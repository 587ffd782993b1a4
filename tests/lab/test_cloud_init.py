"""A node in its real order: cloud-init, its own plan, `kubeadm join`, a boot, an update, a copy of its disk.

One machine, booted for several rules: the tests are in the order of its life.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml

from lab import requirements
from lab.cloud import JOIN, CloudLab, SeededNode
from lab.paths import REPOSITORY
from numaforge.image.first_boot.settings import SETTINGS
from numaforge.image.first_boot.stamp import ISSUE, STATE, TRIAL
from numaforge.rollout.self_planned import ANNOTATION
from tests.lab.rollouts import kubectl

pytestmark = [pytest.mark.long, pytest.mark.vm]
WITHIN_S = 3600
POLLED_S = 10
"""Between two logins, each of which takes an emulated CPU a second."""
DROP_IN = "/etc/kubernetes/kubelet.conf.d/90-numaforge.conf"
UNIT_DROP_IN = "/etc/systemd/system/kubelet.service.d/90-numaforge.conf"
RESTARTS = "/etc/systemd/system/kubelet.service.d/20-lab.conf"
"""A kubelet ends at once until the node joins, and each start takes an emulated CPU half a minute."""
HEALTHY = "systemctl is-active -q kubelet && curl -fs http://127.0.0.1:10248/healthz"
POOL = "name: pool\nextends: lab\n"
SETTINGS_HELD = "{profile: lab, on_change: hold, confirm_seconds: 3600}\n"
OTHER_UUID = "9a3ed2cb-2f9e-4b5c-9a4c-5b9b6f9b0c11"
EMULATED = 70
"""How many times as long a program takes as on a real CPU (docs/figures.md)."""
LATER_BOOT_S = 2


def user_data(lab: CloudLab) -> dict[str, Any]:
    """Return the template's user-data, with a profile for this machine, settings and `kubeadm join`."""
    document = yaml.safe_load((REPOSITORY / "docs/examples/image/user-data.yaml").read_text())
    (profile,) = document["write_files"]
    profile["content"] = POOL
    joins = [
        {"path": path, "content": text, "permissions": "0600"} for path, text in lab.files_to_join().items()
    ]
    held = {"path": str(SETTINGS), "content": SETTINGS_HELD}
    seldom = {"path": RESTARTS, "content": "[Service]\nRestartSec=120\n"}
    return {
        **document,
        "write_files": [profile, held, seldom, *joins],
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
        time.sleep(POLLED_S)


def reboot(node: SeededNode) -> None:
    """Reboot, and return once the node can be logged in to again."""
    boot_id = node.run("sync; cat /proc/sys/kernel/random/boot_id").strip()
    node.try_run("systemctl reboot")
    await_on(node, f"test $(cat /proc/sys/kernel/random/boot_id) != {boot_id}")


def record(node: SeededNode) -> dict[str, Any]:
    """Return the record of the plan in effect, once none is on trial."""
    await_on(node, f"test -e {STATE}/record.json && test ! -e {TRIAL}")
    return dict(json.loads(node.run(f"cat {STATE}/record.json")))


def reported(lab: CloudLab, node: SeededNode) -> dict[str, Any]:
    """Return what the node says of itself in this boot, on its Node."""
    boot_id = node.run("cat /proc/sys/kernel/random/boot_id").strip()
    deadline = time.monotonic() + WITHIN_S
    while (answer := annotation(lab, node)).get("boot_id") != boot_id:
        if time.monotonic() > deadline:
            pytest.fail(node.run("journalctl -b --no-pager -u numaforge-report"))
        time.sleep(POLLED_S)
    return answer


def annotation(lab: CloudLab, node: SeededNode) -> dict[str, Any]:
    document = json.loads(kubectl(lab, "get", "node", node.name, "-o", "json"))
    return dict(json.loads((document["metadata"].get("annotations") or {}).get(ANNOTATION, "{}")))


def kubelet_flags(node: SeededNode) -> list[str]:
    return node.run("tr '\\0' ' ' < /proc/$(pidof kubelet)/cmdline").split()


def shown(node: SeededNode, unit: str, what: str) -> int:
    """Return a number that systemd has of a unit, a time in microseconds or CPU time in nanoseconds."""
    return int(node.run(f"systemctl show --value -p {what} {unit}"))


def test_node_plans_itself_between_cloud_init_files_and_commands(node: SeededNode) -> None:
    assert "ordering cycle" not in node.run("journalctl -b --no-pager -t systemd")
    written = shown(node, "cloud-init.service", "ExecMainExitTimestampMonotonic")
    planned = shown(node, "numaforge-boot.service", "ExecMainStartTimestampMonotonic")
    done = shown(node, "numaforge-boot.service", "ExecMainExitTimestampMonotonic")
    runtime = shown(node, "containerd.service", "ExecMainStartTimestampMonotonic")
    commands = shown(node, "cloud-final.service", "ExecMainStartTimestampMonotonic")
    assert 0 < written <= planned < done <= runtime
    assert done <= commands
    said = record(node)
    assert (said["profile"], said["named_by"]) == ("pool", "/etc/numaforge/profile.yaml")


def test_kubeadm_joins_a_planned_node_even_with_on_change_hold(cloud: CloudLab, node: SeededNode) -> None:
    assert "done" in node.run("cloud-init status")
    flags = kubelet_flags(node)
    assert "--config=/var/lib/kubelet/config.yaml" in flags
    assert f"--config-dir={DROP_IN.rpartition('/')[0]}" in flags
    assert "--v=1" in flags, "kubeadm's flags count, too"
    configz = json.loads(kubectl(cloud, "get", "--raw", f"/api/v1/nodes/{node.name}/proxy/configz"))
    drop_in = yaml.safe_load(node.run(f"cat {DROP_IN}"))
    assert configz["kubeletconfig"]["reservedSystemCPUs"] == drop_in["reservedSystemCPUs"]
    assert configz["kubeletconfig"]["nodeStatusUpdateFrequency"] == "2s", (
        "kubeadm's configuration counts, too"
    )


def test_joined_node_reports_as_planned_on_its_node(cloud: CloudLab, node: SeededNode) -> None:
    said = reported(cloud, node)
    assert (said["says"], said["verified"], said["profile"]) == ("", True, "pool")
    assert said["plan"] == str(record(node)["plan"])[:16]


def test_second_boot_changes_nothing_and_starts_no_python(node: SeededNode) -> None:
    before, machine_id = record(node), node.run("cat /etc/machine-id")
    files = node.run("sha256sum /etc/numaforge/plan.json " + f"{DROP_IN} {UNIT_DROP_IN}")
    reboot(node)
    await_on(node, HEALTHY)
    assert record(node) == before
    assert node.run("cat /etc/machine-id") == machine_id
    assert node.run(f"sha256sum /etc/numaforge/plan.json {DROP_IN} {UNIT_DROP_IN}") == files
    assert node.try_run("test -e /run/numaforge/boot/said").returncode != 0, "numaforge was started"
    cpu_s = shown(node, "numaforge-boot.service", "CPUUsageNSec") / 1e9
    print(f"second boot: {cpu_s:.1f} s of an emulated CPU")
    assert cpu_s < LATER_BOOT_S * EMULATED


UPDATE = f"""
cd /usr/bin && cp kubelet kubelet.new && echo >> kubelet.new && mv kubelet.new kubelet
cd /usr/lib/systemd/system/kubelet.service.d && sed -i '/^ExecStart=./s/$/ --max-pods=77/' 10-kubeadm.conf
sed -i s/hold/replan/ {SETTINGS}
sha256sum /etc/numaforge/profile.yaml {DROP_IN}
"""
"""Another kubelet and another unit below an /etc that stays, as after a boot from the other root of two."""


def test_update_below_an_old_etc_is_planned_and_confirmed_by_the_cluster(
    cloud: CloudLab, node: SeededNode
) -> None:
    before, kept = record(node), node.run(UPDATE)
    reboot(node)
    await_on(node, HEALTHY)
    after = record(node)
    assert after["at"] != before["at"]
    changed = {line.partition(" was ")[0] for line in after["changed"]}
    assert changed == {
        f"file-{SETTINGS}",
        "file-/usr/bin/kubelet",
        "file-/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf",
    }
    assert after["confirmed"].endswith("reached with the kubelet's login")
    assert node.run(f"sha256sum /etc/numaforge/profile.yaml {DROP_IN}") == kept
    assert {"--max-pods=77", f"--config-dir={DROP_IN.rpartition('/')[0]}"} <= {*kubelet_flags(node)}
    said = reported(cloud, node)
    assert (said["says"], said["verified"]) == ("", True)


def test_copied_disk_is_held_and_joins_as_a_machine_of_its_own(cloud: CloudLab, node: SeededNode) -> None:
    first, machine_id = record(node), node.run("cat /etc/machine-id; sync")
    said_first = annotation(cloud, node)
    node.power_off()
    copy = replace(node, system_uuid=OTHER_UUID)
    copy.power_on()
    await_on(copy, f"test -e {ISSUE}")
    assert copy.run("cat /etc/machine-id") == machine_id
    why = copy.run(f"cat {ISSUE}")
    assert why.startswith(
        "numaforge: the kubelet is not started: this disk was planned in the machine with the "
    )
    assert OTHER_UUID in why
    assert copy.try_run("systemctl is-active -q kubelet").returncode != 0
    await_on(copy, "journalctl -b -u numaforge-report | grep -q 'joined no cluster: nothing to report'")
    assert annotation(cloud, node) == said_first, "the copy reports to no Node"

    copy.run("kubeadm reset --force --cri-socket unix:///run/containerd/containerd.sock")
    kubectl(cloud, "delete", "node", node.name)
    copy.run(f"kubeadm join --config {JOIN}", timeout_s=WITHIN_S)
    await_on(copy, HEALTHY)
    after = record(copy)
    assert (after["profile"], after["changed"]) == ("pool", [])
    assert after["at"] != first["at"]
    assert f"--config-dir={DROP_IN.rpartition('/')[0]}" in kubelet_flags(copy)
