"""A boot loader's entries: one is tried once, and the default changes with the confirmation."""

import pytest

from numaforge.change.transaction import Transaction, revert_script, start_script
from numaforge.lib import shell
from numaforge.roles.kernel_cmdline import part as kernel_cmdline
from numaforge.roles.kernel_cmdline.part import DROP_IN as GRUB_DROP_IN
from numaforge.roles.kernel_cmdline.part import RECORD, TRIAL
from numaforge.roles.reboot import part as reboot
from tests.fixtures.tables import cases
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.reboots import CUT_POWER, carried_out, taken_back, through_boots
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_bootloader import (
    CMDLINE,
    ENTRIES,
    ENTRY,
    GRUB_CFG,
    KERNEL,
    MACHINE_ID,
    NEWER,
    OSRELEASE,
    RESCUE,
    boot,
    boots,
    debian,
    install,
    install_kernel,
    options,
    red_hat,
    set_default,
    variables,
)
from tests.ssh.standin_systemd import DROP_IN, STATE, standin_systemd
from tests.ssh.transactions import LARGE, SMALL, WAITS, status, transaction, until, when

WISH = "iommu=pt"
LOADERS = {"grub": debian(), "grubby": red_hat()}
NEWER_ENTRY = f"{ENTRIES}/{MACHINE_ID}-{NEWER}.conf"
LOOK = shell.library(
    "node/boot", "node/fence", "node/look", "roles/kernel_cmdline/look", "roles/reboot/entries"
) + (shell.library("roles/reboot/look"))


@pytest.fixture(params=["grub", "grubby"])
def loader(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int, loader: str) -> Sandbox:
    files = {**machine(), **standin_systemd(port), **LOADERS[loader]}
    sandbox = start_sandbox({**files, LARGE: "1\n", SMALL: "512\n", DROP_IN: "old\n"})
    install(sandbox)
    sandbox.run(f"systemctl start kubelet.service; until [ -e {STATE} ]; do sleep 0.05; done")
    sandbox.run("mkdir -p /run/when /run/systemd/system")
    return sandbox


def change(
    port: int, loader: str, *, not_once: str | None = None, allowed: str = "running", wish: str = WISH
) -> Transaction:
    files, *others = transaction(port, "new").parts
    cmdline = kernel_cmdline.part((wish,), (wish,), (), loader, not_once=not_once)
    return Transaction("T1", (files, cmdline, reboot.part(allowed), *others))


def looked(node: Sandbox, *words: str) -> dict[str, str]:
    """Return what a look of a part says, by its first word."""
    done = node.run(f"{LOOK}\n{' '.join(words)}\n")
    assert done.returncode == 0, done.stderr
    return dict(line.partition(" ")[::2] for line in done.stdout.splitlines())


def booted_into_trial(node: Sandbox, change: Transaction) -> None:
    """Start a change, and boot the node for it, up to the wait for the confirmation."""
    node.run(start_script(change))
    until(node, "[ -e /run/stopping ] && idle")
    boot(node)
    until(node, WAITS)


# ---- one boot on trial ----


def test_old_entry_stays_the_default_until_the_change_is_confirmed(node, port, loader):
    booted_into_trial(node, change(port, loader))
    assert WISH in node.path("/proc/cmdline").read_text().split()
    assert options(node) == CMDLINE
    assert not node.path(RECORD).exists()
    assert through_boots(node).outcome == "applied"
    assert options(node) == f"{CMDLINE} {WISH}"
    assert node.path(RECORD).read_text().splitlines()[1:] == [WISH]
    assert not node.path(TRIAL).exists()
    assert "next_entry" not in variables(node)
    assert "numaforge" not in node.run(f"cat {GRUB_CFG}; ls {ENTRIES}").stdout


