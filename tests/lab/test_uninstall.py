"""A node that is uninstalled through its cluster is what it was before, on the node and in the cluster.

Both are seen before the first run and after the last; what is left out of that has its reason beside it.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Lab
from lab.node import Node
from numaforge.roles.device_plugin.labels import CONFIG_LABEL
from tests.fixtures.tables import cases
from tests.lab import host_settings, rollouts, transactions
from tests.lab.rollouts import QUICK, free, inventory

PROFILE: dict[str, Any] = {
    **host_settings.PROFILE,
    "hugepages": [{"size": "2Mi", "count_per_numa_node": 16}],
    "device_plugin": {"config": "lab"},
}
FOLDERS = (
    "/etc /usr/local /usr/lib/systemd /run/systemd/system /run/systemd/generator* /run/tmpfiles.d"
    " /run/udev/rules.d /run/numaforge /var/lib/numaforge"
)
"""The folders from which systemd, udev and the kubelet read, and ours. The rest of /run/systemd is logins,
and system.control, whose files `state` has: systemd leaves its empty folders there until the next boot."""
SETTINGS = "find /proc/sys -type f -perm -600 ! -name ns_last_pid ! -path '*/veth*' -exec grep -s . {} +"
"""Every sysctl that can be set, and read; the kernel writes ns_last_pid, and each pod has its veth."""
UNITS = "systemctl --root=/ list-unit-files --no-legend | grep -v transient"
"""Transient units are those of logins and pods. Files are read, as systemd may be slow to answer."""


def on_the_node(node: Node) -> dict[str, Any]:
    """Return everything of the node that a run may have changed."""
    settings = node.run(f"{SETTINGS} | grep -Ev '{host_settings.OF_THE_BOOT}'; true")
    return {
        "files": host_settings.files(node, f"$(ls -d {FOLDERS} 2> /dev/null)"),
        "settings": dict(line.split(":", 1) for line in settings.splitlines()),
        "units": node.run(UNITS).splitlines(),
        "modules": sorted(node.run("cut -d ' ' -f 1 /proc/modules").split()),
        "pools": node.run("grep . /sys/devices/system/node/node*/hugepages/*/nr_hugepages").split(),
        "kubelet": node.run("cat /var/lib/kubelet/config.yaml"),
        **host_settings.state(node),
    }


def in_the_cluster(lab: Lab, node: Node) -> dict[str, Any]:
    """Return the Node as the cluster has it, and what its kubelet runs with."""
    found = lab.get("node", node.name)
    config = lab.kubectl("get", "--raw", f"/api/v1/nodes/{node.name}/proxy/configz")
    return {
        "labels": found["metadata"]["labels"],
        "annotations": found["metadata"]["annotations"],
        "spec": found["spec"],
        "offers": {name: found["status"]["allocatable"][name] for name in ("cpu", "nvidia.com/gpu")},
        "configz": json.loads(config),
    }


def roll_out(lab: Lab, folder: Path, deploy: str, *verb: str, **options: object) -> None:
    file = inventory(lab, folder, profile=PROFILE, **QUICK, **options)
    name, *arguments = verb or ("run",)
    run = rollouts.begin(name, file, *arguments, state=folder, deploy=deploy)
    assert run.end() == 0, (run.report, run.errors())


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return what differs, and of mappings the keys."""
    found: dict[str, Any] = {}
    for name, was in before.items():
        now = after[name]
        if isinstance(was, dict):
            keys = {key for key in {*was, *now} if was.get(key) != now.get(key)}
            was, now = ({key: told.get(key) for key in sorted(keys)} for told in (was, now))
        if was != now:
            found[name] = {"before": was, "after": now}
    return found


@pytest.mark.long
@cases(
    "phase, step, verb",
    {
        "the-runner-dies-before-the-change": ("drained", "", ("resume",)),
        "the-runner-dies-while-the-node-changes": ("applying", "", ("resume",)),
        "the-runner-dies-during-the-proof": ("proves", "", ("resume",)),
        "the-power-is-cut": ("", "apply kubelet", ("run",)),
    },
)
def test_interrupted_uninstall_is_finished_by_the_next_run(lab, joined, tmp_path, phase, step, verb):
    joined.run(host_settings.ADMINS)
    rollouts.kubectl(lab, "label", "node", joined.name, f"{CONFIG_LABEL}=of-the-admin")
    before, seen = on_the_node(joined), in_the_cluster(lab, joined)
    roll_out(lab, tmp_path, "deploys/site.py", verify=False)

    file = inventory(lab, tmp_path, profile=PROFILE, **QUICK)
    if step:
        transactions.reset_at(joined, step)
    run = rollouts.begin("run", file, state=tmp_path, deploy="deploys/uninstall.py")
    if phase:
        run.await_phase(phase)
        run.kill()
    else:
        assert run.end() == 4, (run.report, run.errors())  # the node went back by itself

    roll_out(lab, tmp_path, "deploys/uninstall.py", *verb)
    left = differences({**before, **seen}, {**on_the_node(joined), **in_the_cluster(lab, joined)})
    assert left == {}, json.dumps(left, indent=1)
    assert free(lab, joined)


@pytest.mark.long
def test_uninstall_through_the_cluster_restores_the_node(lab, joined, tmp_path):
    joined.run(host_settings.ADMINS)
    rollouts.kubectl(lab, "label", "node", joined.name, f"{CONFIG_LABEL}=of-the-admin")
    rollouts.kubectl(lab, "create", "-f", "-", manifest=rollouts.deployment("web", 1))
    rollouts.await_deployment(lab, "web")
    before, seen = on_the_node(joined), in_the_cluster(lab, joined)

    roll_out(lab, tmp_path, "deploys/site.py", verify=False)
    provisioned = differences({**before, **seen}, {**on_the_node(joined), **in_the_cluster(lab, joined)})
    assert provisioned.keys() >= {"files", "settings", "units", "pools", "labels", "annotations", "configz"}
    assert provisioned["labels"]["after"] == {CONFIG_LABEL: "lab"}
    rollouts.await_deployment(lab, "web")
    pods = {pod["metadata"]["uid"] for pod in lab.get("pods")["items"]}

    roll_out(lab, tmp_path, "deploys/uninstall.py")
    left = differences({**before, **seen}, {**on_the_node(joined), **in_the_cluster(lab, joined)})
    assert left == {}, json.dumps(left, indent=1)
    assert free(lab, joined)
    rollouts.await_deployment(lab, "web")
    assert not pods & {pod["metadata"]["uid"] for pod in lab.get("pods")["items"]}, "the node was not drained"
