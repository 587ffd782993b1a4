"""Packages that stay at their version: the real dpkg and apt-mark, and what dnf does to its list."""

import re
import time
from typing import Any

import pytest

from numaforge.change.transaction import Result, Transaction
from numaforge.lib.file_content import PLAN_PATH
from numaforge.planning.document import loads
from numaforge.roles.host import part as packages
from numaforge.roles.host.files import PAM_LIMITS_PATH, SWAP_PATH, UPGRADES_PATH
from numaforge.roles.host.part import RECORD
from numaforge.verification.live import probe, read_live
from numaforge.verification.table import entries
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox, pyinfra, succeed
from tests.ssh.site_runs import data, plain
from tests.ssh.standin_systemd import DROP_IN, STATE, standin_systemd
from tests.ssh.transactions import LARGE, MEMORY_STATE, SMALL, reverted, run

pytestmark = pytest.mark.core(
    "test_undo_releases_only_our_package_holds",
    "test_run_holds_installed_packages_and_second_changes_nothing",
)
VERSIONLOCK = "/etc/dnf/plugins/versionlock.list"

# `dnf versionlock add` names the version that is installed, `delete` fails where nothing matches.
DNF = f"""#!/bin/sh
while [ "$1" != versionlock ]; do shift; done
verb=$2
shift 2
[ ! -e /run/refuse-dnf ] || {{ echo "Error: Failed to synchronize cache" >&2; exit 1; }}
for name; do
    case $verb in
    add) echo "$name-0:5.14.0-503.el9.*" >> {VERSIONLOCK} ;;
    delete) grep -q "^$name-0:" {VERSIONLOCK} && sed -i "/^$name-0:/d" {VERSIONLOCK} || exit 1 ;;
    esac
done
"""


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A node with a kubelet, on which the admin holds `grep`."""
    files = {**machine(), **standin_systemd(port), LARGE: "1\n", SMALL: "512\n", DROP_IN: "old\n"}
    sandbox = start_sandbox({**files, "/usr/local/bin/dnf": DNF, VERSIONLOCK: "# by hand\ngrep-0:3.8-1.*\n"})
    sandbox.run(f"systemctl start kubelet.service; until [ -e {STATE} ]; do sleep 0.05; done")
    sandbox.path(MEMORY_STATE).write_text("memory as it was\n")
    sandbox.run("apt-mark hold grep; mkdir -p /run/when /run/systemd/system")
    return sandbox


def held(node: Sandbox, manager: str = "apt") -> list[str]:
    if manager == "dnf":
        return [line.partition("-0:")[0] for line in node.path(VERSIONLOCK).read_text().splitlines()[1:]]
    return node.run("apt-mark showhold").stdout.split()


def record(node: Sandbox) -> list[str]:
    path = node.path(RECORD)
    return path.read_text().splitlines()[1:] if path.exists() else []


def holding(node: Sandbox, manager: str = "apt") -> Result:
    return run(node, Transaction("T1", (packages.part(manager, ("dash", "sed"), (), ("dash", "sed")),)))


@pytest.mark.variants(1)
@pytest.mark.parametrize("manager", ["apt", "dnf"])
def test_undo_releases_only_our_package_holds(node, manager):
    result = holding(node, manager)
    assert result.outcome == "applied", result.reason
    assert sorted(held(node, manager)) == ["dash", "grep", "sed"]
    assert record(node) == ["dash", "sed"]
    assert reverted(node, "the gate is shut").outcome == "rolled-back"
    assert held(node, manager) == ["grep"]
    assert record(node) == []


@pytest.mark.long
@pytest.mark.parametrize("manager", ["apt", "dnf"])
def test_unwanted_hold_is_released_and_undo_restores_the_hold(node, manager):
    holding(node, manager)
    second = Transaction("T2", (packages.part(manager, (), ("dash",), ("sed",)),))
    assert run(node, second).outcome == "applied"
    assert sorted(held(node, manager)) == ["grep", "sed"]
    assert record(node) == ["sed"]
    assert reverted(node, "the gate is shut", "T2").outcome == "rolled-back"
    assert sorted(held(node, manager)) == ["dash", "grep", "sed"]
    assert record(node) == ["dash", "sed"]


def test_failing_package_manager_changes_nothing_and_is_quoted(node):
    node.path("/run/refuse-dnf").touch()
    result = holding(node, "dnf")
    assert result.outcome == "rolled-back"
    assert "Failed to synchronize cache" in result.reason
    assert held(node, "dnf") == ["grep"]


def test_package_that_disappeared_is_refused_by_name(node):
    gone = packages.part("apt", ("no-such-package",), (), ("no-such-package",))
    result = run(node, Transaction("T1", (gone,)))
    assert result.outcome == "rolled-back"
    assert "no-such-package" in result.reason


@pytest.mark.long
def test_concurrent_package_manager_run_is_waited_for(node):
    lock = "import fcntl, time; f = open('/var/lib/dpkg/lock', 'w'); fcntl.lockf(f, fcntl.LOCK_EX); "
    node.run(f"setsid python3 -c \"{lock}open('/run/locked', 'w'); time.sleep(3)\" > /dev/null 2>&1 &")
    node.run("until [ -e /run/locked ]; do sleep 0.05; done")
    began = time.monotonic()
    result = holding(node)
    assert result.outcome == "applied", result.reason
    assert time.monotonic() - began > 1
    assert sorted(held(node)) == ["dash", "grep", "sed"]


PROFILE: dict[str, Any] = {
    "name": "sandbox",
    "host": {"limits": {"memlock": "unlimited"}, "hold_packages": ["kubelet"]},
    "tuning": {"swap": "off"},
}


@pytest.fixture
def debian(start_sandbox: StartSandbox) -> Sandbox:
    """A host with two packages of the kubelet, one of which the admin holds."""
    sandbox = start_sandbox(machine())
    entry = (
        "Package: {}\nStatus: install ok installed\nMaintainer: Test <test@example.com>\n"
        "Architecture: all\nVersion: 1.36.3\nDescription: x\n\n"
    )
    with sandbox.path("/var/lib/dpkg/status").open("a") as status:
        status.write("".join(map(entry.format, ("kubelet", "kubeadm"))))
    assert sandbox.run("apt-mark hold kubeadm").returncode == 0
    return sandbox


def kubelet_holds(node: Sandbox) -> set[str]:
    return {"kubelet", "kubeadm"} & {*held(node)}


def test_run_holds_installed_packages_and_second_changes_nothing(debian, tmp_path):
    hosts = {"node": data(debian, PROFILE)}
    dry = pyinfra(tmp_path, hosts, "--dry", "deploys/site.py")
    assert re.search(r"package kubelet +held", plain(dry.stdout)), dry.stdout
    assert kubelet_holds(debian) == {"kubeadm"}
    succeed(tmp_path, hosts, "-y", "deploys/site.py")
    assert kubelet_holds(debian) == {"kubelet", "kubeadm"}
    assert "kubeadm" not in record(debian)
    for path in (PAM_LIMITS_PATH, SWAP_PATH, UPGRADES_PATH):
        assert debian.path(path).exists(), path
    assert debian.run("apt-config dump Unattended-Upgrade::Package-Blacklist").stdout.count('"kubelet$"') == 1
    again = pyinfra(tmp_path, hosts, "-y", "-v", "deploys/site.py")
    assert "noop: the node is already as planned" in plain(again.stdout), again.stdout


def test_verification_sees_held_packages(debian, tmp_path):
    pyinfra(tmp_path, {"node": data(debian, PROFILE)}, "-y", "deploys/site.py")
    plan = loads(debian.path(PLAN_PATH).read_text())
    promised = {f"held {name}" for name in entries(plan, "package_is_held")}
    assert promised <= {*read_live(debian.run(probe(plan)).stdout, plan).of("host")}
    debian.run("apt-mark unhold kubelet")
    assert promised - {*read_live(debian.run(probe(plan)).stdout, plan).of("host")} == {"held kubelet"}


def test_profile_without_holds_leaves_no_residue(debian, tmp_path):
    pyinfra(tmp_path, {"node": data(debian, PROFILE)}, "-y", "deploys/site.py")
    # A role that is not called, and a plan without holds, must not lose track of what is ours.
    pyinfra(tmp_path, {"node": data(debian, {"name": "sandbox"})}, "-y", "deploys/tune.py")
    succeed(tmp_path, {"node": data(debian, {"name": "sandbox"})}, "-y", "deploys/site.py")
    assert kubelet_holds(debian) == {"kubeadm"}
    for path in (PAM_LIMITS_PATH, SWAP_PATH, UPGRADES_PATH, RECORD):
        assert not debian.path(path).exists(), path
