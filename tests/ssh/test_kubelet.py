"""The kubelet's role over a real sshd, with stand-ins for systemd and kubelet."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fixtures.tables import cases
from tests.ssh.conftest import StartSandbox
from tests.ssh.kubeadm import CONFIG, kubeadm_files, start_kubelet
from tests.ssh.kubelet_runs import PROFILE, data, starts, with_kubelet
from tests.ssh.machine import machine, pool
from tests.ssh.sandbox import Sandbox, pyinfra, succeed
from tests.ssh.site_runs import plain
from tests.ssh.standin_systemd import DROP_IN, STATE

BOOT_POOLS = "/etc/tmpfiles.d/numaforge-hugepages.conf"
POOLS = [pool(0, 2048), pool(1, 2048)]


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A node as kubeadm leaves it, its kubelet running."""
    return start_kubelet(start_sandbox(kubeadm_files(port)), port)


def with_pools(count: int, **kubelet: object) -> dict[str, Any]:
    return {**with_kubelet(**kubelet), "hugepages": [{"size": "2Mi", "count_per_numa_node": count}]}


def pages(node: Sandbox) -> list[int]:
    return [int(node.path(path).read_text()) for path in POOLS]


def test_first_run_writes_the_drop_in_and_starts_the_kubelet_twice(node, tmp_path):
    run = succeed(tmp_path, data(node), "-y", "deploys/kubelet.py")
    assert yaml.safe_load(node.path(DROP_IN).read_text())["reservedSystemCPUs"] == "0,2,4,6"
    assert "the kubelet is healthy with the new configuration" in plain(run.stdout)
    assert starts(node) == 3  # the sandbox's own, and the change's two


@pytest.mark.long
def test_cut_connection_is_reconnected(node, tmp_path):
    begun = "[ -L /var/lib/numaforge/txn/current ] && [ ! -e /run/was-cut ]"
    node.log_in_with(f'if {begun}; then : > /run/was-cut; kill -9 "$PPID"; fi')
    run = pyinfra(tmp_path, data(node), "-y", "deploys/kubelet.py")
    assert node.path("/run/was-cut").exists()
    assert run.returncode == 0, run.stdout
    assert "the host does not answer: the connection was cut" in plain(run.stdout), run.stdout
    assert "the kubelet is healthy with the new configuration" in plain(run.stdout)


def test_file_change_without_a_setting_change_restarts_nothing(node, tmp_path):
    pyinfra(tmp_path, data(node), "-y", "deploys/kubelet.py")
    node.path(DROP_IN).write_text(node.path(DROP_IN).read_text() + "# a remark\n")
    run = succeed(tmp_path, data(node), "-y", "deploys/kubelet.py")
    assert "the kubelet's effective settings stay the same: it is not restarted" in plain(run.stdout)
    assert "a remark" not in node.path(DROP_IN).read_text()
    assert starts(node) == 3  # the sandbox's own, and the change's two


def test_state_written_after_the_look_is_also_removed(node, tmp_path):
    node.run(f"mv {STATE} /run/late; mkdir -p /run/when")
    node.path("/run/when/keeping").write_text(f"mv /run/late {STATE}")
    succeed(tmp_path, data(node), "-y", "deploys/kubelet.py")
    assert not node.path("/run/late").exists()
    assert json.loads(node.path(STATE).read_text())["policyName"] == "static"


def test_dry_run_reports_kubelet_restart_and_changes_nothing(node, tmp_path):
    run = pyinfra(tmp_path, data(node), "--dry", "--diff", "deploys/kubelet.py")
    output = plain(run.stdout)
    assert run.returncode == 0, output
    assert output.count(f"+++ {DROP_IN} (planned)") == 1
    assert "the kubelet restarts, because this changes: " in output
    assert not node.path(DROP_IN).exists()
    assert starts(node) == 1


@pytest.mark.variants(2)
@cases(
    "broken, message",
    {
        "refused-by-the-kubelet": ("maxPods: -1\n", "would not start"),
        "contradiction": ("cpuManagerPolicy: none\n", "config.yaml says cpuManagerPolicy: none"),
        "not-yaml": ("kind: [\n", "cannot load its configuration"),
    },
)
@pytest.mark.parametrize("mode", ["-y", "--dry"])
def test_unworkable_configuration_is_refused_before_any_write(node, tmp_path, broken, message, mode):
    node.path(CONFIG).write_text(node.path(CONFIG).read_text() + broken)
    run = pyinfra(tmp_path, data(node), mode, "deploys/site.py")
    output = plain(run.stdout)
    assert run.returncode == 1
    assert message in output
    assert "Traceback" not in output
    assert not node.path("/etc/numaforge").exists()
    assert starts(node) == 1


