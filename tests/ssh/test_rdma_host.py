"""Modules, NICs and limits of a host: applied, kept over a boot, put back, whole at every boundary."""

from pathlib import Path
from typing import Any

import pytest

from numaforge.change.transaction import Transaction, start_script
from numaforge.lib import shell
from numaforge.lib.file_content import FileContent
from numaforge.node.bundle import FileChange
from numaforge.roles.files import part as files
from numaforge.roles.host.memlock.files import memlock_path
from numaforge.roles.kubelet import part as kubelet
from numaforge.roles.modules import part as modules
from numaforge.roles.modules.files import MODPROBE_PATH, MODULES_LOAD_PATH
from numaforge.roles.rdma.nics import part as nics
from numaforge.roles.rdma.nics.files import NICS_PATH, NICS_SCRIPT_PATH, NICS_UNIT_PATH
from numaforge.roles.rdma.nics.part import LINKS
from numaforge.roles.rdma.planned import RDMA_GATE_SCRIPT_PATH, NicSetting
from numaforge.roles.reboot import part as reboot
from tests.fixtures.machines import KUBEADM_CONFIG
from tests.fixtures.tables import cases
from tests.ssh.conftest import StartSandbox
from tests.ssh.kubelet_runs import KUBELET_WAIT
from tests.ssh.machine import machine
from tests.ssh.parts.rdma_host import NEW, OLD, assert_old, change, limit, settings, start_node
from tests.ssh.rdma_hosts import BARE
from tests.ssh.sandbox import Sandbox, pyinfra, succeed
from tests.ssh.site_runs import plain
from tests.ssh.standin_bootloader import boot
from tests.ssh.standin_rdma import (
    ADDRESS,
    CONFIG,
    DEVICE_CONTROL,
    INTERFACE,
    drives,
    install,
    loaded,
    standin_rdma,
)
from tests.ssh.standin_systemd import standin_systemd
from tests.ssh.transactions import ended, reverted, run, until, when
from tests.ssh.verifying import verified

pytestmark = pytest.mark.core(
    "test_rdma_modules_and_settings_follow_the_profile",
    "test_settings_dropped_from_the_profile_are_restored_without_residue",
    "test_driver_of_our_own_connection_is_not_kept_out",
    "test_failing_step_restores_the_previous_state",
    "test_module_in_use_stays_loaded_and_is_reported",
    "test_modules_are_unloaded_one_at_a_time",
    "test_gate_opens_once_the_virtual_functions_exist",
)
HOST: dict[str, Any] = {
    "modules": ["ib_umad", "rdma_ucm"],
    "max_read_request": 4096,
    "trust": "dscp",
    "pfc": [3],
    "wait_for_virtual_functions": {"timeout_seconds": 5},
}
PROFILE = {**BARE, "rdma": {"host": HOST}}
MODE = "/sys/module/ib_core/parameters/netns_mode"
RUNTIME = "containerd.service"


@pytest.fixture
def bare(start_sandbox: StartSandbox) -> Sandbox:
    """A host with a NIC, and without a kubelet."""
    sandbox = start_sandbox({**machine(), **standin_rdma()})
    install(sandbox)
    return sandbox


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    return start_node(start_sandbox, port)


def data(node: Sandbox, profile: object = PROFILE, user: str = "root") -> dict[str, Any]:
    return {"node": {**node.data(user), "numaforge_profile": profile}}


def files_below(node: Sandbox, *folders: str) -> set[str]:
    return set(
        node.run(f"find {' '.join(folders)} -newer /run/started \\( -type f -o -type l \\)").stdout.split()
    )


# ---- over pyinfra ----


def test_rdma_modules_and_settings_follow_the_profile(bare, tmp_path):
    succeed(tmp_path, data(bare), "-y", "deploys/rdma.py")
    assert loaded(bare) >= {"ib_umad", "rdma_ucm", "rdma_cm", "ib_uverbs", "ib_core"}
    assert settings(bare) == NEW
    assert bare.path(MODULES_LOAD_PATH).read_text().splitlines()[1:] == ["ib_umad", "rdma_ucm"]
    assert all(bare.path(link).is_symlink() for link in LINKS.values())


def test_other_bits_of_config_space_stay_and_the_function_is_not_reset(bare, tmp_path):
    config = bytearray(bare.path(CONFIG).read_bytes())
    config[DEVICE_CONTROL + 1] |= 0x80  # as the kernel reads it; written, it resets the function
    bare.path(CONFIG).write_bytes(config)
    before = bytes(config)
    pyinfra(tmp_path, data(bare), "-y", "deploys/rdma.py")
    after = bare.path(CONFIG).read_bytes()
    assert [place for place in range(256) if before[place] != after[place]] == [DEVICE_CONTROL + 1]
    assert (before[DEVICE_CONTROL + 1], after[DEVICE_CONTROL + 1]) == (0xA9, 0x59)


