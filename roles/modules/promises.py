"""Kernel modules as they are now, and who manages the memory of GPUs by an option of nvidia.ko."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from numaforge.lib import shell
from numaforge.machine.topology.memory_mode import DRIVER, NUMA
from numaforge.roles.modules.part import switch
from numaforge.roles.promise import Promise, Table, asks_names, require, require_equal, values_of

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.verification.live import VerifiedNode


def modules(plan: NodePlan) -> Table:
    """Each module to load and, where reboots are allowed, each blocked one."""
    blocked = plan.modules.blocked if plan.kernel.reboot == "allowed" else ()
    return {**dict.fromkeys(plan.modules.load, True), **dict.fromkeys(blocked, False)}


def module_options(plan: NodePlan) -> Table:
    """Each module option, where reboots are allowed; elsewhere it may still wait for one."""
    if plan.kernel.reboot != "allowed":
        return {}
    return {
        f"{module}-{name}": (f"/sys/module/{module}/parameters/{name}", value or "1")
        for module, options in plan.modules.options.items()
        for name, _, value in (option.partition("=") for option in options)
    }


def _module(node: VerifiedNode, name: str, expected: bool) -> None:
    loaded = name in node.live.of("module")
    actual, planned = ("loaded", "not loaded") if loaded else ("not loaded (is it built in?)", "loaded")
    require(loaded is expected, f"{actual}, planned {planned}")


def _module_option(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    path, value = expected
    actual = node.value(path)
    if actual is None:
        pytest.skip(f"the module does not expose it: {path} is missing")
    require(switch(actual.strip()) == switch(value), f"{actual.strip()}, planned {value} ({path})")


def gpu_memory(plan: NodePlan) -> Table:
    """The planned mode, unless it waits for a boot that is not allowed."""
    mode = plan.gpu_memory.mode
    return {} if mode is None or plan.gpu_memory.waits else {"mode": mode}


def gpu_memory_nodes(plan: NodePlan) -> Table:
    """Each NUMA node of a GPU, and whether the kernel has memory there."""
    return {
        f"node-{node}": mode == NUMA
        for mode in gpu_memory(plan).values()
        for node, amount in plan.gpu_memory.memory.items()
        if amount
    }


def _asks_gpu_memory(plan: NodePlan) -> Iterator[str]:
    """Yield the shell call that prints the mode and the memory of the NUMA nodes."""
    if gpu_memory(plan):
        yield shell.call("tell_gpu_memory", [node.removeprefix("node-") for node in gpu_memory_nodes(plan)])


def _gpu_memory(node: VerifiedNode, name: str, expected: str) -> None:
    setting = node.live.of("gpu-memory").get(name)
    if setting is None:
        pytest.skip("NVIDIA's driver is not loaded, or does not say: /proc/driver/nvidia/params")
    if setting == '""':
        pytest.skip("no option says the mode: the driver has taken its branch's default")
    require_equal(setting, expected, "NVreg_CoherentGPUMemoryMode in /proc/driver/nvidia/params")


def _gpu_memory_node(node: VerifiedNode, name: str, expected: bool) -> None:
    kilobytes = node.live.of("gpu-memory").get(name)
    planned = f"some, as {NUMA} manages it" if expected else f"none, as {DRIVER} manages it"
    require(
        (kilobytes not in (None, "0")) is expected, f"{kilobytes or 'no'} kB of memory, planned {planned}"
    )


PROMISES = (
    Promise("module", modules, _module, asks=asks_names("tell_modules", modules)),
    Promise("module_option", module_options, _module_option, values=values_of(module_options)),
    Promise("gpu_memory", gpu_memory, _gpu_memory, asks=_asks_gpu_memory),
    Promise("gpu_memory_node", gpu_memory_nodes, _gpu_memory_node),
)
