"""Two GPUs that are cut otherwise, and what held them."""

from collections.abc import Callable
from dataclasses import replace

from numaforge.change.transaction import Transaction
from numaforge.machine.topology.model import ComputeInstance, Gpu, GpuInstance
from numaforge.roles.files import part as files
from numaforge.roles.kubelet import part as kubelet
from numaforge.roles.mig import part as mig
from numaforge.roles.mig.files import MIG_UNIT_PATH
from numaforge.roles.mig.instance import MigGpu, MigInstance
from numaforge.roles.mig.mode import part as mig_mode
from numaforge.roles.mig.part import BOOT_LINK
from numaforge.roles.reboot import part as reboot
from tests.fakes.nvml.gpus import gpu_text
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.parts.subject import Subject, start_unless_stopped
from tests.ssh.sandbox import Sandbox, free_port
from tests.ssh.standin_bootloader import debian
from tests.ssh.standin_bootloader import install as install_bootloader
from tests.ssh.standin_gpus import PERSISTENCED, STATE, install, standin_gpus
from tests.ssh.standin_systemd import STATE as KUBELET_STATE
from tests.ssh.standin_systemd import standin_systemd
from tests.ssh.transactions import leftovers, process

FIRST, SECOND = "0000:1b:00.0", "0000:43:00.0"
POD = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice/cri-containerd-a.scope"
PERSON = "/user.slice/user-1000.slice/session-3.scope"

OLD = (MigInstance("3g.40gb", 9, 0, 4, (3,)), MigInstance("1g.10gb", 19, 6, 1, (1,)))
NEW = (MigInstance("3g.40gb", 9, 0, 4, (3,)), MigInstance("2g.20gb", 14, 4, 2, (1, 1)))
CUT = "instance 9 0", "compute 0 2 0 0", "instance 19 6", "compute 0 0 0 1"
HOPPERS = gpu_text("h100-80gb", FIRST, *CUT, number=1, mig="enabled") + gpu_text(
    "h100-80gb", SECOND, number=2
)
AMPERES = gpu_text("a100-40gb", FIRST, number=1) + gpu_text("a100-40gb", SECOND, number=2)

Cuts = dict[str, tuple[str, tuple[MigInstance, ...]]]
WAS: Cuts = {FIRST: ("enabled", OLD), SECOND: ("disabled", ())}
IS: Cuts = {FIRST: ("enabled", NEW), SECOND: ("enabled", NEW)}


def uuid(address: str) -> str:
    return f"GPU-{(FIRST, SECOND).index(address) + 1:08d}-0000-4000-8000-000000000000"


def wanted(cuts: Cuts) -> list[MigGpu]:
    return [MigGpu(address, uuid(address), mode, cut) for address, (mode, cut) in cuts.items()]


def seen(cuts: Cuts) -> list[Gpu]:
    def instance(number: int, each: MigInstance) -> GpuInstance:
        compute = tuple(ComputeInstance(at, slices) for at, slices in enumerate(each.compute_instances))
        return GpuInstance(number, each.profile_id, each.start, each.size, compute)

    return [
        Gpu(
            address,
            "10de",
            "2330",
            0,
            uuid=uuid(address),
            mig_mode=mode,
            mig_pending=mode,
            gpu_instances=tuple(instance(*each) for each in enumerate(cut)),
        )
        for address, (mode, cut) in cuts.items()
    ]


def change(port: int, was: Cuts = WAS, to: Cuts = IS, *, comes_up: bool = True) -> Transaction:
    return Transaction(
        "T1",
        (
            files.part([]),
            mig.part(wanted(to), seen(was), relinks=True, holders=(PERSISTENCED,)),
            kubelet.part(
                "kubelet.service",
                health=("127.0.0.1", port if comes_up else free_port()),
                start_seconds=60 if comes_up else 10,
                stable_seconds=1,
            ),
        ),
    )


Layout = dict[str, tuple[str, list[tuple[int, int, list[int]]]]]
"""The mode of each GPU, and its instances: profile, start and slices of each compute instance."""


def layout(node: Sandbox) -> Layout:
    """Return how the GPUs are cut, from the state of the fake library alone."""
    cuts: Layout = {}
    for line in node.path(STATE).read_text().splitlines():
        key, *values = line.split()
        if key == "gpu":
            address = values[0]
            cuts[address] = ("", [])
        elif key == "mig":
            cuts[address] = (values[0], cuts[address][1])
        elif key == "instance":
            cuts[address][1].append((int(values[0]), int(values[1]), []))
        elif key == "compute":
            cuts[address][1][-1][2].append(int(values[1]) + 1)
    return {address: (mode, sorted(cut)) for address, (mode, cut) in cuts.items()}


