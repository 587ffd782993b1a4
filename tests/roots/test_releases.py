"""What numaforge writes, read by the programs of each release: Debian's and Ubuntu's own packages.

The kernel's files and systemd's manager are stand-ins; shells, coreutils, udev, PAM, dpkg, irqbalance,
containerd, GRUB's scripts and systemd's own tools are the release's.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lab.roots import Release, build
from numaforge import cli
from numaforge.change.transaction import Transaction, start_script
from numaforge.findings.engine import check
from numaforge.fleet.audit.host_rules import RULES
from numaforge.lib import shell
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.read import read_topology
from numaforge.roles.interrupts.files import INTERRUPTS_PATH, INTERRUPTS_RULES_PATH, INTERRUPTS_SCRIPT_PATH
from numaforge.roles.kernel_cmdline import part as kernel_cmdline
from numaforge.roles.kernel_values.files import TUNING_TMPFILES_PATH
from numaforge.roles.reboot import part as reboot
from tests.fixtures.machines import kubeadm_kubelet
from tests.fixtures.tables import cases
from tests.roots.host import NOTHING, PROFILE, Host, files_of
from tests.ssh.machine import governor, machine
from tests.ssh.reboots import through_boots
from tests.ssh.sandbox import Sandbox, free_port, running_sandbox
from tests.ssh.site_runs import text
from tests.ssh.standin_bootloader import OSRELEASE, options
from tests.ssh.standin_devices import IRQBALANCE_FILE, affinity
from tests.ssh.standin_systemd import DROP_IN, STATE, standin_systemd
from tests.ssh.transactions import LARGE, MEMORY_STATE, SMALL, transaction

UNITS = "/etc/systemd/system/numaforge-*.service"
SWAPPINESS = "/proc/sys/vm/swappiness"


def inventory(host: Host) -> str:
    file = host.folder / "hosts.py"
    file.write_text(f"nodes = {[('node', dict(host.node.data()))]!r}\n")
    return str(file)


def test_release_has_every_required_program(host: Host, capfd: pytest.CaptureFixture[str]) -> None:
    cli.run(["doctor", "-o", "json", inventory(host)])
    rows = {
        row["check"]: row for row in json.loads(capfd.readouterr().out)["checks"] if row["where"] == "node"
    }
    assert rows["programs"]["result"] == "ok", rows["programs"]


def test_second_run_changes_nothing(host: Host) -> None:
    assert "noop: the node is already as planned" in host.provision(PROFILE)


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox sh"])
def test_boot_scripts_run_in_every_shell_of_the_release(host: Host, shell: str) -> None:
    host.node.path(affinity(30)).write_text("0-7\n")
    host.says(f"{shell} {INTERRUPTS_SCRIPT_PATH} {INTERRUPTS_PATH}")
    assert text(host.node, affinity(30)) == "0,4"


def complaints(host: Host) -> list[str]:
    """Return what systemd says of our units and drop-ins; it also says things about the release's own."""
    done = host.node.run(f"systemd-analyze verify --man=no {UNITS} containerd.service irqbalance.service")
    return [line for line in (done.stdout + done.stderr).splitlines() if "numaforge" in line]


def test_systemd_accepts_every_unit_and_drop_in(host: Host) -> None:
    assert complaints(host) == []
    drop_in = host.node.path("/etc/systemd/system/containerd.service.d/91-numaforge.conf")
    drop_in.write_text("[Service]\nLimitNOFILES=1\n")
    found = complaints(host)
    drop_in.unlink()
    assert len(found) == 1
    assert "LimitNOFILES" in found[0]


def test_udev_accepts_the_rules(host: Host) -> None:
    if int(host.says("udevadm --version")) < 254:
        pytest.skip("this udevadm cannot verify rules: systemd 254 is the first")
    host.says(f"udevadm verify {INTERRUPTS_RULES_PATH}")
    assert host.node.run(
        f"sed 's/==/=!/' {INTERRUPTS_RULES_PATH} > /run/bad.rules; udevadm verify /run/bad.rules"
    ).returncode


def test_boot_sets_sysctls_and_kernel_values(host: Host) -> None:
    for path, value in ((SWAPPINESS, "60"), (governor(7), "schedutil")):
        host.node.path(path).write_text(f"{value}\n")
    host.node.run("/usr/lib/systemd/systemd-sysctl || /lib/systemd/systemd-sysctl")
    host.says(f"systemd-tmpfiles --create {TUNING_TMPFILES_PATH}")
    assert (text(host.node, SWAPPINESS), text(host.node, governor(7))) == ("10", "performance")


