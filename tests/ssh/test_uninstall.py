"""A node without numaforge is what it was before: a real sshd, with stand-ins for systemd and kubelet."""

import json
from pathlib import Path

import pytest
import yaml

from tests.ssh.conftest import StartSandbox
from tests.ssh.kubelet_runs import data, starts
from tests.ssh.sandbox import Sandbox, pyinfra, succeed
from tests.ssh.site_runs import plain
from tests.ssh.standin_systemd import DROP_IN
from tests.ssh.uninstalls import PROFILE, UNINSTALL, kubeadm_node, left, provision

CPU_STATE = "/var/lib/kubelet/cpu_manager_state"


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    return kubeadm_node(start_sandbox, port)


def test_uninstall_restores_the_node_with_a_healthy_kubelet(node, tmp_path):
    before = left(node)
    provision(node, tmp_path)
    assert yaml.safe_load(node.path(DROP_IN).read_text())["reservedSystemCPUs"] == "0,2,4,6"
    provisioned = starts(node)
    succeed(tmp_path, data(node, numaforge_profile=PROFILE), "-y", UNINSTALL)
    assert left(node) == before
    assert starts(node) == provisioned + 2, "the kubelet has to come up twice"
    assert json.loads(node.path(CPU_STATE).read_text())["policyName"] == "none"


@pytest.mark.long
def test_dry_run_lists_removals_and_changes_nothing(node, tmp_path):
    provision(node, tmp_path)
    provisioned = left(node)
    run = succeed(tmp_path, data(node, numaforge_profile=PROFILE), "--dry", UNINSTALL)
    said = plain(run.stdout)
    assert DROP_IN in said
    assert "the kubelet restarts" in said
    assert "/var/lib/numaforge, with the backups of earlier changes, are removed" in " ".join(said.split())
    assert "Operation" not in said, "the overview alone, without the table of pyinfra"
    assert left(node) == provisioned


@pytest.mark.long
def test_admin_edit_during_a_change_is_kept_and_named(node, tmp_path):
    provision(node, tmp_path)
    edited = "etc/sysctl.d/90-own.conf"
    node.run(
        f"cd /var/lib/numaforge/txn && mkdir -p T9/edited/etc/sysctl.d && echo mine > T9/edited/{edited}"
    )
    hosts = data(node, numaforge_profile=PROFILE)
    for arguments in (("--dry", UNINSTALL), ("-y", UNINSTALL)):
        run = pyinfra(tmp_path, hosts, *arguments)
        assert run.returncode == 0, run.stdout
        assert f"is kept in /var/lib/numaforge-edits/T9/{edited}" in " ".join(plain(run.stdout).split())
    assert not node.path("/var/lib/numaforge").exists()
    assert node.path(f"/var/lib/numaforge-edits/T9/{edited}").read_text() == "mine\n"
    again = pyinfra(tmp_path, hosts, "-y", UNINSTALL)
    assert plain(again.stdout).count("No changes") == plain(again.stdout).count("Starting operation")


@pytest.mark.long
def test_second_run_without_a_profile_changes_nothing(node, tmp_path):
    provision(node, tmp_path)
    hosts = data(node)
    del hosts["node"]["numaforge_profile"]
    assert pyinfra(tmp_path, hosts, "-y", UNINSTALL).returncode == 0
    again = succeed(tmp_path, hosts, "-y", UNINSTALL)
    assert plain(again.stdout).count("No changes") == plain(again.stdout).count("Starting operation")


@pytest.mark.long
def test_drop_ins_of_others_keep_the_config_dir_flag(node, tmp_path):
    provision(node, tmp_path)
    own = f"{Path(DROP_IN).parent}/50-own.conf"
    node.path(own).write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 64\n"
    )
    run = succeed(tmp_path, data(node), "-y", UNINSTALL)
    assert f"{own} came from elsewhere" in plain(run.stdout)
    assert not node.path(DROP_IN).exists()
    assert node.path(own).exists()
    assert "--config-dir=" in node.path("/etc/systemd/system/kubelet.service.d/90-numaforge.conf").read_text()


def test_failed_uninstall_restores_everything(node, tmp_path):
    provision(node, tmp_path)
    provisioned = left(node)
    node.run(f"mount --bind {DROP_IN} {DROP_IN}")  # a file that cannot be removed
    run = pyinfra(tmp_path, data(node), "-y", UNINSTALL)
    assert run.returncode == 1
    node.run(f"umount {DROP_IN}")
    assert {path: sum_ for path, sum_ in left(node).items() if "lib/numaforge" not in path} == {
        path: sum_ for path, sum_ in provisioned.items() if "lib/numaforge" not in path
    }
    assert node.path("/etc/numaforge/plan.json").exists()
