"""Two AMD GPUs that get other modes, and what held them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from numaforge.change.transaction import Transaction
from numaforge.roles.amd_partitions import part as amd
from numaforge.roles.amd_partitions.files import AMD_UNIT_PATH
from numaforge.roles.amd_partitions.instance import AmdGpu
from numaforge.roles.amd_partitions.part import BOOT_LINK
from numaforge.roles.files import part as files
from numaforge.roles.kubelet import part as kubelet
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.parts.subject import Subject, start_unless_stopped
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_amdgpu import ADDRESSES, GPUAGENT, install, modes, power_on, standin_amdgpu
from tests.ssh.standin_bootloader import debian
from tests.ssh.standin_bootloader import install as install_bootloader
from tests.ssh.standin_systemd import STATE as KUBELET_STATE
from tests.ssh.standin_systemd import standin_systemd
from tests.ssh.transactions import leftovers, process

COUNTS = {"SPX": 1, "DPX": 2, "QPX": 4, "CPX": 8}
WAS, IS = "SPX NPS1", "CPX NPS4"


def gpus(*said: str) -> list[AmdGpu]:
    """Return the GPUs in these modes; the first for both, where there is one."""
    each = [text.split() for text in (said if len(said) > 1 else said * 2)]
    return [
        AmdGpu(address, compute, memory, COUNTS[compute])
        for address, (compute, memory) in zip(ADDRESSES, each, strict=True)
    ]


def change(
    port: int,
    to: Sequence[str] = (IS,),
    was: Sequence[str] = (WAS,),
    *,
    impatient: Mapping[str, str] | None = None,
    **more: Any,
) -> Transaction:
    """Return a change of both GPUs; `impatient` are constants of the worker, by name."""
    part = amd.part(gpus(*to), gpus(*was), relinks=True, holders=(GPUAGENT,), **more)
    program = part.data["worker.py"]
    for name, value in {"BUSY_SECONDS": "1", **(impatient or {})}.items():
        assert f"\n{name} = " in program
        before, _, after = program.partition(f"\n{name} = ")
        program = f"{before}\n{name} = {value}\n{after.partition(chr(10))[2]}"
    part = replace(part, data={**part.data, "worker.py": program})
    last = kubelet.part(
        "kubelet.service",
        health=("127.0.0.1", port),
        start_seconds=60,
        stable_seconds=1,
    )
    return Transaction("T1", (files.part([]), part, last))


def start_node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A node with two MI300X, a running kubelet and gpuagent, which holds /dev/kfd."""
    sandbox = start_sandbox({**machine(), **standin_systemd(port), **debian(), **standin_amdgpu()})
    install_bootloader(sandbox)
    install(sandbox)
    sandbox.run(f"systemctl start kubelet.service; until [ -e {KUBELET_STATE} ]; do sleep 0.05; done")
    sandbox.run(": > /run/systemctl.log; mkdir -p /run/when /run/systemd/system")
    return sandbox


def active(node: Sandbox, unit: str = GPUAGENT) -> bool:
    return node.path(f"/run/active/{unit}").exists()


def as_said(*said: str) -> dict[str, str]:
    return {gpu.pci_address: f"{gpu.modes} x{gpu.partitions}" for gpu in gpus(*said)}


def assert_old(node: Sandbox, *was: str) -> None:
    assert modes(node) == as_said(*(was or (WAS,)))
    assert not node.path(BOOT_LINK).is_symlink()
    assert active(node)
    assert leftovers(node) == []
    assert process(node).pid


def assert_new(node: Sandbox, *to: str) -> None:
    assert modes(node) == as_said(*(to or (IS,)))
    assert str(node.path(BOOT_LINK).readlink()) == AMD_UNIT_PATH
    assert active(node)
    assert leftovers(node) == []
    assert process(node).pid


def forgetful(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A node whose firmware forgets the modes with the power."""
    node = start_node(start_sandbox, port)
    node.path("/run/amdgpu/forgets").touch()
    return node


SUBJECT = Subject(
    "amd_partitions",
    start_node,
    change,
    assert_old,
    assert_new,
    forwards=(
        "apply amd_partitions",
        "keeping",
        "stop kubelet",
        "apply files",
        "apply kubelet",
        "start kubelet",
        "prove amd_partitions",
        "prove kubelet",
        "prove kubelet again",
    ),
    back=(
        "undo amd_partitions",
        "stop kubelet",
        "undo kubelet",
        "start kubelet",
        "prove amd_partitions",
        "prove kubelet",
    ),
    at_boot=power_on,
    after_boot=lambda node: start_unless_stopped(node, GPUAGENT, "amd"),
)
FORGETFUL = replace(SUBJECT, name="amd_partitions-forgets", start_node=forgetful)
