"""pyinfra over a real sshd: what a run writes, what it refuses, and that a host that fails fails alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from numaforge.planning.files import TUNING_UNIT_PATH
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import CPUS, governor, machine, pool
from tests.ssh.sandbox import Sandbox, free_port, pyinfra
from tests.ssh.standin_systemd import standin_systemd

PLAN = "/etc/numaforge/plan.json"
PROFILE: dict[str, Any] = {
    "name": "sandbox",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "memory": {"system_reserved": "1Gi"},
    "hugepages": [{"size": "2Mi", "count_per_numa_node": 16}],
    "tuning": {"governor": "performance", "sysctls": {"vm.swappiness": "1"}, "numa_balancing": False},
}


@pytest.fixture
def node(start_sandbox: StartSandbox) -> Sandbox:
    return start_sandbox(machine())


def data(node: Sandbox, profile: object = PROFILE, user: str = "root") -> dict[str, object]:
    return {**node.data(user), "numaforge_profile": profile}


def text(node: Sandbox, path: str) -> str:
    return node.path(path).read_text().strip()


def plain(output: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", output)


def test_it_writes_what_the_plan_lists(node: Sandbox, tmp_path: Path) -> None:
    run = pyinfra(tmp_path, {"node": data(node)}, "-y", "deploys/site.py")
    assert run.returncode == 0, run.stdout
    files = json.loads(node.path(PLAN).read_text())["files"]
    assert len(files) == 5
    for file in files:
        status = node.path(file["path"]).stat()
        assert (f"{status.st_mode & 0o7777:04o}", status.st_uid) == (file["mode"], 0), file["path"]


def test_it_applies_what_the_plan_says_now(node: Sandbox, tmp_path: Path) -> None:
    pyinfra(tmp_path, {"node": data(node)}, "-y", "deploys/site.py")
    assert {text(node, governor(cpu)) for cpu in CPUS} == {"performance"}
    assert text(node, "/proc/sys/vm/swappiness") == "1"
    assert text(node, "/proc/sys/kernel/numa_balancing") == "0"
    assert [text(node, pool(number, 2048)) for number in (0, 1)] == ["16", "16"]


def test_tuning_a_node_with_pods_reloads_no_units(start_sandbox: StartSandbox, tmp_path: Path) -> None:
    node = start_sandbox({**machine(), **standin_systemd(free_port())})
    node.run("mkdir -p /run/systemd/system; rm /usr/local/bin/kubelet; : > /run/systemctl.log")
    run = pyinfra(tmp_path, {"node": data(node)}, "-y", "deploys/tune.py")
    assert run.returncode == 0, run.stdout
    link = node.path(f"/etc/systemd/system/multi-user.target.wants/{Path(TUNING_UNIT_PATH).name}")
    assert str(link.readlink()) == TUNING_UNIT_PATH
    assert text(node, "/run/systemctl.log") == ""


def test_a_second_run_changes_nothing_and_says_so(node: Sandbox, tmp_path: Path) -> None:
    hosts = {"node": data(node)}
    pyinfra(tmp_path, hosts, "-y", "deploys/site.py")
    node.run("touch /run/now")
    again = pyinfra(tmp_path, hosts, "-y", "-v", "deploys/site.py")
    assert again.returncode == 0
    assert plain(again.stdout).count("No changes") == plain(again.stdout).count("Starting operation")
    assert "noop: the node is already as planned" in plain(again.stdout)
    assert node.run("find /etc /var/lib /sys /proc/sys -newer /run/now -type f").stdout == ""


def test_a_run_with_nothing_to_do_asks_the_host_twice(node: Sandbox, tmp_path: Path) -> None:
    hosts = {"node": data(node)}
    pyinfra(tmp_path, hosts, "-y", "deploys/site.py")
    again = pyinfra(tmp_path, hosts, "-y", "-vv", "deploys/site.py")
    asked = [line for line in plain(again.stdout).splitlines() if ">>> sh -c" in line]
    assert len(asked) == 2, asked


def test_a_change_in_between_is_seen_by_the_roles_that_follow(node: Sandbox, tmp_path: Path) -> None:
    hosts = {"node": data(node)}
    pyinfra(tmp_path, hosts, "-y", "deploys/site.py")
    deploy = tmp_path / "deploy.py"
    deploy.write_text(
        "from pyinfra.operations import server\n"
        "from numaforge.roles.hugepages import hugepages\nfrom numaforge.roles.topology import topology\n"
        "from numaforge.roles.tuning import tuning\n"
        "topology()\n"
        f"server.shell(commands='echo 3 > {pool(0, 2048)}')\n"
        "tuning()\n"
        "hugepages()\n"
    )
    run = pyinfra(tmp_path, hosts, "-y", str(deploy))
    assert run.returncode == 0, run.stdout
    assert text(node, pool(0, 2048)) == "16"


def test_a_limit_is_raised_and_what_is_higher_by_then_stays(node: Sandbox, tmp_path: Path) -> None:
    limit = "/proc/sys/vm/max_map_count"
    hosts = {"node": data(node, {**PROFILE, "tuning": {"sysctls": {"vm.max_map_count": 1048576}}})}
    pyinfra(tmp_path, hosts, "-y", "deploys/site.py")
    assert text(node, limit) == "1048576"
    node.path(limit).write_text("2097152\n")
    run = pyinfra(tmp_path, hosts, "-y", "deploys/site.py")
    assert run.returncode == 0, run.stdout
    assert text(node, limit) == "2097152"


def test_packets_are_not_held_back_to_be_joined(node: Sandbox, tmp_path: Path) -> None:
    deploy = tmp_path / "deploy.py"
    deploy.write_text(
        "import socket\nfrom pyinfra import host, logger\nfrom numaforge.roles.topology import topology\n"
        "topology()\n"
        "sock = host.connector.client.get_transport().sock\n"
        "logger.info('nodelay=%s', sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))\n"
    )
    run = pyinfra(tmp_path, {"node": data(node)}, "-y", str(deploy))
    assert "nodelay=1" in plain(run.stdout)


def test_dry_shows_a_diff_of_every_file_once_and_writes_nothing(node: Sandbox, tmp_path: Path) -> None:
    run = pyinfra(tmp_path, {"node": data(node)}, "--dry", "deploys/site.py")
    assert run.returncode == 0, run.stdout
    for path in (PLAN, "/etc/sysctl.d/90-numaforge.conf", "/etc/tmpfiles.d/numaforge-hugepages.conf"):
        assert run.stdout.count(f"+++ {path} (planned)") == 1
    assert "+vm.swappiness = 1" in run.stdout
    assert f"{governor(0)}: schedutil -> performance" in run.stdout
    assert not node.path(PLAN).exists()
    assert text(node, governor(0)) == "schedutil"


def test_a_diff_has_no_colours_where_there_is_no_terminal(node: Sandbox, tmp_path: Path) -> None:
    assert "\x1b" not in pyinfra(tmp_path, {"node": data(node)}, "--dry", "deploys/site.py").stdout


def test_a_changed_file_is_shown_as_a_diff_and_kept_as_a_backup(node: Sandbox, tmp_path: Path) -> None:
    hosts = {"node": data(node)}
    pyinfra(tmp_path, hosts, "-y", "deploys/site.py")
    path = "/etc/sysctl.d/90-numaforge.conf"
    node.path(path).write_text("vm.swappiness = 42\n")
    assert "-vm.swappiness = 42" in pyinfra(tmp_path, hosts, "--dry", "deploys/site.py").stdout
    pyinfra(tmp_path, hosts, "-y", "deploys/site.py")
    backups = node.run(f"cat /var/lib/numaforge/txn/*/backup{path} 2> /dev/null").stdout
    assert backups == "vm.swappiness = 42\n"


def test_what_a_profile_no_longer_asks_for_is_removed(node: Sandbox, tmp_path: Path) -> None:
    pyinfra(tmp_path, {"node": data(node)}, "-y", "deploys/site.py")
    lean = {key: value for key, value in PROFILE.items() if key != "tuning"}
    run = pyinfra(tmp_path, {"node": data(node, lean)}, "-y", "deploys/site.py")
    assert run.returncode == 0, run.stdout
    assert not node.path("/etc/sysctl.d/90-numaforge.conf").exists()
    assert not node.path("/etc/systemd/system/multi-user.target.wants/numaforge-tuning.service").is_symlink()


def test_a_machine_without_governors_says_so_and_goes_on(start_sandbox: StartSandbox, tmp_path: Path) -> None:
    node = start_sandbox(machine(governors=False))
    run = pyinfra(tmp_path, {"node": data(node)}, "-y", "deploys/site.py")
    assert run.returncode == 0, run.stdout
    assert "governor" in run.stdout
    assert text(node, "/proc/sys/vm/swappiness") == "1"


def test_a_login_without_root_rights_uses_sudo_that_asks_for_nothing(node: Sandbox, tmp_path: Path) -> None:
    run = pyinfra(tmp_path, {"node": data(node, user="deployer")}, "-y", "deploys/site.py")
    assert run.returncode == 0, run.stdout
    assert node.path(PLAN).stat().st_uid == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"numaforge_profile": {"cpuz": {}}}, r"cpuz", id="unknown-key"),
        pytest.param({"numaforge_profile": "no-such-profile"}, r"no-such-profile", id="unknown-profile"),
        pytest.param({"numaforge_profile": None}, r"numaforge_profile: is not set", id="no-profile"),
        pytest.param(
            {"numaforge_profile": {**PROFILE, "cpus": {"reserved": {"cpulist": "0,99"}}}},
            r"99",
            id="no-such-cpu",
        ),
        pytest.param(
            {"numaforge_profile": {**PROFILE, "cpus": {"reserved": {"cores_per_numa_node": 2}}}},
            r"cpus\.reserved: all 8 online CPUs",
            id="every-core",
        ),
        pytest.param(
            {"numaforge_profile": {**PROFILE, "memory": {"system_reserved": "8GB"}}},
            r"8GB",
            id="bad-quantity",
        ),
        pytest.param(
            {"numaforge_profile": {**PROFILE, "hugepages": [{"size": "1Gi", "count_per_numa_node": 64}]}},
            r"64",
            id="more-hugepages-than-memory",
        ),
        pytest.param({"ssh_user": "operator"}, r"ssh_user: the login user is not root", id="no-sudo"),
    ],
)
@pytest.mark.parametrize("mode", ["-y", "--dry"])
def test_a_bad_host_fails_alone_with_one_message(
    start_sandbox: StartSandbox, tmp_path: Path, change: dict[str, object], message: str, mode: str
) -> None:
    bad, good = start_sandbox(machine()), start_sandbox(machine())
    hosts = {"bad": {**data(bad), **change}, "good": data(good)}
    run = pyinfra(tmp_path, hosts, mode, "deploys/site.py")
    output = plain(run.stdout)
    assert run.returncode == 1, output
    assert re.search(rf"\[bad\].*{message}", output), output
    assert "Traceback" not in output
    assert not bad.path(PLAN).exists()
    assert good.path(PLAN).exists() is (mode == "-y")


@pytest.mark.parametrize("mode", ["-y", "--dry"])
def test_a_host_that_cannot_be_reached_fails_alone(node: Sandbox, tmp_path: Path, mode: str) -> None:
    gone = {**data(node), "ssh_port": free_port()}
    run = pyinfra(tmp_path, {"gone": gone, "good": data(node)}, mode, "deploys/site.py")
    assert run.returncode == 1
    assert "[gone] Could not connect" in plain(run.stdout)
    assert f"+++ {PLAN} (planned)" in plain(run.stdout) or mode == "-y"
    assert "Traceback" not in run.stdout
    assert node.path(PLAN).exists() is (mode == "-y")


def test_a_host_whose_key_is_not_known_is_not_spoken_to(node: Sandbox, tmp_path: Path) -> None:
    (node.keys / "known_hosts").write_text("")
    run = pyinfra(tmp_path, {"node": data(node)}, "-y", "deploys/site.py")
    assert run.returncode == 1
    assert not node.path(PLAN).exists()


def test_a_detection_that_is_cut_off_changes_nothing(start_sandbox: StartSandbox, tmp_path: Path) -> None:
    node = start_sandbox({**machine(), "/usr/local/bin/xargs": "#!/bin/sh\nkill -9 $PPID\n"})
    run = pyinfra(tmp_path, {"node": data(node)}, "-y", "deploys/site.py")
    assert run.returncode == 1
    assert "Traceback" not in run.stdout
    assert not node.path(PLAN).exists()


def test_a_pool_that_cannot_be_filled_names_the_numbers_and_leaves_the_pools(
    node: Sandbox, tmp_path: Path
) -> None:
    node.run(f"mount --bind {pool(1, 2048)} {pool(1, 2048)}; mount -o remount,bind,ro {pool(1, 2048)}")
    run = pyinfra(tmp_path, {"node": data(node)}, "-y", "deploys/site.py")
    assert run.returncode == 1
    assert f"{pool(1, 2048)}: wanted 16, got 0 (0 of them free), 4096000 kB of memory free on node1" in plain(
        run.stdout
    )
    assert "reboot the host and run again" in run.stdout
    assert text(node, pool(0, 2048)) == "0"


def test_a_setting_that_the_kernel_refuses_is_named(node: Sandbox, tmp_path: Path) -> None:
    node.run(f"mount --bind {governor(3)} {governor(3)}; mount -o remount,bind,ro {governor(3)}")
    run = pyinfra(tmp_path, {"node": data(node)}, "-y", "deploys/site.py")
    assert run.returncode == 1
    assert f"{governor(3)}: the kernel refuses the value performance" in plain(run.stdout)


def test_detect_saves_the_snapshot_and_the_plan_here_and_writes_nothing_there(
    node: Sandbox, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run = pyinfra(tmp_path, {"node": data(node)}, "-y", "deploys/detect.py", "--data", f"out={out}")
    assert run.returncode == 0, run.stdout
    assert json.loads((out / "node.snapshot.json").read_text())["kind"] == "numaforge-snapshot"
    assert json.loads((out / "node.plan.json").read_text())["cpus"]["reserved"] == "0,2,4,6"
    assert not node.path("/etc/numaforge").exists()
