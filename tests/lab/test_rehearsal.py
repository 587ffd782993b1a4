"""A node's own kubelet tries the plan beside the running one, and leaves nothing."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import kubelets
from lab.cluster import Lab
from lab.node import Node
from lab.paths import REPOSITORY
from lab.waiting import wait_until
from tests.fixtures.processes import kill_tree
from tests.lab import crio, rollouts
from tests.lab.rollouts import PROFILE, begin, free, inventory, rehearsed

UNIT = "numaforge-rehearsal.service"
ENDED = f'until [ "$(systemctl show -p LoadState --value {UNIT})" = not-found ]; do sleep 0.2; done'
STRICT: dict[str, Any] = {
    **PROFILE,
    "kubelet": {"version": kubelets.version(kubelets.OWN)},  # asking takes a minute beside other work
    "maintenance": {"rehearsal": "required"},
    "hugepages": [{"size": "2Mi", "count_per_numa_node": 64}],
}
MARKER = "/root/marker"
TRACES = f"""
find /sys/fs/cgroup -type d | grep -v 'session-\\|user@\\|user-\\|/systemd-[a-z]*d[.]service' | sort
sed 's/^[0-9]* [0-9]* //' /proc/1/mountinfo | sort
awk '$4 == "00010000" {{ print $8 }}' /proc/net/unix | sort
iptables-save 2> /dev/null | grep -v '^#' | sed 's/\\[.*\\]//'
sysctl vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops kernel.keys
sysctl net.ipv4.conf net.bridge net.ipv4.ip_forward
cat /sys/devices/system/node/node*/hugepages/*/nr_hugepages
ls /run /tmp /var/lib /var/log/pods
systemctl show -p MainPID -p NRestarts kubelet containerd crio
find / -xdev -newer {MARKER} -type f ! -path '/var/log/*' ! -path '/root/*' \\
    ! -path '/var/lib/container*/*' ! -path '/var/lib/kubelet/pods/*' ! -path '/var/lib/systemd/*'
"""
"""What a rehearsal could leave: a line for each."""


@pytest.fixture
def untouched(joined: Node, request: pytest.FixtureRequest) -> Iterator[Node]:
    """The node with containerd or CRI-O, which is the same afterwards as before."""
    if getattr(request, "param", "containerd") == "crio":
        crio.install(joined)
    joined.run(f"rm -f {MARKER}; touch {MARKER}")
    before = joined.run(TRACES)
    yield joined
    joined.run(ENDED)
    assert joined.run(TRACES).splitlines() == before.splitlines()


@pytest.mark.parametrize(
    "untouched", ["containerd", pytest.param("crio", marks=pytest.mark.long)], indirect=True
)
def test_rehearsed_kubelet_starts_with_the_plan_and_leaves_nothing(
    lab: Lab, untouched: Node, tmp_path: Path
) -> None:
    code, said = rehearsed(lab, tmp_path, STRICT)
    assert (code, said["verdict"], said["differences"]) == (0, "starts", []), said
    assert said["memory"].keys() == {"0", "1", "2", "3"}
    assert said["shared_cpus"]


@pytest.mark.timeout(1500)
@pytest.mark.long
def test_plan_refused_only_by_the_node_kubelet_is_not_begun(lab: Lab, joined: Node, tmp_path: Path) -> None:
    """Its kubelet has a rule that `check` does not know, as a new minor may have."""
    rollouts.kubectl(lab, "create", "-f", "-", manifest=rollouts.deployment("web", 1))
    rollouts.await_deployment(lab, "web")
    pods = {pod["metadata"]["uid"] for pod in lab.get("pods")["items"]}
    runs = joined.run("systemctl show -p MainPID -p NRestarts kubelet containerd")
    refuses = 'E1129 00:00:00.000000 1 run.go:72] "command failed" err="a rule of its own"'
    joined.run(
        "mv /usr/bin/kubelet /usr/bin/kubelet.own; cat > /usr/bin/kubelet; chmod 755 /usr/bin/kubelet",
        input_text="#!/bin/sh\nif grep -qs static /etc/kubernetes/kubelet.conf.d/*; then\n"
        f"    echo '{refuses}' >&2\n    exit 1\nfi\nexec /usr/bin/kubelet.own \"$@\"\n",
    )
    try:
        file = inventory(lab, tmp_path, profile=STRICT, start_seconds=2400)
        rollout = begin("run", file, state=tmp_path)
        assert rollout.end() == 3, (rollout.events, rollout.errors())
        report = json.dumps(rollout.report)
        assert "the kubelet refuses the plan in its rehearsal: a rule of its own" in report
        assert "`kubelet check` says that it starts: please report it with the snapshot" in report
        assert "refused-by-kubelet" in report
        assert free(lab, joined)
        assert "cordon" not in rollouts.phases(tmp_path, joined)
        assert {pod["metadata"]["uid"] for pod in lab.get("pods")["items"]} == pods
        assert joined.run("systemctl show -p MainPID -p NRestarts kubelet containerd") == runs
    finally:
        joined.run("mv /usr/bin/kubelet.own /usr/bin/kubelet")
        rollouts.kubectl(lab, "delete", "deployment", "web")


def begun(lab: Lab, folder: Path) -> "subprocess.Popen[str]":
    """Start a rehearsal, and return once its kubelet runs."""
    node = lab.nodes[0]
    file = inventory(lab, folder, profile=STRICT, start_seconds=2400)
    command = [str(Path(sys.executable).with_name("numaforge")), "rehearse", "-o", "json", str(file)]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    starts = "pgrep -f -- '--[m]anifest-url='"
    wait_until(
        lambda: process.poll() is not None or node.try_run(starts).returncode == 0,
        "the rehearsal did not begin",
        900,
    )
    assert process.poll() is None, process.communicate()
    return process


@pytest.mark.long
def test_killed_rehearsal_leaves_nothing(lab: Lab, untouched: Node, tmp_path: Path) -> None:
    process = begun(lab, tmp_path)
    untouched.run(f"systemctl kill -s KILL {UNIT}")
    report = json.loads(process.communicate()[0])
    assert process.returncode == 3
    assert report["hosts"][untouched.name]["verdict"] == "unknown"


@pytest.mark.long
def test_rehearsal_of_a_dead_runner_ends_and_leaves_nothing(
    lab: Lab, untouched: Node, tmp_path: Path
) -> None:
    kill_tree(begun(lab, tmp_path))
    assert "rehearsal" not in untouched.run(f"{ENDED}; ls /run; systemctl list-units --all")


def boot_of(node: Node) -> str:
    """Return the node's boot, "" where it does not answer; no connection of before a reset is waited for."""
    patience = ("ControlPath=none", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=2")
    options = [word for option in patience for word in ("-o", option)]
    login = node.ssh_arguments("-l", "root", *options)
    command = [*login, "cat /proc/sys/kernel/random/boot_id"]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    ).stdout


@pytest.mark.long
def test_reboot_during_a_rehearsal_leaves_no_trace(lab: Lab, joined: Node, tmp_path: Path) -> None:
    process = begun(lab, tmp_path)
    boot = boot_of(joined)
    assert boot
    with joined.monitor() as monitor:
        monitor.execute("system_reset")
    wait_until(lambda: boot_of(joined) not in ("", boot), "the node did not come back", 900)
    kill_tree(process)
    joined.run(rollouts.HEALTHY)
    assert joined.run("find /run /tmp /var/lib /etc/systemd/system -maxdepth 3 -name '*rehears*'") == ""


@pytest.mark.long
def test_rehearsal_works_with_a_full_disk(lab: Lab, untouched: Node, tmp_path: Path) -> None:
    untouched.run("dd if=/dev/zero of=/root/full bs=1M 2> /dev/null || true; df / | tail -n 1")
    try:
        code, said = rehearsed(lab, tmp_path, STRICT)
    finally:
        untouched.run("rm /root/full")
    assert (code, said["verdict"]) == (0, "starts"), said