@pytest.mark.variants(1)
def test_power_cycle_starts_the_old_entry(node, port, loader):
    when(node, "confirming", CUT_POWER)
    result = carried_out(node, change(port, loader))
    assert result.outcome == "rolled-back", result
    assert result.reason.startswith('the node rebooted during "confirming"')
    assert boots(node) == 2  # the one on trial and the power cycle: none more is needed
    assert options(node) == CMDLINE == node.path("/proc/cmdline").read_text().strip()


@pytest.mark.long
def test_default_changes_before_the_boot_without_one_time_boot_support(node, port, loader):
    node.run(start_script(change(port, loader, not_once="GRUB cannot write to /boot/grub (lvm)")))
    until(node, "[ -e /run/stopping ] && idle")
    assert options(node) == f"{CMDLINE} {WISH}"
    assert through_boots(node).outcome == "applied"
    assert taken_back(node).outcome == "rolled-back"
    assert options(node) == CMDLINE == node.path("/proc/cmdline").read_text().strip()


@pytest.mark.variants(4)
@cases(
    "spoil, said",
    {
        "it-can": (":", None),
        "on-lvm": ("echo lvm > /run/grub-abstraction", "GRUB cannot write to {} (lvm ext2)"),
        "on-btrfs": ("echo btrfs > /run/grub-fs", "GRUB cannot write to {} (btrfs)"),
        "no-environment": ("rm {}/grubenv", "it has no {}/grubenv"),
        "a-menu-of-others": ("sed -i /next_entry/d {}/grub.cfg", "its grub.cfg knows no next_entry"),
        "no-tool": ("rm /usr/local/bin/grub*-editenv", "grub-editenv and grub-probe are missing"),
    },
)
def test_one_time_boot_support_is_detected(node, loader, spoil, said):
    folder = "/boot/grub2" if loader == "grubby" else "/boot/grub"
    node.run(spoil.format(folder))
    answers = looked(node, "look_kernel_cmdline", RECORD, WISH)
    assert answers.get("not-once") == (said.format(folder) if said else None)
    assert ("once" in answers) is (said is None)


def test_boot_loader_of_a_node_with_all_parameters_is_not_queried(node):
    assert {"once", "not-once"} & looked(node, "look_kernel_cmdline", RECORD, "quiet").keys() == set()


# ---- the entry is looked at before the boot ----

SPOILT = {
    "an-initial-ram-disk-that-is-not-there": (
        "s#initrd.img-#initrd.img-none-#",
        "names /boot/initrd.img-none-",
    ),
    "another-root": (
        "s#root=/dev/sda1#root=/dev/sdb1#",
        "has root=/dev/sdb1, and this system runs from root=/dev/sda1",
    ),
    "a-parameter-that-is-lost": (f"s# {WISH}##", f"lacks {WISH}"),
    "no-such-entry": ("s#numaforge-trial#other#", "the boot loader has no entry numaforge-trial"),
}


@pytest.mark.variants(2)
@pytest.mark.parametrize("loader", ["grub"], indirect=True)
@pytest.mark.parametrize(("edit", "said"), SPOILT.values(), ids=SPOILT)
def test_unbootable_entry_is_found_before_the_reboot(node, port, loader, edit, said):
    trial = f"/numaforge-trial/,$ {edit}"
    node.path("/run/spoil-grub-cfg").write_text(f"sed -i '{trial}' {GRUB_CFG}\n")
    result = carried_out(node, change(port, loader))
    assert result.outcome == "rolled-back", result
    assert said in result.reason
    assert boots(node) == 0
    node.path("/run/spoil-grub-cfg").unlink()
    assert options(node) == CMDLINE


# ---- which kernel boots ----


def test_next_boot_starts_the_running_kernel(node):
    assert looked(node, "look_reboot")["next"] == "running"


def test_newer_kernel_of_the_next_boot_is_detected(node):
    install_kernel(node, NEWER)
    answers = looked(node, "look_reboot", "mlx5_core")
    assert (answers["next"], answers["version"], answers["running"]) == ("another", NEWER, KERNEL)
    assert answers["kernel"] == f"/boot/vmlinuz-{NEWER}"


