"""The verification suite against a provisioned node: it passes, and after a change it names what changed."""

import os
import re
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from lab.cluster import Lab
from lab.node import Node
from lab.paths import REPOSITORY
from numaforge.lib.errors import ExitCode
from tests.fixtures.tables import cases

DROP_IN = "/etc/kubernetes/kubelet.conf.d/90-numaforge.conf"
KEY = "topologyManagerPolicy"
RESTART = "systemctl restart kubelet"
MOST_OF_THEM = 50  # promises of the lab's plan: 16 governors, 4 pools, files, settings, ...
HEALTHY_WITHIN_S = 240


@dataclass(frozen=True)
class Outcome:
    """What a run of the suite said: how it ended, how many tests passed, which failed (the host left out)."""

    exit_code: int
    output: str
    passed: int
    failed: frozenset[str]


RunSuite = Callable[..., Outcome]


@pytest.fixture(scope="module")
def suite(lab: Lab, provisioned: Node) -> RunSuite:
    """Run the suite with testinfra's own options, against the provisioned node."""
    kubectl = lab.control_plane.kubectl().parent
    environment = os.environ | {"PATH": f"{kubectl}{os.pathsep}{os.environ['PATH']}"}

    def run(*arguments: str, host: str = f"ssh://{provisioned.name}", cluster: bool = True) -> Outcome:
        command = [
            *(sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=short", "-p", "no:cacheprovider"),
            *("-p", "numaforge.verification.plugin", "--pyargs", "numaforge.verification"),
            *(f"--hosts={host}", f"--ssh-config={lab.state / 'ssh_config'}", *arguments),
            *([f"--kubeconfig={lab.kubeconfig}"] if cluster else []),
        ]
        done = subprocess.run(
            command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        return outcome(done, host)

    return run


def outcome(done: subprocess.CompletedProcess[str], host: str) -> Outcome:
    failed = re.findall(r"^(?:FAILED|ERROR) \S+::(.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    passed = re.search(r"(\d+) passed", done.stdout)
    return Outcome(
        exit_code=done.returncode,
        output=done.stdout + done.stderr,
        passed=int(passed[1]) if passed else 0,
        failed=frozenset(name.replace(f"[{host}-", "[") for name in failed),
    )


def await_kubelet(lab: Lab, node: Node) -> None:
    """Return once the kubelet answers through the API server."""
    deadline = time.monotonic() + HEALTHY_WITHIN_S
    while True:
        try:
            lab.control_plane.get(f"/api/v1/nodes/{node.name}/proxy/configz")
            return
        except urllib.error.HTTPError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def test_provisioned_node_keeps_every_promise(suite, provisioned):
    run = suite()
    assert run.exit_code == 0, run.output
    assert run.passed > MOST_OF_THEM


CHANGES = [
    (  # one line of the configuration that the kubelet runs with
        f"cp -p {DROP_IN} /root/kept; sed -i 's/^{KEY}: .*/{KEY}: restricted/' {DROP_IN}; {RESTART}",
        f"mv /root/kept {DROP_IN}; {RESTART}",
        {f"test_file_content[{DROP_IN}]", f"test_running_kubelet[{KEY}]"},
    ),
    (
        "echo powersave > /sys/devices/system/cpu/cpu5/cpufreq/scaling_governor",
        "echo performance > /sys/devices/system/cpu/cpu5/cpufreq/scaling_governor",
        {"test_kernel_value[governor]"},
    ),
    (
        "echo 63 > /sys/devices/system/node/node2/hugepages/hugepages-2048kB/nr_hugepages",
        "echo 64 > /sys/devices/system/node/node2/hugepages/hugepages-2048kB/nr_hugepages",
        {"test_kernel_value[hugepages:2Mi on NUMA node 2]"},
    ),
    (
        "sysctl -qw vm.stat_interval=9",
        "sysctl -qw vm.stat_interval=10",
        {"test_kernel_value[sysctl:vm.stat_interval]"},
    ),
    (f"chmod 0666 {DROP_IN}", f"chmod 0600 {DROP_IN}", {f"test_file_mode_and_owner[{DROP_IN}]"}),
    (
        "systemctl -q disable numaforge-tuning.service",
        "systemctl -q enable numaforge-tuning.service",
        {"test_unit_starts_at_boot[numaforge-tuning.service]"},
    ),
]
"""A change, how it is undone, and the tests that fail meanwhile.

The kubelet starts again before the pool is another: with its memory manager's state it would not start.
"""


def test_all_changes_together_are_reported_and_nothing_else(suite, lab, provisioned):
    for change, _, _ in CHANGES:
        provisioned.run(change)
        await_kubelet(lab, provisioned)
    try:
        run = suite()
    finally:
        for _, undo, _ in reversed(CHANGES):
            provisioned.run(undo)
        await_kubelet(lab, provisioned)
    assert run.failed == set().union(*(named for _, _, named in CHANGES)), run.output
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED


def test_file_newer_than_the_kubelet_is_reported_without_a_kubeconfig(suite, provisioned):
    provisioned.run(f"touch -d '+1 hour' {DROP_IN}")
    try:
        run = suite(cluster=False)
    finally:
        provisioned.run(f"touch -d '-1 day' {DROP_IN}")
    assert run.failed == {f"test_the_kubelet_started_after_its_file_was_written[{DROP_IN}]"}, run.output


@cases("host", {"paramiko": "paramiko://{name}", "a user with sudo": "ssh://admin@{name}"})
def test_verification_passes_over_every_kind_of_login(suite, provisioned, host):
    run = suite(host=host.format(name=provisioned.name))
    assert run.exit_code == 0, run.output
    assert run.passed > MOST_OF_THEM


def test_user_without_sudo_fails_with_one_message(suite, provisioned):
    run = suite(host=f"ssh://lab@{provisioned.name}")
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED
    assert "the login user is not root and sudo does not let it in without a password\n" in run.output
    assert run.passed == 0


def test_each_of_several_hosts_is_verified_against_its_own_plan(suite, provisioned):
    run = suite(host=f"ssh://{provisioned.name},ssh://nowhere.invalid")
    assert run.exit_code == ExitCode.UNREACHABLE
    assert "ssh://nowhere.invalid: cannot be reached" in run.output
    assert len(run.failed) == 1
    assert run.passed > MOST_OF_THEM