def test_settings_dropped_from_the_profile_are_restored_without_residue(bare, tmp_path):
    before = loaded(bare)
    bare.run("touch /run/started")
    pyinfra(tmp_path, data(bare, BARE), "-y", "deploys/rdma.py")
    untouched = files_below(bare, "/etc", "/var/lib/numaforge/lib")
    pyinfra(tmp_path, data(bare), "-y", "deploys/rdma.py")
    succeed(tmp_path, data(bare, BARE), "-y", "deploys/rdma.py")
    assert settings(bare) == OLD
    assert loaded(bare) == before
    assert files_below(bare, "/etc", "/var/lib/numaforge/lib") == untouched


def test_module_loaded_by_the_host_itself_stays(bare, tmp_path):
    bare.run("modprobe ib_umad")
    pyinfra(tmp_path, data(bare), "-y", "deploys/rdma.py")
    pyinfra(tmp_path, data(bare, BARE), "-y", "deploys/rdma.py")
    assert loaded(bare) >= {"ib_umad", "ib_core"}
    assert "rdma_ucm" not in loaded(bare)


def test_boot_restores_lost_settings(bare, tmp_path):
    pyinfra(tmp_path, data(bare), "-y", "deploys/rdma.py")
    bare.run("rm -r /run/dcb /run/trust")
    install_again = bare.path(CONFIG).read_bytes()
    bare.path(CONFIG).write_bytes(
        install_again[: DEVICE_CONTROL + 1] + b"\x29" + install_again[DEVICE_CONTROL + 2 :]
    )
    assert settings(bare) == OLD
    unit = bare.path(NICS_UNIT_PATH).read_text()
    assert "\nBefore=kubelet.service\n" in unit
    command = next(line for line in unit.splitlines() if line.startswith("ExecStart=")).removeprefix(
        "ExecStart="
    )
    for interpreter in ("dash", "busybox sh", "bash --posix"):
        done = bare.run(command.replace("/bin/sh", interpreter))
        assert (done.returncode, done.stderr) == (0, ""), interpreter
        assert settings(bare) == NEW


def test_setting_without_its_tool_is_skipped_and_reported(bare, tmp_path):
    bare.path("/usr/local/bin/mlnx_qos").unlink()
    done = succeed(tmp_path, data(bare), "-y", "deploys/rdma.py")
    assert f"left alone: trust of {INTERFACE}, which takes mlnx_qos" in plain(done.stdout)
    at_boot = bare.run(f"sh {NICS_SCRIPT_PATH} apply {NICS_PATH}")
    assert (at_boot.returncode, at_boot.stderr) == (0, f"{INTERFACE}: trust unchanged, for lack of a tool\n")


@pytest.mark.variants(2)
@pytest.mark.parametrize("user", ["root", "deployer"])
@pytest.mark.parametrize("mode", ["-y", "--dry"])
def test_driver_of_our_own_connection_is_not_kept_out(bare, tmp_path, user, mode):
    drives(bare, "lo")  # where this very sshd listens
    wish = {**BARE, "modules": {"blocked": ["mlx5_core"]}}
    done = pyinfra(tmp_path, data(bare, wish, user), mode, "deploys/rdma.py")
    assert done.returncode == 1
    assert "module mlx5_core: must not be loaded, and lo needs it, which has our own connection" in plain(
        done.stdout
    )
    assert "Traceback" not in done.stdout
    assert not bare.path(MODPROBE_PATH).exists()


def test_change_that_needs_a_forbidden_reboot_is_pending(bare, tmp_path):
    bare.run(
        "modprobe ib_core; echo N > "
        + MODE
        + "; touch /run/rdma-busy; mkdir -p /run/netns; touch /run/netns/a"
    )
    wish = {**BARE, "modules": {"blocked": ["mlx5_core"]}, "rdma": {"host": {"netns": "shared"}}}
    done = succeed(tmp_path, data(bare, wish), "-y", "deploys/rdma.py")
    said = "pending: module ib_core: netns_mode=1, module mlx5_core: kept out; maintenance.reboot is never"
    assert said in plain(done.stdout)
    assert not bare.path(MODPROBE_PATH).exists(), "what no boot has proved must not stop the next one"
    again = pyinfra(tmp_path, data(bare, wish), "-y", "-v", "deploys/rdma.py")
    assert "noop: the node is already as planned" in plain(again.stdout), again.stdout


# ---- as a transaction, with faults ----