def test_modprobe_reads_options_and_blocked_modules(host: Host) -> None:
    told = host.says("modprobe --showconfig").splitlines()
    assert {"blacklist nouveau", "install nouveau /bin/false", "options ib_core netns_mode=1"} <= {*told}


def test_login_gets_the_limits(host: Host) -> None:
    limits = host.says("su operator -c 'ulimit -n; ulimit -l; ulimit -c; ulimit -s'").split()
    assert limits == ["4096", "4096", "0", "65536"]


def test_held_packages_are_skipped_by_apt_and_unattended_upgrades(host: Host) -> None:
    assert "containerd" in host.says("apt-mark showhold").split()
    told = host.says("unattended-upgrade --dry-run --debug 2>&1")
    blocked = re.search(r"Initial blacklist: (.*)", told)
    assert blocked
    assert {"containerd$", "containerd[.]io$", "runc$"} <= {*blocked[1].split()}


def balanced(host: Host, environment: str) -> set[int]:
    """Return the CPUs among which the release's irqbalance would balance: it says so before it begins."""
    told = host.node.run(f"{environment}; timeout 10 irqbalance --foreground --debug 2>&1")
    return {int(cpu) for cpu in re.findall(r"CPU number (\d+)", told.stdout)}


def test_irqbalance_reads_its_unit_file_and_uses_only_reserved_cpus(host: Host) -> None:
    folder = "/usr/lib" if host.node.path("/usr/lib/systemd/system/irqbalance.service").exists() else "/lib"
    assert f"EnvironmentFile=-{IRQBALANCE_FILE}" in text(
        host.node, f"{folder}/systemd/system/irqbalance.service"
    )
    assert balanced(host, f"set -a; . {IRQBALANCE_FILE}") == {0, 2, 4, 6}
    assert balanced(host, ":") == {*range(8)}


def test_empty_profile_leaves_no_file(host: Host) -> None:
    host.provision(NOTHING)
    assert files_of(host.node) == host.before
    assert "noop: the node is already as planned" in host.provision(NOTHING)


def test_default_containerd_configuration_is_judged(host: Host, tmp_path: Path) -> None:
    """With a fragment, which containerd 2.2 imports by itself, and 1 only where it is told to."""
    host.says(
        "mkdir -p /etc/containerd/conf.d\n"
        "containerd config default | sed 's/^imports = .*/imports = []/' > /etc/containerd/config.toml\n"
        "grep '^version' /etc/containerd/config.toml > /etc/containerd/conf.d/99.toml\n"
        "setsid containerd > /run/containerd.log 2>&1 < /dev/null &\n"
        "for _ in $(seq 300); do [ ! -S /run/containerd/containerd.sock ] || break; sleep 0.1; done\n"
    )
    assert cli.run(["capture", inventory(host), "--to", str(tmp_path)]) == 0
    machine = read_topology(Snapshot.load(tmp_path / "node.snapshot.json"))
    judged = check(RULES, replace(machine, kubelet=kubeadm_kubelet()))
    verdicts = {each.rule.id: each.verdict for each in judged if each.rule.id.startswith("NH3")}
    runtime = machine.userland and machine.userland.containerd
    assert runtime
    assert runtime.version
    assert verdicts["NH301"] == ("found" if runtime.version.startswith("1.") else "passed")
    assert {verdicts[name] for name in ("NH302", "NH303", "NH304", "NH310", "NH311")} == {"passed"}
    unknown = {name for name, verdict in verdicts.items() if verdict == "unknown"}
    assert unknown == ({"NH307"} if runtime.version.startswith("1.6.") else set())  # NRI came with 1.7


# ---- GRUB ----

PARAMETER = "pci=config_acs=1x111x1@0000:17:00.0;xx000x0@0000:17:02.0"
GRUB_DEFAULTS = 'GRUB_DEFAULT=0\nGRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX=""\n'
PROBE = """#!/bin/sh
case " $* " in
*" --target=device "*) echo /dev/sda1 ;;
*" --target=partmap "*) echo msdos ;;
*" --target=fs "*) echo ext2 ;;
esac
"""