def layout_of(cuts: Cuts) -> Layout:
    return {
        address: (mode, sorted((each.profile_id, each.start, list(each.compute_instances)) for each in cut))
        for address, (mode, cut) in cuts.items()
    }


def start_node(start_sandbox: StartSandbox, port: int, gpus: str = HOPPERS) -> Sandbox:
    """A node with two Hoppers, or the GPUs asked for, a running kubelet and nvidia-persistenced."""
    sandbox = start_sandbox({**machine(), **standin_systemd(port), **debian(), **standin_gpus()})
    install_bootloader(sandbox)
    install(sandbox, gpus)
    sandbox.run(f"systemctl start kubelet.service; until [ -e {KUBELET_STATE} ]; do sleep 0.05; done")
    sandbox.run(": > /run/systemctl.log; mkdir -p /run/when /run/systemd/system")
    return sandbox


def active(node: Sandbox, unit: str = PERSISTENCED) -> bool:
    return node.path(f"/run/active/{unit}").exists()


def assert_old(node: Sandbox, was: Cuts = WAS) -> None:
    assert layout(node) == layout_of(was)
    assert not node.path(BOOT_LINK).is_symlink()
    assert active(node)
    assert leftovers(node) == []
    assert process(node).pid


def assert_new(node: Sandbox, to: Cuts = IS) -> None:
    assert layout(node) == layout_of(to)
    assert str(node.path(BOOT_LINK).readlink()) == MIG_UNIT_PATH
    assert active(node)
    assert leftovers(node) == []
    assert process(node).pid


SMALL = (MigInstance("3g.20gb", 9, 4, 4, (3,)),)
GUEST_SMALL = MigInstance("1g.5gb", 19, 0, 1, (1,))
GUEST = gpu_text("a100-40gb", FIRST, "virtualization passthrough", number=1) + gpu_text(
    "a100-40gb",
    SECOND,
    "virtualization passthrough",
    "instance 9 4",
    "compute 0 2 0 0",
    number=2,
    mig="enabled",
)
GUEST_WAS: Cuts = {FIRST: ("disabled", ()), SECOND: ("enabled", SMALL)}
GUEST_IS: Cuts = {FIRST: ("enabled", (*SMALL, GUEST_SMALL)), SECOND: ("disabled", ())}


def assert_in_a_guest(node: Sandbox, cuts: Cuts, held: Callable[[Sandbox, Cuts], None]) -> None:
    """Hold a guest's GPUs to be cut so, and none to have been reset: a guest cannot."""
    held(node, cuts)
    assert not node.path("/run/nvidia-smi.log").exists()


def guest_change(port: int) -> Transaction:
    passed_through = [
        replace(each, device="20b0", virtualization="passthrough", architecture="ampere")
        for each in seen(GUEST_WAS)
    ]
    first, _, last = change(port, GUEST_WAS, GUEST_IS).parts
    held = (PERSISTENCED,)
    mode = mig_mode.part(wanted(GUEST_IS), passed_through, holders=held)
    cut = mig.part(wanted(GUEST_IS), passed_through, relinks=True, holders=held)
    return Transaction("T1", (first, mode, reboot.part(), cut, last))


SUBJECT = Subject(
    "mig",
    start_node,
    change,
    assert_old,
    assert_new,
    forwards=(
        "apply mig",
        "keeping",
        "stop kubelet",
        "apply kubelet",
        "start kubelet",
        "prove mig",
        "prove kubelet",
        "prove kubelet again",
    ),
    back=("undo mig", "stop kubelet", "undo kubelet", "start kubelet", "prove mig", "prove kubelet"),
    after_boot=lambda node: start_unless_stopped(node, PERSISTENCED, "mig"),
)
IN_A_GUEST = replace(
    SUBJECT,
    name="mig-in-a-guest",
    start_node=lambda start_sandbox, port: start_node(start_sandbox, port, GUEST),
    change=guest_change,
    assert_old=lambda node: assert_in_a_guest(node, GUEST_WAS, assert_old),
    assert_new=lambda node: assert_in_a_guest(node, GUEST_IS, assert_new),
    forwards=(
        "apply mig_mode",
        "keeping",
        "stop kubelet",
        "apply reboot",
        "reboot",
        "apply mig",
        "apply kubelet",
        "booted",
        "prove mig_mode",
        "prove mig",
        "prove kubelet",
    ),
    back=(
        "undo mig_mode",
        "stop kubelet",
        "undo mig",
        "undo reboot",
        "start reboot",
        "reboot",
        "start kubelet",
        "prove mig_mode",
        "prove kubelet",
    ),
)