# ---- huge pages ----


def test_run_without_changes_queries_the_host_twice(node, tmp_path):
    hosts = data(node, numaforge_profile=with_pools(16))
    pyinfra(tmp_path, hosts, "-y", "deploys/site.py")
    again = pyinfra(tmp_path, hosts, "-y", "-vv", "deploys/site.py")
    asked = [line for line in plain(again.stdout).splitlines() if ">>> sh -c" in line]
    assert len(asked) == 2, asked
    assert starts(node) == 3  # the sandbox's own, and the change's two


def test_dry_run_shows_each_pool_once_and_fills_none(node, tmp_path):
    run = pyinfra(
        tmp_path, data(node, numaforge_profile=with_pools(16)), "--dry", "--diff", "deploys/site.py"
    )
    output = plain(run.stdout)
    assert run.returncode == 0, output
    assert len(re.findall(r"NUMA nodes 0-1 hugepages-2048kB +0 -> 16", output)) == 1
    assert output.count(f"+++ {BOOT_POOLS} (planned)") == 1
    assert pages(node) == [0, 0]


def test_kubelet_started_after_the_look_is_detected(node, tmp_path):
    node.run("systemctl stop kubelet.service")
    deploy = tmp_path / "deploy.py"
    deploy.write_text(
        "from pyinfra.operations import server\n"
        "from numaforge.run.roles import hugepages\nfrom numaforge.run.topology import topology\n"
        "topology()\n"
        "server.shell(commands='systemctl start kubelet.service')\n"
        "hugepages()\n"
    )
    run = pyinfra(tmp_path, data(node, numaforge_profile=with_pools(16)), "-y", str(deploy))
    assert run.returncode == 1
    assert "but the kubelet runs" in plain(run.stdout)
    assert pages(node) == [0, 0]
    assert not node.path(BOOT_POOLS).exists()


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("deploy", "filled"),
    [
        pytest.param("site.py", [16, 16], id="the-whole-site"),
        pytest.param("tune.py", [16, 16], id="tuning", marks=pytest.mark.long),
        pytest.param("kubelet.py", [0, 0], id="the-kubelet-alone"),
    ],
)
def test_hugepages_role_fills_pools_without_a_running_kubelet(node, tmp_path, deploy, filled):
    node.run("systemctl stop kubelet.service")
    succeed(tmp_path, data(node, numaforge_profile=with_pools(16)), "-y", f"deploys/{deploy}")
    assert pages(node) == filled
    assert node.path(BOOT_POOLS).exists() is (filled == [16, 16])
    assert starts(node) == 1


# ---- what disturbs no pod ----


@pytest.mark.long
def test_kernel_setting_of_a_joined_node_is_applied_without_a_drain(node, tmp_path):
    """There is no cluster to drain it in: a roll-out would fail."""
    drop_in = "/etc/systemd/system/kubelet.service.d/20-join.conf"
    node.path(drop_in).parent.mkdir(parents=True)
    command = "/usr/local/bin/kubelet --config=/var/lib/kubelet/config.yaml --kubeconfig=/etc/kubernetes/k"
    node.path(drop_in).write_text(f"[Service]\nExecStart=\nExecStart={command}\n")
    bare = {"numaforge_rollout": {"without_drain": "no pods yet"}}
    succeed(tmp_path, data(node, **bare), "-y", "deploys/site.py")
    begun = starts(node)
    tuned = {**PROFILE, "tuning": {"sysctls": {"vm.swappiness": "10"}}}
    succeed(tmp_path, data(node, numaforge_profile=tuned), "-y", "deploys/site.py")
    assert node.path("/proc/sys/vm/swappiness").read_text() == "10\n"
    assert starts(node) == begun
    restart = {**with_kubelet(cpu_manager_policy="none"), "tuning": tuned["tuning"]}
    refused = pyinfra(tmp_path, data(node, numaforge_profile=restart), "-y", "deploys/site.py")
    assert refused.returncode == 1  # this one needs the drain
    assert starts(node) == begun


# ---- what is in the way ----


@pytest.mark.long
def test_change_without_its_unit_is_undone_before_a_new_change(node, tmp_path):
    node.run(
        "mkdir -p /var/lib/numaforge/txn/T0 && ln -s T0 /var/lib/numaforge/txn/current && "
        "echo 'rm -f /var/lib/numaforge/txn/current; : > /run/recovered' > /var/lib/numaforge/txn/T0/run.sh"
    )
    run = succeed(tmp_path, data(node), "-y", "deploys/kubelet.py")
    assert "T0, an earlier change, is ended first" in plain(run.stdout)
    assert node.path("/run/recovered").exists()