RUNNING, NEWER = "6.12.0-1-amd64", "6.12.0-10-amd64"
LOOK = shell.library("node/boot", "node/fence", "node/look", "roles/reboot/entries", "roles/reboot/look")


@contextmanager
def booted_by_grub(release: Release, folder: Path, port: int) -> Iterator[Sandbox]:
    """Start a node whose kernel was booted from a menu that the release's own update-grub has written."""
    files = {
        **machine(),
        **standin_systemd(port),
        LARGE: "1\n",
        SMALL: "512\n",
        DROP_IN: "old\n",
        "/usr/sbin/grub-probe": PROBE,
        "/etc/default/grub": GRUB_DEFAULTS,
        OSRELEASE: f"{RUNNING}\n",
    }
    with running_sandbox(folder, files, build(release.suite)) as node:
        node.run("mkdir -p /boot/grub; grub-editenv /boot/grub/grubenv create")
        install_real_kernel(node, RUNNING)
        node.path("/proc/cmdline").write_text(f"{options(node)}\n")
        node.run(f"systemctl start kubelet.service; until [ -e {STATE} ]; do sleep 0.05; done")
        node.path(MEMORY_STATE).write_text("memory as it was\n")
        node.run("mkdir -p /run/when /run/systemd/system")
        yield node


def install_real_kernel(node: Sandbox, version: str) -> None:
    done = node.run(f"echo x > /boot/vmlinuz-{version}; echo x > /boot/initrd.img-{version}; update-grub")
    assert done.returncode == 0, done.stderr


def maintained(
    node: Sandbox, port: int, name: str, planned: tuple[str, ...], removed: tuple[str, ...]
) -> str:
    files, *others = transaction(port, "new").parts
    cmdline = kernel_cmdline.part(planned, planned, removed, "grub")
    node.run(start_script(Transaction(name, (files, cmdline, reboot.part(), *others))))
    result = through_boots(node, name)
    assert result.outcome == "applied", result
    return options(node)


def test_grub_scripts_add_and_remove_a_kernel_parameter(release: Release, tmp_path: Path) -> None:
    port = free_port()
    with booted_by_grub(release, tmp_path, port) as node:
        before = options(node)
        assert before.endswith(" quiet")
        assert maintained(node, port, "T1", (PARAMETER,), ()).split() == [*before.split(), PARAMETER]
        assert maintained(node, port, "T2", (), (PARAMETER,)).split() == before.split()


@cases(
    "default, expected",
    {
        "the-first": ("0", "another"),
        "by-numbers": ("1>1", "running"),
        "by-titles": (
            f"Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux {RUNNING}",
            "running",
        ),
        "saved": ("saved", "running"),
    },
)
def test_default_of_two_kernels_is_found_in_the_grub_menu_of_the_release(
    release: Release, tmp_path: Path, default: str, expected: str
) -> None:
    with booted_by_grub(release, tmp_path, free_port()) as node:
        name = "Debian GNU/Linux" if not release.ubuntu else "Ubuntu"
        chosen = default.replace("Debian GNU/Linux", name)
        more = 'GRUB_DISABLE_RECOVERY=true\nGRUB_DISTRIBUTOR="' + name.removesuffix(" GNU/Linux") + '"\n'
        node.path("/etc/default/grub").write_text(
            GRUB_DEFAULTS.replace("GRUB_DEFAULT=0", f'GRUB_DEFAULT="{chosen}"') + more
        )
        install_real_kernel(node, NEWER)
        menu = node.path("/boot/grub/grub.cfg").read_text()
        saved = re.findall(rf"'(gnulinux-(?:advanced|{re.escape(RUNNING)}-advanced)[^']*)'", menu)
        node.run(f"grub-set-default '{'>'.join(saved)}'")
        said = node.run(f"{LOOK}\nlook_reboot\n").stdout.splitlines()
        assert f"next {expected}" in said, (said, menu)


def test_one_time_grub_choice_of_the_release_is_the_next_boot(release: Release, tmp_path: Path) -> None:
    with booted_by_grub(release, tmp_path, free_port()) as node:
        install_real_kernel(node, NEWER)
        node.run("grub-reboot '1>2'")  # entries for recovery stand between
        said = node.run(f"{LOOK}\nlook_reboot\n").stdout.splitlines()
        assert "next running" in said, said