@pytest.mark.parametrize("loader", ["grub"], indirect=True)
@cases(
    "default, expected",
    {
        "the-first": ("0", "another"),
        "a-submenu-starts-with-its-first": ("1", "another"),
        "by-numbers": ("1>1", "running"),
        "by-ids": (f"gnulinux-advanced-1>gnulinux-{KERNEL}-advanced-1", "running"),
        "by-titles": (f"Advanced options for Debian>Debian, with Linux {KERNEL}", "running"),
        "a-number-that-there-is-not-is-the-first": ("9", "another"),
        "saved": ("saved", "running"),
    },
)
def test_default_entry_is_found_as_by_grub(node, default, expected):
    node.path("/etc/default/grub.d").mkdir(parents=True, exist_ok=True)
    node.path("/etc/default/grub.d/50-default.cfg").write_text(f"GRUB_DEFAULT='{default}'\n")
    set_default(node, f"gnulinux-advanced-1>gnulinux-{KERNEL}-advanced-1")
    install_kernel(node, NEWER)
    assert looked(node, "look_reboot")["next"] == expected


@pytest.mark.variants(2)
@pytest.mark.parametrize("shell_of_host", ["dash -s", "bash -s", "busybox sh -s"])
def test_newer_kernel_is_detected_in_every_posix_shell(node, shell_of_host):
    install_kernel(node, NEWER)
    done = node.run(f"{LOOK}\nlook_reboot\n", shell_of_host)
    assert f"version {NEWER}" in done.stdout.splitlines(), (done.stdout, done.stderr)
    assert not done.stderr


def test_entry_chosen_for_the_next_boot_counts_as_the_next_kernel(node, loader):
    install_kernel(node, NEWER)
    old = f"{MACHINE_ID}-{KERNEL}" if loader == "grubby" else "1>1"
    tool = "grub2-editenv /boot/grub2" if loader == "grubby" else "grub-editenv /boot/grub"
    node.run(f"{tool}/grubenv set 'next_entry={old}'")
    assert looked(node, "look_reboot")["next"] == "running"


def test_kernel_installed_after_the_look_is_refused_before_any_change(node, port, loader):
    install_kernel(node, NEWER)
    result = carried_out(node, change(port, loader))
    assert result.outcome == "refused"
    assert f"the boot loader would start /boot/vmlinuz-{NEWER}, and {KERNEL} runs" in result.reason
    assert boots(node) == 0


@pytest.mark.long
def test_allowed_newer_kernel_boots_and_undo_restores_the_old(node, port, loader):
    install_kernel(node, NEWER)
    before = options(node)
    assert carried_out(node, change(port, loader, allowed="any")).outcome == "applied"
    assert node.path(OSRELEASE).read_text().strip() == NEWER
    assert options(node) == f"{before} {WISH}"
    result = taken_back(node)
    assert result.outcome == "rolled-back", result
    assert node.path(OSRELEASE).read_text().strip() == KERNEL
    assert options(node) == before


@pytest.mark.variants(1)
def test_unexpected_kernel_is_rolled_back(node, port, loader):
    node.run(start_script(change(port, loader)))
    until(node, "[ -e /run/stopping ] && idle")
    tool = "grub2-editenv /boot/grub2" if loader == "grubby" else "grub-editenv /boot/grub"
    node.run(f"{tool}/grubenv unset next_entry")
    install_kernel(node, NEWER)
    result = through_boots(node)
    assert (result.outcome, result.reason.split(";")[0]) == (
        "rolled-back",
        f"the kernel {NEWER} was started, not {KERNEL}",
    )
    assert node.path(OSRELEASE).read_text().strip() == KERNEL
    assert boots(node) == 2


# ---- the way back is one of operations ----


