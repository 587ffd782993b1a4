"""The mode of the GPUs' memory: an option that boots the node, proved by what NVIDIA's driver says.

The driver is a stand-in: /proc/driver/nvidia/params, as the real one writes it (a word in quotes).
"""

import json

import pytest

from numaforge.change.transaction import Transaction, start_script
from numaforge.lib.file_content import FileContent
from numaforge.node.bundle import FileChange
from numaforge.roles.files import part as files
from numaforge.roles.kubelet import part as kubelet
from numaforge.roles.modules import part as modules
from numaforge.roles.modules.files import MODPROBE_PATH
from numaforge.roles.reboot import part as reboot
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import NODE_KIB, machine
from tests.ssh.reboots import CUT_POWER, carried_out, through_boots
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_bootloader import boots
from tests.ssh.standin_rdma import install, standin_rdma
from tests.ssh.standin_systemd import DROP_IN, STATE, standin_systemd
from tests.ssh.transactions import MEMORY_STATE, leftovers, when

pytestmark = pytest.mark.core(
    "test_boot_without_the_memory_mode_is_undone_by_a_second_boot",
    "test_power_cut_leaves_the_old_or_the_new_state",
)
PARAMS = "/proc/driver/nvidia/params"
MODE = "NVreg_CoherentGPUMemoryMode"
NODE = "/sys/devices/system/node/node0/meminfo"
OLD_STATE = json.dumps(
    {
        "policyName": "Static",
        "machineState": {
            "0": {"numberOfAssignments": 0, "memoryMap": {"memory": {"total": NODE_KIB * 1024}}}
        },
    },
    separators=(",", ":"),
)


def params(mode: str) -> str:
    return f'ImexChannelCount: 2048\nCreateImexChannel0: 0\nCoherentGPUMemoryMode: "{mode}"\n'


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A node whose driver has taken its branch's default, and whose kubelet has kept its memory's state."""
    sandbox = start_sandbox(
        {
            **machine(),
            **standin_rdma(standin_systemd(port)),
            DROP_IN: "old\n",
            MEMORY_STATE: OLD_STATE,
            "/sys/module/nvidia/version": "580.95.05\n",
        }
    )
    install(sandbox)
    sandbox.run("mount -t tmpfs tmpfs /proc/driver && mkdir /proc/driver/nvidia")
    sandbox.path(PARAMS).write_text(params(""))
    sandbox.run("mkdir -p /run/when /run/systemd/system; systemctl start kubelet.service")
    return sandbox


def to_driver(port: int) -> Transaction:
    written = FileContent(MODPROBE_PATH, f"options nvidia {MODE}=driver\n")
    return Transaction(
        "T1",
        (
            files.part([FileChange(MODPROBE_PATH, None, written)]),
            modules.part([], [], [f"option nvidia {MODE} driver"]),
            reboot.part(),
            kubelet.part(
                "kubelet.service",
                invalid_state=[MEMORY_STATE],
                kept_state=[STATE],
                health=("127.0.0.1", port),
                start_seconds=60,
                stable_seconds=1,
            ),
        ),
    )


def load(node: Sandbox) -> None:
    """Have the driver do what modprobe is told."""
    told = node.path(MODPROBE_PATH).exists()
    node.path(PARAMS).write_text(params("driver" if told else ""))


def test_mode_is_proved_after_the_boot_and_old_memory_state_removed(node, port):
    assert carried_out(node, to_driver(port), at_boot=lambda: load(node)).outcome == "applied"
    assert not node.path(MEMORY_STATE).exists()
    assert (boots(node), leftovers(node)) == (1, [])


def test_boot_without_the_memory_mode_is_undone_by_a_second_boot(node, port):
    result = carried_out(node, to_driver(port))  # with an initial RAM disk of before
    assert result.outcome == "rolled-back", result
    assert result.reason.startswith(f'the module nvidia has {MODE}="", not driver; is the initial RAM disk')
    assert (node.path(MODPROBE_PATH).exists(), node.path(MEMORY_STATE).read_text()) == (False, OLD_STATE)
    assert boots(node) == 2


def test_memory_state_that_does_not_fit_after_the_undo_boot_is_set_aside(node, port):
    """The kernel lies elsewhere after each boot (KASLR): the old kubelet would not start with it."""
    node.run(start_script(to_driver(port)))
    moved = f"Node 0 MemTotal: {NODE_KIB - 44_000} kB\n"
    result = through_boots(node, at_boot=lambda: node.path(NODE).write_text(moved))
    assert result.outcome == "rolled-back", result
    assert not node.path(MEMORY_STATE).exists()
    assert node.path(f"{MEMORY_STATE}.earlier-boot").read_text() == OLD_STATE
    assert leftovers(node) == []


@pytest.mark.variants(1)
@pytest.mark.parametrize("event", ["apply modules", "reboot", "prove modules"])
def test_power_cut_leaves_the_old_or_the_new_state(node, port, event):
    when(node, event, CUT_POWER)
    result = carried_out(node, to_driver(port), at_boot=lambda: load(node))
    assert node.path("/run/boots").exists()
    applied = result.outcome == "applied"
    assert node.path(MODPROBE_PATH).exists() is applied
    assert node.path(PARAMS).read_text() == params("driver" if applied else "")
    assert node.path(MEMORY_STATE).exists() is not applied
    assert leftovers(node) == []