@pytest.mark.variants(1)
@cases(
    "spoil, reason",
    {
        "the-module-does-not-load": (
            "sed -i /ib_umad/d /run/modules",
            "the module ib_umad could not be loaded: modprobe: FATAL: Module ib_umad not found",
        ),
        "the-nic-refuses": ("touch /run/refuse-pfc", f"{INTERFACE}: pfc is none, and 3 is not accepted"),
        "config-space-is-locked": (
            f"mount --bind {CONFIG} {CONFIG}; mount -o remount,bind,ro {CONFIG}",
            f"{ADDRESS}: max_read_request is 512, and 4096 is not accepted",
        ),
        "the-runtime-fails": (f"touch /run/broken/{RUNTIME}", f"systemctl restart {RUNTIME} failed"),
    },
)
def test_failing_step_restores_the_previous_state(node, spoil, reason):
    node.run(f"mkdir -p /run/broken; {spoil}")
    result = run(node, change())
    assert result.outcome in ("rolled-back", "failed"), result
    assert result.reason.startswith(reason), result.reason
    assert settings(node) == OLD
    assert loaded(node) == {"mlx5_core"}


def test_change_fails_when_memlock_limit_stays_overridden(node):
    when(node, "start memlock", f"rm {memlock_path(RUNTIME)}")
    result = run(node, change())
    assert result.outcome == "rolled-back"
    assert result.reason.startswith(f"{RUNTIME} has LimitMEMLOCK=65536 and its process 65536, not infinity")
    assert_old(node)


def test_module_in_use_stays_loaded_and_is_reported(node):
    run(node, change())
    node.path("/run/busy").write_text("ib_core\n")
    result = reverted(node, "the node is not Ready")
    assert (result.outcome, "the module ib_core" in result.reason) == ("rolled-back", True), result
    assert loaded(node) == {"mlx5_core", "ib_core"}


def test_modules_are_unloaded_one_at_a_time(node):
    run(node, change())
    reverted(node, "why")
    assert node.path("/run/rmmod.log").read_text().split() == ["ib_umad", "ib_core"]


def test_shared_rdma_mode_is_set_without_a_boot(node):
    node.run(f"modprobe ib_core; echo N > {MODE}")
    asked = Transaction("T1", (modules.part([], [], netns="shared"),))
    assert run(node, asked).outcome == "applied"
    assert node.path(MODE).read_text() == "Y\n"
    assert reverted(node, "why").outcome == "rolled-back"
    assert node.path(MODE).read_text() == "N\n"


def test_removed_card_leaves_nothing_to_restore(node):
    gone = NicSetting("0000:99:00.0", "max_read_request", "512")
    assert run(node, Transaction("T1", (nics.part((), [gone]),))).outcome == "applied"
    assert not node.path(nics.RECORD).exists()


# ---- options that only a boot brings ----


def kept_out_at_boot() -> Transaction:
    written = FileContent(MODPROBE_PATH, "blacklist nouveau\ninstall nouveau /bin/false\n")
    return Transaction(
        "T1",
        (
            files.part([FileChange(MODPROBE_PATH, None, written)]),
            modules.part([], [], ["blocked nouveau"]),
            reboot.part(),
            kubelet.part("kubelet.service", restart=False),
        ),
    )


def test_unloaded_module_is_still_kept_out_by_a_boot(node):
    node.run(start_script(kept_out_at_boot()))
    until(node, "[ -e /run/stopping ] && idle")
    boot(node, deaf=True)
    assert ended(node).outcome == "applied"
    assert node.path(MODPROBE_PATH).exists()


def test_module_that_the_node_depends_on_stays_loaded(node):
    """A transaction has no connection of its own: systemd runs it."""
    asked = Transaction("T1", (modules.part([], ["mlx5_core"], vital=["mlx5_core lo connection"]),))
    result = run(node, asked)
    assert result.outcome == "applied", result
    assert "the module mlx5_core (the node depends on it) stays loaded until a boot" in result.reason
    assert "mlx5_core" in loaded(node)


# ---- beside a kubelet ----

UNLIMITED = {**BARE, "rdma": {"host": {"memlock": "unlimited"}}}


