"""pyinfra over a real sshd: what a run writes, what it refuses, and that a host that fails fails alone."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from numaforge.roles.kernel_values.files import TUNING_UNIT_PATH
from tests.fixtures.tables import cases
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import CPUS, governor, machine, pool
from tests.ssh.sandbox import Sandbox, free_port, pyinfra, succeed
from tests.ssh.site_runs import PLAN, PROFILE, data, plain, text
from tests.ssh.standin_kernel import memory_of_both_sizes
from tests.ssh.standin_systemd import standin_systemd


@pytest.fixture
def node(start_sandbox: StartSandbox) -> Sandbox:
    return start_sandbox(machine())


def test_site_writes_every_file_and_applies_every_value_of_the_plan(node, tmp_path):
    succeed(tmp_path, {"node": data(node)}, "-y", "deploys/site.py")
    files = json.loads(node.path(PLAN).read_text())["files"]
    assert len(files) == 5
    for file in files:
        status = node.path(file["path"]).stat()
        assert (f"{status.st_mode & 0o7777:04o}", status.st_uid) == (file["mode"], 0), file["path"]
    assert {text(node, governor(cpu)) for cpu in CPUS} == {"performance"}
    assert text(node, "/proc/sys/vm/swappiness") == "1"
    assert text(node, "/proc/sys/kernel/numa_balancing") == "0"
    assert [text(node, pool(number, 2048)) for number in (0, 1)] == ["16", "16"]


MACHINE_POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"


@pytest.fixture
def without_numa(start_sandbox: StartSandbox) -> Sandbox:
    """Return a host whose kernel shows no NUMA nodes."""
    files = {
        path: text for path, text in machine().items() if not path.startswith("/sys/devices/system/node")
    }
    pools = {
        f"/sys/kernel/mm/hugepages/hugepages-{kib}kB/{name}_hugepages": "0\n"
        for kib in (2048, 2**20)
        for name in ("nr", "free", "surplus")
    }
    return start_sandbox({**files, **pools})


def with_pages(count: int) -> dict[str, Any]:
    return {**PROFILE, "cpus": {"reserved": {"cores": 1}}, "hugepages": [{"size": "2Mi", "count": count}]}


@pytest.mark.long
def test_kernel_without_numa_nodes_gains_and_releases_huge_pages(without_numa, tmp_path):
    node, boot = without_numa, "/etc/tmpfiles.d/numaforge-hugepages.conf"
    succeed(tmp_path, {"node": data(node, with_pages(16))}, "-y", "deploys/site.py")
    assert text(node, MACHINE_POOL) == "16"
    assert text(node, boot).splitlines()[-1] == f"w {MACHINE_POOL} - - - - 16"
    none = {**with_pages(16), "hugepages": []}
    succeed(tmp_path, {"node": data(node, none)}, "-y", "deploys/site.py")
    assert text(node, MACHINE_POOL) == "0"


def test_unfillable_pages_on_a_kernel_without_numa_nodes_are_undone(without_numa, tmp_path):
    node = without_numa
    memory_of_both_sizes(node, 1)
    run = pyinfra(tmp_path, {"node": data(node, with_pages(600))}, "-y", "deploys/site.py")
    assert run.returncode == 1, run.stdout
    assert f"{MACHINE_POOL}: wanted 600, got 512" in plain(run.stdout)
    assert "of memory free on the machine" in plain(run.stdout)
    assert text(node, MACHINE_POOL) == "0"


def test_tuning_a_node_with_pods_reloads_no_units(start_sandbox, tmp_path):
    node = start_sandbox({**machine(), **standin_systemd(free_port())})
    node.run("mkdir -p /run/systemd/system; rm /usr/local/bin/kubelet; : > /run/systemctl.log")
    succeed(tmp_path, {"node": data(node)}, "-y", "deploys/tune.py")
    link = node.path(f"/etc/systemd/system/multi-user.target.wants/{Path(TUNING_UNIT_PATH).name}")
    assert str(link.readlink()) == TUNING_UNIT_PATH
    told = text(node, "/run/systemctl.log").splitlines()
    assert [line for line in told if not line.startswith("show ")] == []


def test_second_run_changes_nothing(node, tmp_path):
    hosts = {"node": data(node)}
    pyinfra(tmp_path, hosts, "-y", "deploys/site.py")
    node.run("touch /run/now")
    again = pyinfra(tmp_path, hosts, "-y", "-v", "deploys/site.py")
    assert again.returncode == 0
    assert plain(again.stdout).count("No changes") == plain(again.stdout).count("Starting operation")
    assert "noop: the node is already as planned" in plain(again.stdout)
    assert node.run("find /etc /var/lib /sys /proc/sys -newer /run/now -type f").stdout == ""


@pytest.mark.long
def test_intermediate_change_is_seen_by_later_roles(node, tmp_path):
    hosts = {"node": data(node)}
    pyinfra(tmp_path, hosts, "-y", "deploys/site.py")
    deploy = tmp_path / "deploy.py"
    deploy.write_text(
        "from pyinfra.operations import server\n"
        "from numaforge.run.roles import hugepages\nfrom numaforge.run.topology import topology\n"
        "from numaforge.run.roles import tuning\n"
        "topology()\n"
        f"server.shell(commands='echo 3 > {pool(0, 2048)}')\n"
        "tuning()\n"
        "hugepages()\n"
    )
    succeed(tmp_path, hosts, "-y", str(deploy))
    assert text(node, pool(0, 2048)) == "16"


def test_limit_is_raised_but_never_lowered(node, tmp_path):
    limit = "/proc/sys/vm/max_map_count"
    hosts = {"node": data(node, {**PROFILE, "tuning": {"sysctls": {"vm.max_map_count": 1048576}}})}
    pyinfra(tmp_path, hosts, "-y", "deploys/site.py")
    assert text(node, limit) == "1048576"
    node.path(limit).write_text("2097152\n")
    succeed(tmp_path, hosts, "-y", "deploys/site.py")
    assert text(node, limit) == "2097152"


def test_dry_run_shows_every_file_diff_once_and_writes_nothing(node, tmp_path):
    run = succeed(tmp_path, {"node": data(node)}, "--dry", "--diff", "deploys/site.py")
    for path in (PLAN, "/etc/sysctl.d/90-numaforge.conf", "/etc/tmpfiles.d/numaforge-hugepages.conf"):
        assert run.stdout.count(f"+++ {path} (planned)") == 1
    assert "+vm.swappiness = 1" in run.stdout
    assert "\x1b" not in run.stdout, "colours are for a terminal"
    assert re.search(r"cpus 0-7 scaling_governor +schedutil -> performance", run.stdout), run.stdout
    assert not node.path(PLAN).exists()
    assert text(node, governor(0)) == "schedutil"


def test_changed_file_is_shown_as_a_diff_and_backed_up(node, tmp_path):
    hosts = {"node": data(node)}
    pyinfra(tmp_path, hosts, "-y", "deploys/site.py")
    path = "/etc/sysctl.d/90-numaforge.conf"
    node.path(path).write_text("vm.swappiness = 42\n")
    assert "-vm.swappiness = 42" in pyinfra(tmp_path, hosts, "--dry", "--diff", "deploys/site.py").stdout
    pyinfra(tmp_path, hosts, "-y", "deploys/site.py")
    backups = node.run(f"cat /var/lib/numaforge/txn/*/backup{path} 2> /dev/null").stdout
    assert backups == "vm.swappiness = 42\n"


def test_login_without_root_uses_passwordless_sudo(node, tmp_path):
    succeed(tmp_path, {"node": data(node, user="deployer")}, "-y", "deploys/site.py")
    assert node.path(PLAN).stat().st_uid == 0


@pytest.mark.variants(3)
@cases(
    "change, message",
    {
        "unknown-key": ({"numaforge_profile": {"cpuz": {}}}, r"cpuz"),
        "more-hugepages-than-memory": (
            {"numaforge_profile": {**PROFILE, "hugepages": [{"size": "1Gi", "count_per_numa_node": 64}]}},
            r"64",
        ),
        "no-sudo": ({"ssh_user": "operator"}, r"ssh_user: the login user is not root"),
    },
)
@pytest.mark.parametrize("mode", ["-y", "--dry"])
def test_bad_host_fails_alone_with_one_message(start_sandbox, tmp_path, change, message, mode):
    bad, good = start_sandbox(machine()), start_sandbox(machine())
    hosts = {"bad": {**data(bad), **change}, "good": data(good)}
    run = pyinfra(tmp_path, hosts, mode, "deploys/site.py")
    output = plain(run.stdout)
    assert run.returncode == 1, output
    assert re.search(rf"1 host refused: bad\n.*{message}", output), output
    assert "Traceback" not in output
    assert not bad.path(PLAN).exists()
    assert good.path(PLAN).exists() is (mode == "-y")


def test_truncated_detection_changes_nothing(start_sandbox, tmp_path):
    node = start_sandbox({**machine(), "/usr/local/bin/wc": "#!/bin/sh\nkill -9 $PPID\n"})
    run = pyinfra(tmp_path, {"node": data(node)}, "-y", "deploys/site.py")
    assert run.returncode == 1
    assert "Traceback" not in run.stdout
    assert not node.path(PLAN).exists()


def test_detect_saves_snapshot_and_plan_locally_and_writes_nothing_remotely(node, tmp_path):
    out = tmp_path / "out"
    succeed(tmp_path, {"node": data(node)}, "-y", "deploys/detect.py", "--data", f"out={out}")
    assert json.loads((out / "node.snapshot.json").read_text())["kind"] == "numaforge-snapshot"
    assert json.loads((out / "node.plan.json").read_text())["cpus"]["reserved"] == "0,2,4,6"
    assert {path.stat().st_mode & 0o777 for path in out.iterdir()} == {0o600}
    assert not node.path("/etc/numaforge").exists()


# ---- the way back ----

RECORD = "/etc/numaforge/kernel-values"
TUNED: dict[str, Any] = {
    **{key: value for key, value in PROFILE.items() if key != "hugepages"},
    "tuning": {
        "governor": "performance",
        "numa_balancing": False,
        "sysctls": {"vm.swappiness": 1, "vm.max_map_count": 1048576},
        "transparent_hugepages": {"enabled": "always", "defrag": "never"},
        "swap": "off",
    },
}
EMPTY: dict[str, Any] = {"name": "empty"}


def residue(node: Sandbox) -> dict[str, str]:
    """Return what a host shows of its settings: values of the kernel, files and links below /etc and /usr."""
    shown = node.run(  # a switch is a plain file here, and shows nothing but what was written last
        "cd /; ours='etc/systemd etc/sysctl.d etc/tmpfiles.d etc/numaforge var/lib/numaforge/lib';"
        "for switch in sys/kernel/mm/transparent_hugepage/*; do"
        "  sed -i 's/.*\\[\\(.*\\)\\].*/\\1/' $switch; done;"
        "find sys proc/sys $ours -type f ! -path 'etc/numaforge/plan.json' -exec sha256sum {} + 2> /dev/null;"
        "find $ours -type l -printf '%l %p\\n' 2> /dev/null;"
        "cat proc/swaps"
    ).stdout
    return {line.split(maxsplit=1)[1]: line.split(maxsplit=1)[0] for line in shown.splitlines()}


def test_empty_profile_restores_the_host_to_before_the_first_run(node, tmp_path):
    before = residue(node)
    for profile in (TUNED, {**TUNED, "tuning": {"governor": "schedutil", "sysctls": {"vm.swappiness": 5}}}):
        run = pyinfra(tmp_path, {"node": data(node, profile)}, "-y", "deploys/site.py")
        assert run.returncode == 0, run.stdout
        assert residue(node) != before
    dry = pyinfra(tmp_path, {"node": data(node, EMPTY)}, "--dry", "deploys/site.py")
    assert re.search(r"vm.swappiness +5 -> 60, as before numaforge", plain(dry.stdout)), dry.stdout
    succeed(tmp_path, {"node": data(node, EMPTY)}, "-y", "deploys/site.py")
    assert residue(node) == before
    again = pyinfra(tmp_path, {"node": data(node, EMPTY)}, "-y", "-v", "deploys/site.py")
    assert "noop: the node is already as planned" in plain(again.stdout)


SWAP = "/var/swapfile"
SWAP_LINE = f"{SWAP}\tfile\t1048572\t0\t{{}}\n"
SWAP_TOOLS = {
    "/usr/local/bin/swapoff": "#!/bin/sh\nsed -i 2d /run/swaps; cat /run/swaps > /proc/swaps\n",
    "/usr/local/bin/swapon": '#!/bin/sh\npriority=-2\n[ "$1" != -p ] || { priority=$2; shift 2; }\n'
    "printf '%s\\tfile\\t1048572\\t0\\t%s\\n' \"$1\" $priority >> /proc/swaps\n",
}


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "priority", ["-2", "100"], ids=["the kernel's own priority", "a priority of its own"]
)
def test_swap_turned_off_is_restored(start_sandbox, tmp_path, priority):
    node = start_sandbox({**machine(), **SWAP_TOOLS, SWAP: ""})
    swaps = text(node, "/proc/swaps") + "\n" + SWAP_LINE.format(priority)
    node.path("/proc/swaps").write_text(swaps)
    node.path("/run/swaps").write_text(swaps)
    pyinfra(tmp_path, {"node": data(node, TUNED)}, "-y", "deploys/site.py")
    assert SWAP not in text(node, "/proc/swaps")
    succeed(tmp_path, {"node": data(node, EMPTY)}, "-y", "deploys/site.py")
    assert node.path("/proc/swaps").read_text() == swaps


def test_restore_refused_by_the_kernel_rolls_everything_back(node, tmp_path):
    pyinfra(tmp_path, {"node": data(node, TUNED)}, "-y", "deploys/site.py")
    tuned = residue(node)
    node.run(f"mount --bind {governor(3)} {governor(3)}; mount -o remount,bind,ro {governor(3)}")
    run = pyinfra(tmp_path, {"node": data(node, EMPTY)}, "-y", "deploys/site.py")
    assert run.returncode == 1
    assert f"{governor(3)}: the kernel refuses the value schedutil" in plain(run.stdout)
    assert residue(node) == tuned


def powered() -> dict[str, str]:
    """Return a machine with sleep states but on CPU 7, a switch for turbo, khugepaged and KSM."""
    cpu = "/sys/devices/system/cpu"
    states = {
        f"{cpu}/cpu{number}/cpuidle/state{index}/{key}": value
        for number in CPUS
        if number != 7
        for index, (name, latency) in enumerate((("POLL", "0"), ("C1", "2"), ("C6", "170")))
        for key, value in (("name", name), ("latency", latency), ("disable", "0"))
    }
    return {
        **machine(),
        **{path: f"{text}\n" for path, text in states.items()},
        f"{cpu}/intel_pstate/no_turbo": "0\n",
        "/sys/kernel/mm/ksm/run": "1\n",
        "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag": "1\n",
        "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan": "4096\n",
        "/proc/sys/fs/inotify/max_user_watches": "8192\n",
        "/proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
        "/proc/sys/net/core/somaxconn": "4096\n",
    }


POWERED: dict[str, Any] = {
    "name": "powered",
    "tuning": {
        "cpu_idle": {"max_latency_us": 10},
        "turbo": False,
        "ksm": False,
        "transparent_hugepages": {"khugepaged": {"defrag": False, "pages_to_scan": 512}},
        "sysctl_sets": ["training", "fabric"],
    },
}


def test_sleep_turbo_and_sets_are_applied_persisted_and_restored(start_sandbox, tmp_path):
    node = start_sandbox(powered())
    before = {path: text(node, path) for path in powered() if path.startswith(("/sys", "/proc/sys"))}
    succeed(tmp_path, {"node": data(node, POWERED)}, "-y", "deploys/site.py")
    after = {path: text(node, path) for path in before}
    changed = {path: value for path, value in after.items() if value != before[path]}
    cpu = "/sys/devices/system/cpu"
    expected = {
        **{f"{cpu}/cpu{number}/cpuidle/state2/disable": "1" for number in range(7)},
        f"{cpu}/intel_pstate/no_turbo": "1",
        "/sys/kernel/mm/ksm/run": "0",
        "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag": "0",
        "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan": "512",
        "/proc/sys/fs/inotify/max_user_watches": "524288",
        "/proc/sys/net/ipv4/tcp_rmem": "4096 131072 268435456",
        "/proc/sys/vm/max_map_count": "1048576",
        "/proc/sys/vm/swappiness": "1",
    }
    assert changed == expected
    at_boot = "".join(
        text(node, path)
        for path in (
            "/etc/tmpfiles.d/numaforge-tuning.conf",
            "/etc/sysctl.d/90-numaforge.conf",
            TUNING_UNIT_PATH,
        )
    )
    assert [path for path in expected if path not in at_boot and not path.startswith("/proc/sys")] == []
    succeed(tmp_path, {"node": data(node, EMPTY)}, "-y", "deploys/site.py")
    back = {path: " ".join(text(node, path).split()) for path in before}
    assert back == {path: " ".join(value.split()) for path, value in before.items()}
    assert not node.path(RECORD).exists()
