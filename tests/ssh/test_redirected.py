"""Nobody on a node steers root: links and folders of users, where a kubelet has its files."""

from pathlib import Path

import pytest

from numaforge.lib import shell
from numaforge.lib.file_content import FileContent
from tests.fixtures.tables import cases
from tests.ssh.conftest import StartSandbox
from tests.ssh.kubeadm import kubeadm_files, start_kubelet
from tests.ssh.kubelet_runs import data
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox, pyinfra
from tests.ssh.site_runs import plain
from tests.ssh.standin_systemd import DROP_IN, standin_systemd
from tests.ssh.transactions import run, transaction, when

MALLORY = 54321
SHADOW, SUDOERS = "/etc/shadow", "/etc/sudoers"
KUBELET_DROP_IN = "/etc/kubernetes/kubelet.conf.d/90-numaforge.conf"
REFUSED = "as another user could redirect it: "


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A node whose kubelet has a folder of root's, beside the home of a user with links to root's files."""
    sandbox = start_sandbox({**machine(), **standin_systemd(port), DROP_IN: "old\n"})
    sandbox.run(
        f"""
systemctl start kubelet.service; mkdir -p /run/when /run/systemd/system /home/m/kd /home/m/root /data/kd
echo secret > {SHADOW}; echo root > {SUDOERS}
ln -s {SHADOW} /home/m/kd/90-numaforge.conf; ln -s {SUDOERS} /home/m/root/cpu_manager_state
chown -hR {MALLORY}:{MALLORY} /home/m; : > /run/systemctl.log
"""
    )
    return sandbox


def assert_roots_files_are_as_they_were(node: Sandbox) -> None:
    assert node.path(SHADOW).read_text() == "secret\n"
    assert node.path(SUDOERS).read_text() == "root\n"


def written(path: str) -> dict[str, object]:
    return {"files": (FileContent(path, "new\n"),), "values": {}, "pools": {}}


@cases(
    "changes, touched",
    {
        "a link in the config-dir does not have shadow overwritten": (
            written("/home/m/kd/90-numaforge.conf"),
            "/home/m/kd/90-numaforge.conf",
        ),
        "a link in the root-dir does not have sudoers removed": (
            {**written("/data/kd/new.conf"), "invalid_state": ["/home/m/root/cpu_manager_state"]},
            "/home/m/root/cpu_manager_state",
        ),
    },
)
def test_change_through_user_owned_folders_is_refused(node, port, changes, touched):
    result = run(node, transaction(port, "new", **changes))
    assert result.outcome == "refused"
    assert f"nothing was changed: {touched} is left alone, {REFUSED}/home/m belongs to" in result.reason
    assert_roots_files_are_as_they_were(node)
    assert "stop kubelet.service" not in node.path("/run/systemctl.log").read_text()


@pytest.mark.parametrize("step", ["apply files", "stop kubelet"])
def test_folder_given_to_another_user_midway_is_not_written(node, port, step):
    given_away = f"mv /data/kd /data/kd.away; ln -s /etc /data/kd; chown -h {MALLORY}:{MALLORY} /data/kd"
    when(node, step, given_away)
    result = run(node, transaction(port, "new", **written("/data/kd/shadow"), invalid_state=[]))
    assert result.outcome == "failed"
    assert REFUSED + "the link /data/kd belongs to" in result.reason
    assert_roots_files_are_as_they_were(node)


@pytest.mark.variants(1)
@pytest.mark.parametrize("arguments", [("--dry",), ("-y",)], ids=["dry", "applied"])
def test_user_owned_folder_is_refused_at_the_look(start_sandbox, port, tmp_path, arguments):
    """As kubespray leaves a node by default: /etc/kubernetes belongs to the user kube (`kube_owner`)."""
    node = start_kubelet(start_sandbox(kubeadm_files(port)), port)
    node.run("mkdir -p /etc/kubernetes; chown 54321 /etc/kubernetes; : > /run/systemctl.log")
    result = pyinfra(tmp_path, data(node), *arguments, "deploys/kubelet.py")
    output = plain(result.stdout)
    assert result.returncode == 1
    assert f"{KUBELET_DROP_IN} is left alone, {REFUSED}/etc/kubernetes belongs to" in output
    assert "chown root:root '/etc/kubernetes'" in output
    assert not node.path("/var/lib/numaforge/txn/current").is_symlink()
    assert "stop" not in node.path("/run/systemctl.log").read_text()


def test_other_users_cannot_hold_root_locks(node, port):
    result = run(node, transaction(port, "new", values={}, pools={}, invalid_state=[]))
    assert result.outcome == "applied"
    node.run(
        shell.library("node/paths") + "private_folder /run/numaforge/watch; : > /run/numaforge/watch/lock"
    )
    locks = node.run("find /run/numaforge /var/lib/numaforge -name lock -o -name alive -o -name decision")
    assert {Path(lock).name for lock in locks.stdout.split()} >= {"lock", "alive", "decision"}
    for lock in locks.stdout.split():
        held = node.run(f"setpriv --reuid={MALLORY} --clear-groups flock -n {lock} true")
        assert "Permission denied" in held.stderr, lock