@pytest.fixture
def worker(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A node as kubeadm leaves it, its runtime and its kubelet running with a limit of 64 KiB."""
    unit = "[Service]\nExecStart=/usr/local/bin/kubelet --config=/var/lib/kubelet/config.yaml\n"
    sandbox = start_sandbox(
        {
            **machine(),
            **standin_rdma(standin_systemd(port)),
            "/var/lib/kubelet/config.yaml": KUBEADM_CONFIG.replace("10248", str(port)),
            "/usr/lib/systemd/system/kubelet.service": unit,
        }
    )
    install(sandbox)
    sandbox.run("mkdir -p /run/services /run/systemd/system")
    sandbox.path(f"/run/services/{RUNTIME}").write_text("exec sleep 1000\n")
    healthy = f"curl -fs http://127.0.0.1:{port}/"
    sandbox.run(
        f"systemctl start {RUNTIME}; systemctl start kubelet.service; until {healthy}; do sleep 0.05; done"
    )
    return sandbox


def kubelet_limit(node: Sandbox) -> str:
    text = node.run("cat /proc/$(cat /run/kubelet.pid)/limits").stdout
    return text.split()[3]


def patient(node: Sandbox, profile: object) -> dict[str, Any]:
    return {"node": {**data(node, profile)["node"], **KUBELET_WAIT}}


def test_memlock_limit_restarts_runtime_and_kubelet_when_set_and_removed(worker, tmp_path):
    done = succeed(tmp_path, patient(worker, UNLIMITED), "-y", "deploys/rdma.py")
    assert "the kubelet restarts, because this changes:" in plain(done.stdout)
    assert (limit(worker), kubelet_limit(worker)) == ("unlimited", "unlimited")
    again = pyinfra(tmp_path, patient(worker, UNLIMITED), "-y", "-v", "deploys/rdma.py")
    assert "noop: the node is already as planned" in plain(again.stdout), again.stdout
    succeed(tmp_path, patient(worker, BARE), "-y", "deploys/rdma.py")
    assert (limit(worker), kubelet_limit(worker)) == ("65536", "65536")
    assert not worker.path(memlock_path("kubelet.service")).exists()


def test_memlock_limit_does_not_change_beside_a_running_kubelet(worker, tmp_path):
    deploy = tmp_path / "deploy.py"
    deploy.write_text(
        "from numaforge.run.roles import rdma\nfrom numaforge.run.topology import topology\n"
        "topology()\nrdma()\n"
    )
    done = pyinfra(tmp_path, patient(worker, UNLIMITED), "-y", str(deploy))
    assert done.returncode == 1
    assert "kubelet.service: the limit on the memory that the kubelet may pin changes" in plain(done.stdout)
    assert not worker.path(memlock_path(RUNTIME)).exists()


# ---- verified ----


def verify(node: Sandbox, folder: Path) -> dict[str, str]:
    """Hold the host to its plan; return the outcome of each promise of modules, limits and NICs."""
    return {case.name: case.outcome for case in verified(node, folder, "--roles=modules,rdma")}


def test_suite_finds_every_deviation_from_the_plan(bare, tmp_path):
    pyinfra(tmp_path, data(bare), "-y", "deploys/rdma.py")
    nic = f"test_nic_setting[ssh://node-{ADDRESS}-max_read_request]"
    module = "test_module[ssh://node-ib_umad]"
    sound = verify(bare, tmp_path)
    assert (sound[nic], sound[module]) == ("passed", "passed")
    config = bytearray(bare.path(CONFIG).read_bytes())
    config[DEVICE_CONTROL + 1] = 0x29
    bare.path(CONFIG).write_bytes(config)
    bare.run("rm -r /sys/module/ib_umad")
    spoilt = verify(bare, tmp_path)
    assert {name for name in sound if sound[name] != spoilt[name]} == {nic, module}


# ---- what a boot waits for ----


def gate(node: Sandbox, interpreter: str, *wishes: str) -> Any:
    program = shell.library("roles/rdma/at_boot")
    node.path(RDMA_GATE_SCRIPT_PATH).parent.mkdir(parents=True, exist_ok=True)
    node.path(RDMA_GATE_SCRIPT_PATH).write_text(program)
    return node.run(f"{interpreter} {RDMA_GATE_SCRIPT_PATH} {' '.join(wishes)}")


@pytest.mark.parametrize("interpreter", ["busybox sh", "dash", "bash --posix"])
def test_gate_opens_once_the_virtual_functions_exist(bare, interpreter):
    function = "/sys/devices/pci0000:15/0000:15:01.0/0000:17:00.1"
    link = f"/sys/bus/pci/devices/{ADDRESS}/virtfn0"
    late = f"sleep 1; mkdir -p {function}/infiniband/mlx5_9; ln -s {function} {link}"
    bare.run(f"({late}) > /dev/null 2>&1 < /dev/null &")
    done = gate(bare, interpreter, "20", "mlx5_0", f"{ADDRESS}=1")
    assert (done.returncode, done.stderr) == (0, "")


def test_gate_names_missing_devices_and_lets_kubelet_start(bare):
    done = gate(bare, "sh", "1", "mlx5_0", "mlx5_7", f"{ADDRESS}=2")
    assert done.returncode == 1
    assert done.stderr == f"still missing: mlx5_7 {ADDRESS}=2 (has 0); the kubelet starts without them\n"