def test_file_edited_after_the_look_is_named_and_not_overwritten(node, tmp_path):
    # The unit is asked about after the files have been read, and before anything is handed over.
    node.run("mv /usr/local/bin/systemctl /usr/local/bin/systemctl.real")
    node.path("/usr/local/bin/systemctl").write_text(
        f"""#!/bin/sh
case "$*" in *"-p ActiveState,SubState"*) [ ! -e /run/edit ] || echo '# mine' >> {CONFIG} ;; esac
exec systemctl.real "$@"
"""
    )
    node.run("chmod +x /usr/local/bin/systemctl; : > /run/edit")
    run = pyinfra(tmp_path, data(node), "-y", "deploys/kubelet.py")
    assert run.returncode == 1
    assert f"nothing was changed: {CONFIG} was changed after it was looked at" in plain(run.stdout)
    assert "run again" in plain(run.stdout)
    assert not node.path(DROP_IN).exists()
    assert starts(node) == 1
    node.path("/run/edit").unlink()
    succeed(tmp_path, data(node), "-y", "deploys/kubelet.py")
    assert node.path(CONFIG).read_text().endswith("# mine\n")


# The deploy asks as a roll-out does.
_ASK = """
from pyinfra import host, logger

from numaforge.run.hosts.scripts import reached
from numaforge.change.transaction import read_status, status_script
from numaforge.change.identity import identity_script, read_identity

logger.info("%r", read_identity(reached(host, identity_script())))
status = read_status(reached(host, status_script("T1")))
logger.info("%r", status.result)
"""


def asked(node: Sandbox, folder: Path) -> str:
    deploy = folder / "ask.py"
    deploy.write_text(_ASK)
    run = succeed(folder, data(node), "-y", str(deploy))
    return plain(run.stdout)


def test_host_reports_its_identity(node, tmp_path):
    node.path("/etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    node.path("/sys/class/dmi/id").mkdir(parents=True)
    node.path("/sys/class/dmi/id/product_uuid").write_text("4C4C4544-0042-4A10-8052-C3C04F4B5A32\n")
    assert (
        "Identity(boot_id='the first boot', machine_id='0123456789abcdef0123456789abcdef',"
        " system_uuid='4c4c4544-0042-4a10-8052-c3c04f4b5a32')"
    ) in asked(node, tmp_path)


@pytest.mark.long
def test_unreported_identity_fields_are_unknown(node, tmp_path):
    node.path("/etc/machine-id").unlink(missing_ok=True)
    assert "machine_id=None, system_uuid=None)" in asked(node, tmp_path)


def test_result_with_invalid_utf8_is_readable_over_ssh(node, tmp_path):
    node.path("/var/lib/numaforge/txn/T1").mkdir(parents=True)
    node.path("/var/lib/numaforge/txn/T1/result.json").write_bytes(
        b'{"id": "T1", "outcome": "rolled-back", "reason": "why", "journal": ["caf\xe9"]}\n'
    )
    assert "Result(id='T1', outcome='rolled-back', reason='why', journal=('caf',))" in asked(node, tmp_path)


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("program", "message"),
    [
        pytest.param("exit 3", "kubelet --version ended with 3", id="fails", marks=pytest.mark.long),
        pytest.param("echo hello", "says 'hello', which names no version", id="says something else"),
        pytest.param(None, "the kubelet's program was not found", id="gone"),
    ],
)
def test_kubelet_of_unknown_version_is_refused(node, tmp_path, program, message):
    assert pyinfra(tmp_path, data(node), "-y", "deploys/site.py").returncode == 0
    kept = ("/etc/numaforge/plan.json", DROP_IN)
    before = [node.path(path).read_text() for path in kept]
    node.run("systemctl stop kubelet.service; rm /usr/local/bin/kubelet")
    if program:
        node.run(
            f"printf '#!/bin/sh\n{program}\n' > /usr/local/bin/kubelet; chmod 755 /usr/local/bin/kubelet"
        )
    run = pyinfra(tmp_path, data(node), "-y", "deploys/site.py")
    assert run.returncode == 1
    assert re.search(
        rf"refused: node\n.*the kubelet's version is not known: .*{message}", plain(run.stdout)
    ), run.stdout
    assert [node.path(path).read_text() for path in kept] == before


def test_host_without_a_kubelet_is_skipped_with_a_notice(start_sandbox, tmp_path):
    node = start_sandbox(machine())
    run = succeed(tmp_path, data(node), "-y", "deploys/kubelet.py")
    assert "notice no-kubelet: no kubelet is installed" in plain(run.stdout)
