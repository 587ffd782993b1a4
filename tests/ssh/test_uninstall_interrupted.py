"""A removal that is interrupted is ended by the next run, and leaves no half of it."""

from pathlib import Path

import pytest

from numaforge.change.transaction import CURRENT, TRANSACTIONS
from numaforge.lib.file_content import PLAN_PATH
from numaforge.roles.modules.files import MODPROBE_PATH
from tests.fixtures.shortened import shortened
from tests.ssh.conftest import StartSandbox
from tests.ssh.kubelet_runs import data
from tests.ssh.sandbox import Sandbox, pyinfra
from tests.ssh.site_runs import plain
from tests.ssh.transactions import CUT_POWER, reboot, until, when
from tests.ssh.uninstalls import UNINSTALL, kubeadm_node, left, provision

_REMOVES = """#!/bin/sh
for path; do :; done
if [ "$path" = WHERE ] && [ ! -e /run/interrupted ]; then
    : > /run/interrupted
    if [ PART ]; then /bin/NAME PART; else /bin/NAME "$@"; fi
    kill -KILL $PPID
    exit 1
fi
exec /bin/NAME "$@"
"""


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    return kubeadm_node(start_sandbox, port)


def dies_after(node: Sandbox, program: str, where: str, part: str = "") -> None:
    """Have the shell that removes a path be killed when it has, or when a `part` of it is gone."""
    text = _REMOVES.replace("NAME", program).replace("WHERE", where).replace("PART", part)
    node.path(f"/usr/local/bin/{program}").write_text(text)
    node.path(f"/usr/local/bin/{program}").chmod(0o755)


def uninstall(node: Sandbox, folder: Path) -> tuple[int, str]:
    run = pyinfra(folder, data(node), "-y", UNINSTALL)
    return run.returncode, plain(run.stdout)


def assert_ended_by_the_next_run(node: Sandbox, folder: Path, before: dict[str, str]) -> None:
    code, said = uninstall(node, folder)
    assert code == 0, said
    assert left(node) == before
    code, said = uninstall(node, folder)
    assert (code, said.count("No changes")) == (0, said.count("Starting operation")), said


FORGETS = [
    pytest.param("rm", "/var/lib/numaforge", f"-f {TRANSACTIONS}/last", id="half-of-the-backups"),
    pytest.param("rm", "/var/lib/numaforge", "", id="the-backups"),
    pytest.param("rm", PLAN_PATH, "", id="the-plan"),
    pytest.param("rmdir", "/etc/numaforge", "", id="the-folder-of-the-plan"),
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "where", "part"), shortened(FORGETS, ("half-of-the-backups", "the-plan"))
)
def test_uninstall_killed_after_a_removal_is_finished_by_next_run(node, tmp_path, program, where, part):
    before = left(node)
    provision(node, tmp_path)
    dies_after(node, program, where, part)
    code, _ = uninstall(node, tmp_path)
    assert node.path("/run/interrupted").exists(), "nothing was interrupted"
    assert code == 1
    node.path(f"/usr/local/bin/{program}").unlink()
    assert_ended_by_the_next_run(node, tmp_path, before)


@pytest.mark.long
@pytest.mark.parametrize("step", shortened(["apply files", "prove kubelet"], ("apply files",)))
def test_next_run_completes_an_uninstall_after_a_power_cut(node, tmp_path, step):
    before = left(node)
    provision(node, tmp_path)
    provisioned = without_backups(left(node))
    node.run("mkdir -p /run/when /run/systemd/system")
    when(node, step, CUT_POWER)
    uninstall(node, tmp_path)
    assert not node.path(f"/run/when/{step}").exists()
    reboot(node)
    until(node, f"idle && [ ! -L {CURRENT} ]")
    assert without_backups(left(node)) == provisioned
    assert_ended_by_the_next_run(node, tmp_path, before)


@pytest.mark.long
def test_settings_pending_a_reboot_keep_their_records(node, tmp_path):
    provision(node, tmp_path)
    node.path(MODPROBE_PATH).parent.mkdir(exist_ok=True)
    node.path(MODPROBE_PATH).write_text("# Written by numaforge.\nblacklist nouveau\n")
    code, said = uninstall(node, tmp_path)
    assert code == 1
    assert "pending: module nouveau: no longer kept out; maintenance.reboot is never" in said
    assert f"{MODPROBE_PATH}: not taken back yet, because it waits for a reboot" in said
    assert node.path(PLAN_PATH).exists()


def without_backups(files: dict[str, str]) -> dict[str, str]:
    """Return files without kept copies; metrics are written again at each start, and count by name."""
    return {
        path: "metrics" if path.endswith(".prom") else checksum
        for path, checksum in files.items()
        if not path.startswith("var/lib/numaforge")
    }