@pytest.mark.long
def test_kernel_installed_between_change_and_undo_is_kept(node, port, loader):
    assert carried_out(node, change(port, loader)).outcome == "applied"
    install_kernel(node, NEWER)
    node.run(revert_script("T1", "the node is not Ready", status(node)))
    until(node, "[ -e /run/stopping ]")
    old = f"{MACHINE_ID}-{KERNEL}" if loader == "grubby" else "1>1"
    tool = "grub2-editenv /boot/grub2" if loader == "grubby" else "grub-editenv /boot/grub"
    node.run(f"{tool}/grubenv set 'next_entry={old}'")
    result = through_boots(node)
    assert result.outcome == "rolled-back", result
    assert options(node) == CMDLINE.replace(KERNEL, NEWER)
    assert f"vmlinuz-{NEWER}" in node.run(f"cat {GRUB_CFG} {ENTRIES}/*").stdout
    assert WISH not in node.run(f"cat {GRUB_CFG} {ENTRIES}/*").stdout


@pytest.mark.long
@pytest.mark.parametrize("loader", ["grub"], indirect=True)
def test_edited_grub_drop_in_is_kept_as_a_copy(node, port, loader):
    assert carried_out(node, change(port, loader)).outcome == "applied"
    edited = f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {WISH} debug"\n'
    node.path(GRUB_DROP_IN).write_text(edited)
    assert taken_back(node).outcome == "rolled-back"
    assert not node.path(GRUB_DROP_IN).exists()
    assert node.path(f"/var/lib/numaforge/txn/T1/edited{GRUB_DROP_IN}").read_text() == edited


@pytest.mark.long
def test_boot_entry_with_missing_files_is_reported(node, port, loader):
    assert carried_out(node, change(port, loader)).outcome == "applied"
    node.run(f"rm -f /boot/initr*{KERNEL}*")
    node.run(revert_script("T1", "the node is not Ready", status(node)))
    result = through_boots(node)
    assert result.outcome == "failed"
    assert "an entry of the boot loader names /boot/initr" in result.reason
    assert "By hand: " in result.reason


@pytest.mark.long
@pytest.mark.parametrize("loader", ["grubby"], indirect=True)
def test_entries_of_other_kernels_and_rescue_entries_are_unchanged(node, port, loader):
    install_kernel(node, NEWER)
    set_default(node, f"{MACHINE_ID}-{KERNEL}")
    others = {path: node.path(path).read_text() for path in (RESCUE, NEWER_ENTRY)}
    assert carried_out(node, change(port, loader)).outcome == "applied"
    assert options(node) == f"{CMDLINE} {WISH}"
    assert {path: node.path(path).read_text() for path in others} == others


@pytest.mark.long
@pytest.mark.parametrize("loader", ["grubby"], indirect=True)
@pytest.mark.parametrize("way", ["reverted", "given-up"])
def test_replaced_parameter_gets_its_old_value_back(node, port, loader, way):
    entry = node.path(ENTRY)
    entry.write_text(entry.read_text().replace(" quiet", " quiet iommu=soft"))
    node.path("/proc/cmdline").write_text(f"{CMDLINE} iommu=soft\n")
    assert carried_out(node, change(port, loader)).outcome == "applied"
    assert options(node) == f"{CMDLINE} {WISH}"
    assert node.path(RECORD).read_text().splitlines()[1:] == [f"{WISH} instead-of iommu=soft"]
    if way == "reverted":
        entry.write_text(f"{entry.read_text()}# a comment of a package\n")  # the copy is not of this file
        node.run(revert_script("T1", "the node is not Ready", status(node)))
        until(node, "[ -e /run/stopping ]")
        assert through_boots(node).outcome == "rolled-back"
    else:
        cmdline = kernel_cmdline.part((), (), (WISH,), loader, replaced={WISH: "iommu=soft"})
        files, *others = transaction(port, "new").parts
        node.run(start_script(Transaction("T2", (files, cmdline, reboot.part(), *others))))
        assert through_boots(node, "T2").outcome == "applied"
    assert options(node) == f"{CMDLINE} iommu=soft"
